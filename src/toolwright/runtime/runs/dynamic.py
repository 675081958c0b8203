"""Dynamic values of runs: an agent's instructions and tools, as its functions return them for the state of a run.

What they have returned is part of each answer (`Message.decided`), so that a run continues with it after a crash.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.dependencies.dynamic import Dynamic, ValueOf, dynamic_of, is_true, text_of
from toolwright.core.errors import FunctionFailed
from toolwright.core.requests.speaker import ComposedForm
from toolwright.core.threads.compaction import refers, text_digest
from toolwright.core.threads.message import Decided
from toolwright.core.value import changed
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame
from toolwright.runtime.runs.ends import RunEnds
from toolwright.runtime.state.state import HandlerServices, RunState, view_of

INSTRUCTIONS = "instructions"
"""The part of an agent's state that has the instructions of a step."""
MAX_CACHED_AGENTS = 1_000  # active agents without unavailable tools


class DynamicValues:
    """Calls the functions that agents depend on, each once in a run or a step. The run fails if one fails."""

    def __init__(
        self,
        services: HandlerServices,
        value_of: ValueOf,
        ends: RunEnds,
        with_reader: Callable[[ActiveAgent, bool], ActiveAgent],
    ) -> None:
        self._services = services
        self._value_of = value_of
        self._ends = ends
        self._with_reader = with_reader
        self._narrowed: OrderedDict[tuple[int, Collection[str]], tuple[ActiveAgent, ActiveAgent]] = (
            OrderedDict()
        )

    async def select(self, context: RunContext, base: ActiveAgent, active: ActiveAgent) -> bool:
        """Make `active` the agent of the run, with the available tools. Returns False if the run has failed."""
        if context.base is not base or context.root.active is None:
            context.set_speaker(base, active)  # the functions read the state of this agent
        try:
            context.set_speaker(base, await self._available(context, context.root, active))
        except FunctionFailed as error:
            return await self._fail(context, error)
        return True

    async def prepare(self, context: RunContext) -> bool:
        """Set the instructions of the next request, and the tools within a prompt tool. Returns False as `select`."""
        frame = context.frame
        try:
            if frame.call is not None:
                frame.base = frame.base or context.active
                active = await self._available(context, frame, frame.base)
                if frame.compactions:
                    active = self._with_reader(active, refers(frame.compactions.values()))
                context.activate(frame, active)
            await self._instruct(context)
        except FunctionFailed as error:
            return await self._fail(context, error)
        return True

    async def resume(self, context: RunContext, frame: Frame) -> bool:
        """Give the calls of a prompt tool's conversation the tools that their answer had. Returns False as `select`."""
        if frame.active is not None and frame.active.is_dynamic:
            frame.base = frame.active
            try:
                frame.active = await self._available(context, frame, frame.active)
            except FunctionFailed as error:  # asked if the prompt was not dynamic when it answered
                return await self._fail(context, error)
        return True

    async def _fail(self, context: RunContext, error: FunctionFailed) -> bool:
        await self._ends.fail(context, context.redactor.text(error.message), error.code)
        return False

    async def _available(self, context: RunContext, frame: Frame, base: ActiveAgent) -> ActiveAgent:
        """Return the agent with the tools that are available in this step of the conversation.

        The calls of a step have the tools that their answer had.
        """
        asked = [
            (tool.name, dynamic_of(tool.available))
            for tool in base.by_name.values()
            if tool.available is not None
        ]
        if not asked:
            return base
        known, state = _decided(context, frame, base), None
        unavailable = list[str]()
        for name, dynamic in asked:
            if known is not None and (frame.open or not dynamic.per_step):
                is_off = name in known.unavailable
            else:
                state = state or await self._state(context)
                is_off = not await is_true(dynamic, state, self._value_of)
            if is_off:
                unavailable.append(name)
        instructions = "" if known is None else known.instructions
        _decide(
            context,
            frame,
            Decided(prompt=base.prompt.name, instructions=instructions, unavailable=tuple(unavailable)),
        )
        return self._without(base, tuple(unavailable)) if unavailable else base

    async def _instruct(self, context: RunContext) -> None:
        """Set the instructions of the next request of the current conversation, if a function returns them."""
        frame, active = context.frame, context.active
        dynamic = active.prompt.dynamic
        if dynamic is None:
            frame.text, frame.told = None, None
        elif dynamic.per_step:
            frame.text, frame.told = None, {INSTRUCTIONS: await self._text(context, dynamic)}
        else:
            frame.text, frame.told = await self._of_run(context, frame, active, dynamic), None

    async def _of_run(self, context: RunContext, frame: Frame, active: ActiveAgent, dynamic: Dynamic) -> str:
        """Return the instructions of the run: those of its first request, or what the function returns."""
        known = _decided(context, frame, active) or Decided(prompt=active.prompt.name)
        if known.instructions:
            if frame.text is not None and text_digest(frame.text) == known.instructions:
                return frame.text
            rows = await context.retry_until_available(
                lambda: self._services.store.sent_texts(context.thread.id, [known.instructions])
            )
            if rows:
                return rows[0].text
        text = await self._text(context, dynamic)
        _decide(context, frame, changed(known, instructions=text_digest(text)))
        return text

    async def _text(self, context: RunContext, dynamic: Dynamic) -> str:
        return await text_of(dynamic, await self._state(context), self._value_of)

    async def _state(self, context: RunContext) -> RunState:
        return await view_of(context, self._services)

    def _without(self, base: ActiveAgent, names: tuple[str, ...]) -> ActiveAgent:
        """Return the agent without these tools: the same object each time."""
        key = id(base), names
        known = self._narrowed.get(key)
        if known is None or known[0] is not base:
            narrowed = base.without(names)
            if isinstance(base.form, ComposedForm):
                narrowed = changed(narrowed, form=base.form.without(names))
            known = self._narrowed[key] = base, narrowed
            if len(self._narrowed) > MAX_CACHED_AGENTS:
                self._narrowed.popitem(last=False)
        return known[1]


def _decide(context: RunContext, frame: Frame, decided: Decided) -> None:
    frame.decided, frame.decided_for = decided, context.run.id


def _decided(context: RunContext, frame: Frame, active: ActiveAgent) -> Decided | None:
    """Return what was decided for the agent's prompt in this run: in this process, or for its last answer."""
    prompt, run_id = active.prompt.name, context.run.id
    if frame.decided is not None and (frame.decided.prompt, frame.decided_for) == (prompt, run_id):
        return frame.decided
    for message in reversed(frame.messages):
        if message.run_id != run_id:
            break
        if message.decided is not None and message.decided.prompt == prompt:
            return message.decided
    return None
