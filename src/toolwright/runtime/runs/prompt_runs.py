"""Calls within calls: the conversation of a prompt tool, and what handlers call with `invoke_tool`.

Their rows are named after the call that made them. What a model asks for within a prompt tool is carried out like
any call, in a frame of its own on top of the thread's; what a handler calls is waited for in memory.
"""

from collections.abc import Sequence
from typing import Protocol

from toolwright.core.env.logs import logger
from toolwright.core.errors import ToolwrightError, Unwritable
from toolwright.core.journal.units import Answer, Result
from toolwright.core.model import ModelCall, ModelResponse
from toolwright.core.results.result import Outcome, ToolResult
from toolwright.core.text import quantity, words
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import QueuedCall, Run
from toolwright.core.value import changed
from toolwright.runtime.calls.calls import Calls, LastWords
from toolwright.runtime.calls.handlers import Handlers, Ran
from toolwright.runtime.calls.nested import Nested, nested_calls, nested_message
from toolwright.runtime.calls.waiting import Waiting
from toolwright.runtime.context.changes import Changes
from toolwright.runtime.context.commit import Answered
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.frame import Frame
from toolwright.runtime.env.redaction import clean_arguments, clean_response
from toolwright.runtime.model.answer import asked_call, total_cost
from toolwright.runtime.model.ask import Asking
from toolwright.runtime.state.state import RunState

log = logger("toolwright.runtime")

ENDED = LastWords(
    code="interrupted",
    what="The call that made this one ended",
    running="The call that made this one ended before it; its effect is unknown.",
)
CANCELLED = ToolResult.fail("The run was cancelled.", error_code="cancelled")
STOPPED = ToolResult.fail("The session was stopped within this call.", error_code="stopped")


class Way(Protocol):
    """What calls within calls need of the way of calls."""

    async def begin(self, context: RunContext, changes: Changes, calls: Sequence[Call], run: Run) -> Answered:
        """Commit calls that are new."""
        ...

    async def answer(self, context: RunContext, call: Call) -> None:
        """Take a call one commit farther."""
        ...

    async def take(self, context: RunContext, call: Call, ran: Ran, outcome: Outcome) -> None:
        """Commit what became of a call."""
        ...


class PromptRuns:
    """Leads conversations within calls, and makes the calls of handlers."""

    def __init__(
        self,
        way: Way,
        calls: Calls,
        handlers: Handlers,
        asking: Asking,
        waiting: Waiting,
        nested: Nested,
        *,
        max_steps: int,
    ) -> None:
        self._way = way
        self._calls = calls
        self._handlers = handlers
        self._asking = asking
        self._waiting = waiting
        self._nested = nested
        self._max_steps = max_steps

    # ── the conversation of a prompt tool ───────────────────────────────────────────────────────────────────

    async def enter(self, context: RunContext, call: Call) -> None:
        """It begins, or goes on where it was."""
        begun = await self._nested.frame(context, call)
        if isinstance(begun, Frame):
            context.enter_frame(begun)
        else:
            await self._leave(context, call, begun)

    async def advance(self, context: RunContext) -> None:
        """One commit farther: a call, a step, or the end."""
        frame = context.frame
        waiting = frame.unanswered()
        queued = [each for each in context.run.queued if each.within == frame.id]
        last = frame.messages[-1] if frame.messages else None
        if waiting:
            await self._way.answer(context, waiting[0])
        elif last is not None and last.role == "assistant" and not last.calls:
            await self._answered(context, frame, await self._nested.answer(context, frame))
        elif frame.steps >= self._max_steps:
            steps = quantity(self._max_steps, "step")
            error = f"The prompt {context.active.prompt.name!r} came to no answer in {steps}."
            await self._answered(context, frame, ToolResult.fail(error, error_code="max_steps"))
        elif queued:
            await self._call_queued(context, frame, queued)
        else:
            await self._step(context, frame)

    async def _step(self, context: RunContext, frame: Frame) -> None:
        response = await self._asked(context, frame)
        if isinstance(response, ToolResult):
            await self._answered(context, frame, response)
        elif response is not None:
            usage, cost = context.run.usage + response.usage, total_cost(context.run.cost, response.cost)
            await self._say(context, frame, response, changed(context.run, usage=usage, cost=cost))

    async def _asked(self, context: RunContext, frame: Frame) -> ModelResponse | ToolResult | None:
        """The model's answer; the error that its failure is to the caller; None if the run was cancelled."""
        try:
            response = await self._asking.ask_within(context, frame)
        except ToolwrightError as error:
            return ToolResult.fail(error.message, error_code=error.code)
        except (Exception, SystemExit) as error:  # a model of the user's own may raise anything
            log.exception("The model of the prompt %r failed.", context.active.prompt.name)
            return ToolResult.fail(f"The model failed: {words(error)}", error_code="model")
        if response is None or not context.redactor:
            return response
        return clean_response(response, context.redactor, context.active.by_name)

    async def _call_queued(self, context: RunContext, frame: Frame, queued: Sequence[QueuedCall]) -> None:
        asked = tuple([ModelCall(id="", name=each.name, arguments=each.arguments) for each in queued])
        rest = tuple([each for each in context.run.queued if each not in queued])
        await self._say(context, frame, ModelResponse(calls=asked), changed(context.run, queued=rest))

    async def _say(self, context: RunContext, frame: Frame, response: ModelResponse, run: Run) -> None:
        committed: Answered = "space"
        while committed == "space":
            changes, calls = Changes(), nested_calls(context, frame, response)
            changes.messages.append(nested_message(context, frame, response, calls, context.place(changes)))
            committed = await (
                self._way.begin(context, changes, calls, run)
                if calls
                else context.commit(Answer, changes, run)
            )

    async def _answered(self, context: RunContext, frame: Frame, result: ToolResult) -> None:
        """The conversation is over: its call has its result, or the handler that has made the call."""
        assert frame.call is not None, "the thread's own conversation is never left"
        self._calls.forget(frame.calls)
        if frame.holder is not None:
            frame.answer = result
            return
        context.leave_frames(len(context.frames) - 1)
        await self._leave(context, frame.call, result)

    async def _leave(self, context: RunContext, call: Call, result: ToolResult) -> None:
        del context.prepared[call.id]
        await self._way.take(
            context, call, Ran(result, self._handlers.state(context, call, self.invoke)), result
        )

    # ── what handlers call ──────────────────────────────────────────────────────────────────────────────────

    async def invoke(self, context: RunContext, state: RunState, name: str, arguments: str) -> ToolResult:
        """Make a call from within a handler, through the same pipeline, recorded below the handler's own call."""
        arguments = clean_arguments(arguments, context.redactor) if context.redactor else arguments
        call_id, number, known = await self._nested.recorded(context, state, name, arguments)
        if known is None:
            asked = QueuedCall(name=name, arguments=arguments)
            await self._begin(context, asked_call(context, asked, number, call_id, state.call))
        else:
            context.nested[call_id] = known
            if known.status == "running":
                await self._begin_again(context, known)
        call = context.nested[call_id]
        if call.status == "running":
            await self._carry_out(context, state, call)
            call = context.nested[call_id]
        if call.status == "waiting":
            return await self._waiting.nested(context, call)
        return self._calls.result_of(call)

    async def _begin(self, context: RunContext, call: Call) -> None:
        """Commit the call, settled at once or begun."""
        context.nested[call.id] = call
        committed: Answered = "space"
        while committed == "space":
            changes = Changes()
            refused = self._calls.refusal(context, call)
            if refused is None:
                self._calls.begin(context, [call], changes)
            else:
                self._calls.settle(context, changes, call, refused)
            changes.nested, changes.call_changes = [call.moved(changes.call_changes[0])], []
            committed = await context.commit(Result, changes, context.run)

    async def _begin_again(self, context: RunContext, call: Call) -> None:
        """A process died while it ran this call: it runs once more if it may, else its effect is unknown (D14)."""
        changes = Changes()
        result = self._calls.interrupted(context, call)
        if result is None:
            self._calls.begin_again(context, changes, call)
        else:
            await self.close_left_below(context, changes, call)
            self._calls.settle(context, changes, call, result)
        await context.commit(Result, changes, context.run)

    async def _carry_out(self, context: RunContext, state: RunState, call: Call) -> None:
        try:
            if context.prepared[call.id].tool.carrier == "prompt":
                result = await self._converse(context, state, call)
                ran = Ran(result, self._handlers.state(context, call, self.invoke))
            else:
                ran = await self._handlers.carry_out(context, call, self.invoke)
        finally:
            context.prepared.pop(call.id, None)
        await self._take(context, call, ran)
        await state.hear(ran.state.execution)

    async def _converse(self, context: RunContext, state: RunState, call: Call) -> ToolResult:
        """A prompt tool's whole conversation, while a handler waits for its answer."""
        frame = await self._nested.frame(context, call)
        if isinstance(frame, ToolResult):
            return frame
        frame.holder = state.execution
        depth = context.enter_frame(frame)
        try:
            while frame.answer is None and not context.abort.aborted and not state.execution.ends:
                await self.advance(context)
        finally:
            context.leave_frames(depth)
        return frame.answer or (CANCELLED if context.abort.aborted else STOPPED)

    async def _take(self, context: RunContext, call: Call, ran: Ran) -> None:
        """Commit what became of a handler's call."""
        try:
            await self._take_outcome(context, call, ran, ran.outcome or CANCELLED)
        except Unwritable as error:
            changes = Changes()
            self._calls.settle(context, changes, call, ToolResult.fail(error.message, error_code=error.code))
            await context.commit(Result, changes, context.run)

    async def _take_outcome(self, context: RunContext, call: Call, ran: Ran, outcome: Outcome) -> None:
        committed: Answered = "file"
        while committed in ("file", "space", "busy", "child_limit", "terminated"):
            kept, changes = await self._handlers.keep(context, ran, call, outcome)
            await self.close_below(context, changes, call)
            self._calls.take(context, changes, call, kept)
            committed = await context.commit(Result, changes, context.run)

    async def close_below(self, context: RunContext, changes: Changes, call: Call) -> None:
        """What a call has begun and not ended, ends with it; one that began in this process is known to have or not."""
        if call.attempts > 1 or any(_at_work(each) for each in context.nested.values()):
            await self.close_left_below(context, changes, call)

    async def close_left_below(self, context: RunContext, changes: Changes, call: Call) -> None:
        """The same for a call that a dead process had begun."""
        for each in await self._nested.left_open(context, call):
            self._calls.close(context, changes, each, ENDED)


def _at_work(call: Call) -> bool:
    return call.status in ("created", "running", "waiting")
