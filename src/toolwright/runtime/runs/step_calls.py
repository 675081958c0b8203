"""The calls' part of a step: begun, executed or waited for, their results committed, until all are answered."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from toolwright.core.agents.active import CallSummary, after_calls, side_over
from toolwright.core.concurrency import is_cancelled
from toolwright.core.env.logs import logger
from toolwright.core.errors import Unwritable
from toolwright.core.journal.child_effects import HandOff
from toolwright.core.journal.units import Advance, Answer, Finish, Result
from toolwright.core.requests.speaker import ComposedForm
from toolwright.core.results.result import Outcome, ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.run import Run
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.value import changed
from toolwright.runtime.calls.approvals import decide
from toolwright.runtime.calls.calls import Calls, can_run_concurrently, max_concurrent
from toolwright.runtime.calls.handlers import HandlerOutcome, Handlers
from toolwright.runtime.calls.messages import AbandonedCallResults
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.calls.variables import missing_for, needed_by, park_for
from toolwright.runtime.calls.waiting import Waiting
from toolwright.runtime.context.changes import Changes, End, Next
from toolwright.runtime.context.commit import EffectRefused
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.execution import RunExecution
from toolwright.runtime.context.frame import Frame
from toolwright.runtime.context.record import CALL_ID
from toolwright.runtime.model.answer import total_cost
from toolwright.runtime.runs.commits import RunCommits
from toolwright.runtime.state.state import Invoke
from toolwright.wire.event import step_event

log = logger("toolwright.runtime")

ENDED = AbandonedCallResults(
    code="interrupted",
    what="The call that made this one ended",
    running="The call that made this one ended before it; its effect is unknown.",
)


class StepCalls:
    """Takes the calls of a step to their answers, one commit at a time; `invoke` makes the calls of handlers."""

    def __init__(
        self,
        calls: Calls,
        handlers: Handlers,
        waiting: Waiting,
        nested: Nested,
        commits: RunCommits,
        invoke: Invoke,
    ) -> None:
        self._calls = calls
        self._handlers = handlers
        self._waiting = waiting
        self._nested = nested
        self._commits = commits
        self._invoke = invoke
        self._logged: set[str] = set()  # ids of agents whose sequential reads were logged

    def begin(
        self,
        context: RunContext,
        changes: Changes,
        calls: Sequence[Call],
        run: Run,
        done: EventDraft | None = None,
    ) -> Next:
        """Calls that are new, the first that needs the outside world begun. `done` tells of the step if none does."""
        changes.calls = {call.id: call for call in calls}
        if len(calls) > 1 and log.isEnabledFor(logging.DEBUG):
            self._log_reads(context, calls)
        self._calls.begin(context, calls, changes)
        if _unanswered(calls, changes):
            return Next(kind=Answer, changes=changes, run=run)
        if done is not None:
            changes.events.append(done)
        return self._after_calls(context, Answer, changes, run)

    def _log_reads(self, context: RunContext, calls: Sequence[Call]) -> None:
        """Log once per agent that its read-only calls run sequentially."""
        active = context.active
        reads = sum(can_run_concurrently(active.by_name.get(call.name)) for call in calls)
        if (
            reads > 1
            and active.parallel == 1
            and context.values is None
            and active.agent_id not in self._logged
        ):
            self._logged.add(active.agent_id)
            log.debug(
                "The agent %r made %d read-only calls in one answer, which run one after another: with parallel=8 they "
                "would run at once.",
                active.agent.name,
                reads,
            )

    async def answer(self, context: RunContext, call: Call) -> None:
        """Advance the calls without a result by one commit; `call` is the first of them."""
        calls, concurrent = [call], len(context.frame.open) > 1 and max_concurrent(context) > 1
        if concurrent:
            calls = _next_calls(context)
            call = calls[0]
        match call.status:
            case "running":
                prepared = context.prepared(call.id)
                if prepared is None:
                    await self._recover(context, calls)
                elif concurrent and can_run_concurrently(prepared.tool):
                    await self._execute_concurrently(context)
                elif prepared.tool.carrier == "prompt":
                    await self._enter(context, call, prepared)
                else:
                    await self._carry_out(context, call, prepared)
            case "waiting":
                lost = await self._waiting.wait(context, calls)
                if lost is not None:
                    await self._commit(context, lost)
            case "created":
                await self._start(context, call)
            case _:
                await self._commits.commit(context, partial(self._delivered, context, call))

    async def _delivered(self, context: RunContext, call: Call) -> Next:
        """Next unit: the result of a call that was settled elsewhere, with what follows."""
        changes = Changes()
        self._calls.deliver(context, changes, call, await self._calls.bounded(context, changes, call))
        return self._following(context, changes, context.run)

    async def _commit(self, context: RunContext, changes: Changes) -> None:
        """Commit what a call has come to, and what follows from that."""

        async def following() -> Next:
            return self._following(context, changes.copy(), context.run)

        await self._commits.commit(context, following)

    async def _start(self, context: RunContext, call: Call) -> None:
        """A call's turn has come; it waits for the values that its tool needs, then for its approval."""
        tool = context.active.by_name.get(call.name)
        changes = Changes()
        if tool is not None and needed_by(context, tool):
            await context.retry_until_available(context.look_at_env)
            missing = missing_for(context, tool)
            if missing and context.holder is None and not context.answers_nothing:
                await park_for(context, missing)
                return
            refused = self._calls.refusal(context, call, context.active.by_name)
            if refused is not None:
                self._calls.settle(context, changes, call, refused)
        await decide(context, call, context.active.by_name)
        await self._commit(context, changes)

    async def _carry_out(self, context: RunContext, call: Call, prepared: PreparedCall) -> None:
        context.unprepare(call.id)  # from now on its effect may be there, whatever ends this
        ran = await self._handlers.carry_out(context, call, prepared, self._invoke)
        if ran.outcome is not None:
            await self._take(context, call, ran, ran.outcome)
        elif context.holder is None:  # else the handler that waits for it is cancelled too
            await self._commits.end(context, Finish, Changes(), End("cancelled"))

    async def _execute_concurrently(self, context: RunContext) -> None:
        """Execute the started calls concurrently, and record their results in the order of the calls.

        Each recorded result lets another call start. After a call that was cancelled with its run no more results are
        recorded: in a sequential run the following calls would not have started.
        """
        frame, running = context.frame, dict[str, asyncio.Task[HandlerOutcome]]()
        try:
            while True:
                for call in () if context.stopping or context.abort.aborted else frame.unanswered():
                    prepared = context.prepared(call.id)
                    if call.status == "running" and prepared is not None:
                        context.unprepare(call.id)
                        work = self._handlers.carry_out(context, call, prepared, self._invoke)
                        running[call.id] = asyncio.create_task(work, name=f"call {call.id}")
                first = next((call for call in frame.unanswered() if call.id in running), None)
                if first is None:
                    return
                ran = await running.pop(first.id)
                if ran.outcome is None:
                    if running:
                        await asyncio.wait(running.values())  # each has its own time to end
                    return
                async with context.turn():
                    await self._take(context, first, ran, ran.outcome)
                if is_cancelled():  # the call has ended well all the same: its result is recorded
                    return
        finally:
            await _cancel_all(running.values())

    async def _enter(self, context: RunContext, call: Call, prepared: PreparedCall) -> None:
        """The conversation of a prompt tool begins, or goes on where it was."""
        conversation = await self._nested.frame(context, call, prepared)
        if isinstance(conversation, Frame):
            context.enter_frame(conversation)
        else:
            await self.leave(context, call, conversation)

    async def leave(self, context: RunContext, call: Call, result: ToolResult) -> None:
        """The conversation of a prompt tool is over, and so its call."""
        context.unprepare(call.id)
        ran = HandlerOutcome(result, self._handlers.state(context, call, self._invoke))
        await self._take(context, call, ran, result)

    async def _take(self, context: RunContext, call: Call, ran: HandlerOutcome, outcome: Outcome) -> None:
        """Commit what became of a call; an error in its place, if the journal cannot hold it."""
        try:
            await self._commits.commit(context, partial(self._result, context, call, ran, outcome))
        except (Unwritable, EffectRefused) as error:
            changes = Changes()
            self._calls.settle(context, changes, call, ToolResult.fail(error.message, error_code=error.code))
            await self._commit(context, changes)

    async def _result(self, context: RunContext, call: Call, ran: HandlerOutcome, outcome: Outcome) -> Next:
        """Next unit: the result of a call, with what follows."""
        kept, changes = await self._handlers.keep(context, ran, call, outcome)
        await self.close_below(context, changes, call)
        execution = ran.state.execution
        run = _queueing(context, execution) if execution.queued else context.run
        if execution.usage is not None:
            cost = total_cost(run.cost, execution.cost)
            run = changed(run, usage=run.usage + execution.usage, cost=cost)
        if not self._calls.take(context, changes, call, kept):
            self._calls.begin(context, context.frame.unanswered(), changes)
            return Next(kind=Result, changes=changes, run=run)
        if context.holder is not None:
            context.holder.hear(execution)
        elif execution.ends and not (run.calls_only and execution.skipped is not None):
            return await self._stopped(context, changes, execution)
        return self._following(context, changes, run)

    async def _recover(self, context: RunContext, calls: Sequence[Call]) -> None:
        """Restart calls interrupted by a crash if they can be repeated, or record that their effect is unknown."""
        changes = Changes()
        for call in calls:
            result = self._calls.interrupted(context, call, context.active.by_name)
            if result is None:
                self._calls.begin_again(context, changes, call)
            else:
                await self.close_left_below(context, changes, call)
                self._calls.settle(context, changes, call, result)
        if changes.messages:
            await self._commit(context, changes)
        else:
            await context.commit(Result, changes, context.run)

    def _following(self, context: RunContext, changes: Changes, run: Run) -> Next:
        """A result together with the start of the next call, or with the end of the step."""
        rest = _unanswered(context.frame.open.values(), changes)
        if rest:
            self._calls.begin(context, rest, changes)
            rest = _unanswered(rest, changes)
        if rest or context.frame.call is not None:
            return Next(kind=Result, changes=changes, run=run)
        changes.events.append(step_event("step.done", run.step_count, context.step_usage))
        return self._after_calls(context, Result, changes, run)

    def _after_calls(
        self, context: RunContext, kind: Callable[..., Advance], changes: Changes, run: Run
    ) -> Next:
        """All calls of a step are answered: perhaps that ends a turn, or the run."""
        if context.frame.call is not None:
            return Next(kind=kind, changes=changes, run=run)
        turn, reason, active = run.turn, None, context.active
        stops = active.stops
        if not run.calls_only:  # only what the model calls ends a turn
            if stops.stop_tool or stops.session_stop or stops.session_fail:
                run, reason = after_calls(active, run, _calls_of_step(context, changes))
            if reason is None and isinstance(active.form, ComposedForm) and run.output is not None:
                reason = "end_turn"  # the answer that made the calls gave the output too
        if run.queued and (reason is not None or run.turn != turn):
            run = changed(run, queued=())  # they were to be called before the next step of this turn
        end = self._commits.limit_end(context, run) if reason is None else End("completed", reason)
        if end is not None and reason is None and (run.queued or _handed_over(changes)):
            end = None  # the limits of who takes over are its own
        return Next(kind=kind, changes=changes, run=run, ends_step=True, end=end)

    async def _stopped(self, context: RunContext, changes: Changes, execution: RunExecution) -> Next:
        """A handler has ended the run, or the turn of its side: the calls behind it do not begin."""
        changes.events.append(step_event("step.done", context.run.step_count, context.step_usage))
        if execution.skipped is not None:
            end = End("skipped", reason=execution.skipped.reason)
            return _forced_end(context.run, changes, end)
        if execution.stopped:
            end = End("completed", "session_stop", terminated=execution.terminated)
            return _forced_end(context.run, changes, end)
        assert context.root.active is not None, "somebody speaks"
        run, reason = side_over(context.root.active, changed(context.run, queued=()), "end_turn")
        if reason is not None:
            return _forced_end(context.run, changes, End("completed", reason))
        await self._commits.give_up(context, changes, End("completed"))
        end = self._commits.limit_end(context, run)
        return Next(kind=Result, changes=changes, run=run, ends_step=True, end=end)

    async def close_below(self, context: RunContext, changes: Changes, call: Call) -> None:
        """Close what a call has begun and not ended; one that began in this process is known to have or not."""
        if call.attempts > 1 or any(_at_work(each) for each in context.nested.values()):
            await self.close_left_below(context, changes, call)

    async def close_left_below(self, context: RunContext, changes: Changes, call: Call) -> None:
        """Close the calls below a call that a dead process had begun."""
        for each in await self._nested.left_open(context, call):
            self._calls.close(context, changes, each, ENDED)


def _next_calls(context: RunContext) -> list[Call]:
    """Return the calls to advance together in a step with concurrent calls.

    Calls interrupted by a crash are restarted before any call runs; results submitted elsewhere are recorded first.
    """
    calls = context.frame.unanswered()
    running = [call for call in calls if call.status == "running"]
    lost = [call for call in running if context.prepared(call.id) is None]
    settled = [call for call in calls if call.status not in ("created", "running", "waiting")]
    first = lost or settled[:1] or running
    if first:
        return first
    return calls[:1] if calls[0].status == "created" else [call for call in calls if call.status == "waiting"]


async def _cancel_all(tasks: Collection["asyncio.Task[HandlerOutcome]"]) -> None:
    """Cancel these calls and wait until they have ended, even if the caller is cancelled again."""
    for each in tasks:
        each.cancel()
    cancelled: asyncio.CancelledError | None = None
    while left := [each for each in tasks if not each.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    for each in tasks:
        if not each.cancelled():
            each.exception()  # retrieved: asyncio would log it otherwise
    if cancelled is not None:
        raise cancelled


def _unanswered(calls: Iterable[Call], changes: Changes) -> list[Call]:
    """Those of the calls that these changes do not answer."""
    answered = set(map(CALL_ID, changes.messages))
    return [call for call in calls if call.id not in answered]


def _queueing(context: RunContext, execution: RunExecution) -> Run:
    """The run with what the handler has queued, for the conversation that is in progress."""
    queued = [changed(each, within=context.frame.id) for each in execution.queued]
    return changed(context.run, queued=(*context.run.queued, *queued))


def _forced_end(run: Run, changes: Changes, end: End) -> Next:
    return Next(kind=Result, changes=changes, run=run, end=end, forced=True)


def _handed_over(changes: Changes) -> bool:
    return any(isinstance(each, HandOff) for each in changes.effects)


def _at_work(call: Call) -> bool:
    return call.status in ("created", "running", "waiting")


def _calls_of_step(context: RunContext, changes: Changes) -> list[CallSummary]:
    """The calls of the step with how they went, some of them by these changes."""
    calls = {call.id: call for call in (*context.root.calls.values(), *changes.calls.values())}
    status = {m.call_id: m.status for m in (*context.root.messages, *changes.messages) if m.role == "tool"}
    return [CallSummary(c.name, c.arguments, status.get(c.id) == "success") for c in calls.values()]
