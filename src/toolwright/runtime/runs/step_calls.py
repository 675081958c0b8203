"""The calls' part of a step: begun, carried out or waited for, their results committed, until all are answered."""

from collections.abc import Callable, Sequence

from toolwright.core.agents.turns import Made, after_calls, side_over
from toolwright.core.errors import Unwritable
from toolwright.core.journal.child_effects import HandOff
from toolwright.core.journal.units import Advance, Answer, Finish, Result
from toolwright.core.results.result import Outcome, ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.run import Run
from toolwright.core.value import changed
from toolwright.runtime.calls.calls import Calls
from toolwright.runtime.calls.handlers import Handlers, Ran
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.calls.variables import lacking_for, needed_by, park_for
from toolwright.runtime.calls.waiting import Waiting
from toolwright.runtime.context.changes import Changes
from toolwright.runtime.context.commit import Answered
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.execution import RunExecution
from toolwright.runtime.model.ask import Asking
from toolwright.runtime.runs.ending import End, RunEnding
from toolwright.runtime.runs.prompt_runs import PromptRuns
from toolwright.wire.event import step_event


class StepCalls:
    """Takes the calls of a step to their answers, one commit at a time; those within calls by way of `within`."""

    def __init__(
        self,
        calls: Calls,
        handlers: Handlers,
        asking: Asking,
        waiting: Waiting,
        nested: Nested,
        run_ending: RunEnding,
    ) -> None:
        self._calls = calls
        self._handlers = handlers
        self._waiting = waiting
        self._run_ending = run_ending
        self.within = PromptRuns(
            self, calls, handlers, asking, waiting, nested, max_steps=run_ending.max_steps
        )

    async def begin(
        self,
        context: RunContext,
        changes: Changes,
        calls: Sequence[Call],
        run: Run,
        done: EventDraft | None = None,
    ) -> Answered:
        """Commit calls that are new, the first that needs the outside world begun.

        `done` is said of the step if none of them does.
        """
        self._calls.begin(context, calls, changes)
        moved = {change.id: change for change in changes.call_changes}
        changes.calls = [call.moved(moved[call.id]) if call.id in moved else call for call in calls]
        changes.call_changes = []
        answered = _answered(changes)
        if any(call.id not in answered for call in calls):
            return await context.commit(Answer, changes, run)
        if done is not None:
            changes.events.append(done)
        return await self._after_calls(context, Answer, changes, run)

    async def answer(self, context: RunContext, call: Call) -> None:
        """Take a call that has no answer one commit farther."""
        match call.status:
            case "running" if call.id in context.prepared:
                await self._carry_out(context, call)
            case "running":
                await self._recover(context, call)
            case "waiting":
                lost = await self._waiting.wait(context, call)
                if lost is not None:
                    await self._go_on(context, lost)
            case "created":
                await self._start(context, call)
            case _:
                changes = Changes()
                self._calls.deliver(context, changes, call)
                await self._go_on(context, changes)

    async def _start(self, context: RunContext, call: Call) -> None:
        """A call's turn has come; it waits for the values that its tool needs."""
        tool = context.active.by_name.get(call.name)
        changes = Changes()
        if tool is not None and needed_by(context, tool):
            await context.retry_until_available(context.look_at_env)
            missing = lacking_for(context, tool)
            if missing and context.holder is None:
                await park_for(context, missing)
                return
            refused = self._calls.refusal(context, call)
            if refused is not None:
                self._calls.settle(context, changes, call, refused)
        await self._go_on(context, changes)

    async def _carry_out(self, context: RunContext, call: Call) -> None:
        if context.prepared[call.id].tool.carrier == "prompt":
            await self.within.enter(context, call)
            return
        ran = await self._handlers.carry_out(context, call, self.within.invoke)
        del context.prepared[call.id]
        if ran.outcome is not None:
            await self.take(context, call, ran, ran.outcome)
        elif context.holder is None:  # else the handler that waits for it is cancelled too
            await self._run_ending.end(context, Finish, Changes(), End("cancelled"))

    async def take(self, context: RunContext, call: Call, ran: Ran, outcome: Outcome) -> None:
        """Commit what became of a call; an error in its place, if the journal cannot hold it."""
        try:
            await self._take_outcome(context, call, ran, outcome)
        except Unwritable as error:
            changes = Changes()
            self._calls.settle(context, changes, call, ToolResult.fail(error.message, error_code=error.code))
            await self._go_on(context, changes)

    async def _take_outcome(self, context: RunContext, call: Call, ran: Ran, outcome: Outcome) -> None:
        """Commit an outcome; again, with other names for its files, if one of their paths was taken meanwhile."""
        committed: Answered = "file"
        while committed in ("file", "space", "busy", "child_limit", "terminated"):
            kept, changes = await self._handlers.keep(context, ran, call, outcome)
            await self.within.close_below(context, changes, call)
            committed = await self._commit_outcome(context, changes, call, ran.state.execution, kept)

    async def _commit_outcome(
        self, context: RunContext, changes: Changes, call: Call, execution: RunExecution, kept: Outcome
    ) -> Answered:
        run = _queueing(context, execution)
        if not self._calls.take(context, changes, call, kept):
            return await context.commit(Result, changes, run)
        if context.holder is not None:
            context.holder.hear(execution)
        elif execution.skipped is not None:
            return await self._stop(context, changes, End("skipped", reason=execution.skipped.reason))
        elif execution.stopped:
            end = End("completed", "session_stop", terminated=execution.terminated)
            return await self._stop(context, changes, end)
        elif execution.side_stopped:
            return await self._stop_side(context, changes)
        return await self._go_on(context, changes, run)

    async def _recover(self, context: RunContext, call: Call) -> None:
        """A process died while it ran this call."""
        changes = Changes()
        result = self._calls.interrupted(context, call)
        if result is None:
            self._calls.begin_again(context, changes, call)
            await context.commit(Result, changes, context.run)
            return
        await self.within.close_left_below(context, changes, call)
        self._calls.settle(context, changes, call, result)
        await self._go_on(context, changes)

    async def _go_on(self, context: RunContext, changes: Changes, run: Run | None = None) -> Answered:
        """Commit a result together with the start of the next call, or with the end of the step."""
        run = context.run if run is None else run
        answered = _answered(changes)
        rest = [call for call in context.frame.unanswered() if call.id not in answered]
        if rest and all(call.status == "created" for call in rest):
            self._calls.begin(context, rest, changes)
            answered = _answered(changes)
        if any(call.id not in answered for call in rest) or context.frame.call is not None:
            return await context.commit(Result, changes, run)
        changes.events.append(step_event("step.done", run.step_count))
        return await self._after_calls(context, Result, changes, run)

    async def _after_calls(
        self, context: RunContext, kind: Callable[..., Advance], changes: Changes, run: Run
    ) -> Answered:
        """All calls of a step are answered: perhaps that ends a turn, or the run."""
        if context.frame.call is not None:
            return await context.commit(kind, changes, run)
        before = run.turn
        made = _made(context, changes) if context.active.stops.ending else ()
        run, reason = after_calls(context.active, run, made)
        if run.queued and (reason is not None or run.turn != before):
            run = changed(run, queued=())  # they were to be called before the next step of this turn
        end = self._run_ending.limit_end(context, run) if reason is None else End("completed", reason)
        handed_over = any(isinstance(each, HandOff) for each in changes.effects)
        if reason is None and (run.queued or handed_over):  # the limits of who takes over are its own
            end = None
        return await self._run_ending.close_step(context, kind, changes, run, end)

    async def _stop(self, context: RunContext, changes: Changes, end: End) -> Answered:
        """A handler has ended the run: the calls behind it do not begin."""
        changes.events.append(step_event("step.done", context.run.step_count))
        return await self._run_ending.end(context, Result, changes, end)

    async def _stop_side(self, context: RunContext, changes: Changes) -> Answered:
        """A handler has ended the turn of its side: the calls behind it do not begin."""
        changes.events.append(step_event("step.done", context.run.step_count))
        assert context.root.active is not None, "somebody speaks"
        run, reason = side_over(context.root.active, changed(context.run, queued=()), "end_turn")
        if reason is not None:
            return await self._run_ending.end(context, Result, changes, End("completed", reason))
        await self._run_ending.give_up(context, changes, End("completed"))
        end = self._run_ending.limit_end(context, run)
        committed = await self._run_ending.close_step(context, Result, changes, run, end)
        if committed == "done":
            context.leave_frames(1)
        return committed


def _queueing(context: RunContext, execution: RunExecution) -> Run:
    """The run with what the handler has queued, for the conversation that is at work."""
    if not execution.queued:
        return context.run
    queued = [changed(each, within=context.frame.id) for each in execution.queued]
    return changed(context.run, queued=(*context.run.queued, *queued))


def _answered(changes: Changes) -> set[str]:
    return {message.call_id for message in changes.messages if message.call_id is not None}


def _made(context: RunContext, changes: Changes) -> list[Made]:
    """The calls of the step with how they went, some of them by these changes."""
    calls = {call.id: call for call in (*context.root.calls.values(), *changes.calls)}
    status = {m.call_id: m.status for m in (*context.root.messages, *changes.messages) if m.role == "tool"}
    return [Made(c.name, c.arguments, status.get(c.id) == "success") for c in calls.values()]
