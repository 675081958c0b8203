"""Preparation of a step: who speaks, calls that no model has asked for, limits, missing values."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile

from toolwright.core.env.env import EnvVar
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.child_effects import Activated
from toolwright.core.journal.units import Finish, Result
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.compaction import READ_RESULT
from toolwright.core.threads.inbox import FAULT, InboxEvent
from toolwright.core.threads.run import QueuedCall, Run
from toolwright.core.tools.pipeline import prepare
from toolwright.core.value import changed
from toolwright.runtime.agents.speakers import Speakers
from toolwright.runtime.calls.variables import missing_variables, park_for
from toolwright.runtime.children.step_tools import StepTools
from toolwright.runtime.context.changes import Changes, End, Next
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env.env import Environment
from toolwright.runtime.model.answer import asked_call, outside_calls, queued_message
from toolwright.runtime.runs.commits import RunCommits, end_of_calls
from toolwright.runtime.runs.step_calls import StepCalls
from toolwright.runtime.threads.thread_tree import child_id_of

MOST_AT_ONCE = 100  # calls from outside that are begun in one step


class BeforeStep:
    """Makes a thread ready for its next step."""

    def __init__(
        self,
        step_calls: StepCalls,
        commits: RunCommits,
        speakers: Speakers,
        step_tools: StepTools,
        environment: Environment,
    ) -> None:
        self._step_calls = step_calls
        self._commits = commits
        self._speakers = speakers
        self._step_tools = step_tools
        self._environment = environment

    async def select_agent(self, context: RunContext) -> bool:
        """Let the side speak whose turn it is, of the agent that answers now; false if there is none."""
        base, answering = context.base, _answering(context)
        if base is None or base.agent_id != answering:
            thread = changed(context.thread, active_agent=answering)
            active = await context.retry_until_available(lambda: self._speakers.of(thread, context.run))
            if isinstance(active, str):
                await self._commits.fail(context, active)
                return False
            base = active
        if base.has_schema_tools:
            await context.load_values()
        base = base.sides.get(context.run.side, base)
        context.set_speaker(base, await self._step_tools.offered(context, base))
        return True

    async def ready(self, context: RunContext) -> bool:
        """Return whether the model is to be asked now; else what comes before that is done."""
        if not context.agent_unchanged and not await self.select_agent(context):
            return False
        if context.inbox and (asked := context.joined_calls()):
            lost = [event for event in asked if event.content["agent"] != context.thread.answering]
            invalid_value = FAULT in asked[0].content
            first = [
                *takewhile(lambda event: (FAULT in event.content) == invalid_value, asked[:MOST_AT_ONCE])
            ]
            if lost:
                await self._commits.commit(context, partial(self._commits.handed_over, context, lost))
            elif invalid_value:
                await self._commits.commit(context, partial(self._commits.refused, context, first))
            else:
                await self._carry_out(context, first)
            return False
        if context.answers_nothing and not context.run.queued:
            await self._commits.end(context, Finish, Changes(), end_of_calls(context.run))
            return False
        if context.run.calls_only and not context.run.queued and not context.joined():
            await self._commits.commit(context, partial(_calls_over, context))
            return False
        if context.run.calls_only and context.joined():
            context.run = changed(context.run, calls_only=False)  # somebody speaks in it: the model answers
        queued = [each for each in context.run.queued if each.within is None] if context.run.queued else ()
        if queued and _rounds(context) <= self._commits.max_steps:
            await self._call_at_once(context, Changes(), changed(context.run, queued=()), queued)
            return False
        limit = "max_steps" if queued else self._commits.exhausted(context)
        if limit is not None:
            await self._commits.end(context, Finish, Changes(), End("completed", limit))
            return False
        active = context.active
        if active.variables or context.thread.parent_id is not None:
            missing = await missing_variables(context)
            if missing:
                await park_for(context, missing)
                return False
        return not active.relations or not await self._begin_immediate(context)

    async def _begin_immediate(self, context: RunContext) -> bool:
        """Call what a prompt calls as soon as it is active; whether there was such a thing (S0 §5).

        That is decided once for each activation of a prompt, also where it comes to nothing.
        """
        side = context.run.side
        if side in context.thread.activated or not any(
            each.config.immediate for each in context.active.relations
        ):
            return False
        try:
            immediate_calls = await self._step_tools.immediate(context)
        except InvalidRequest as error:
            await self._commits.end(
                context, Finish, Changes(), End("failed", error=error.message, error_code=error.code)
            )
            return True
        sides = (*context.thread.activated, side)
        changes = Changes(effects=(Activated(thread_id=context.thread.id, sides=sides),))
        if not immediate_calls:
            await context.commit(Result, changes, context.run)
            return False
        values = [each.values for each in immediate_calls]
        await self._call_at_once(
            context, changes, context.run, [each.call for each in immediate_calls], values
        )
        return True

    async def _carry_out(self, context: RunContext, events: Sequence[InboxEvent]) -> None:
        """Begin calls that were made from outside: they are recorded as if the one that speaks had made them."""
        run = context.run
        if run.calls_only:
            run = changed(run, step_count=run.step_count + 1)
        reads = any(event.content["name"] == READ_RESULT for event in events)
        if reads and context.base is not None:
            context.set_speaker(context.base, self._step_tools.with_reader(context.active, False))
        calls = outside_calls(context, events, run.step_count)
        read = tuple([event.event_id for event in events])

        async def begun() -> Next:
            changes = Changes(read=read)
            context.put(changes, queued_message(context, calls, context.place(changes)))
            return self._step_calls.begin(context, changes, calls, run)

        await self._commits.commit(context, begun)

    async def _call_at_once(
        self,
        context: RunContext,
        changes: Changes,
        run: Run,
        queued: Sequence[QueuedCall],
        values: Sequence[Mapping[str, EnvVar]] = (),
    ) -> None:
        """Begin calls that no model has asked for: they are recorded as if the one that speaks had made them.

        `values` are what their children get for themselves.
        """
        calls = [
            asked_call(context, each, number) for number, each in enumerate(queued, len(context.root.calls))
        ]
        changes.env = tuple(
            [
                self._environment.change(child_id_of(call.id), name, var, context.clock.now())
                for call, own in zip(calls, values, strict=False)
                if own and _can_begin(context, call)
                for name, var in own.items()
            ]
        )

        async def begun() -> Next:
            all_changes = changes.copy()
            context.put(all_changes, queued_message(context, calls, context.place(all_changes)))
            return self._step_calls.begin(context, all_changes, calls, run)

        await self._commits.commit(context, begun)


async def _calls_over(context: RunContext) -> Next:
    """The end of a run that executes calls alone, once there are none."""
    return Next(kind=Result, changes=Changes(), run=context.run, end=end_of_calls(context.run))


def _can_begin(context: RunContext, call: Call) -> bool:
    """Return whether the call's arguments are such that a child can begin; else no values are needed."""
    return not isinstance(prepare(context.active.by_name, call.name, call.arguments, call.id), ToolResult)


def _answering(context: RunContext) -> str:
    """The agent that answers; calls that are open are still those of the one that has made them (S0 §4)."""
    waiting = context.root.unanswered()
    return (waiting[0].agent if waiting else None) or context.thread.answering


def _rounds(context: RunContext) -> int:
    """Number of rounds of calls since a model has spoken last, with its own."""
    run = context.run
    return sum(
        m.run_id == run.id and m.role == "assistant" and m.step == run.step_count
        for m in context.root.messages
    )
