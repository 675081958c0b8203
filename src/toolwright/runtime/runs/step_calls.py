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
from toolwright.runtime.hold.execution import RunExecution
from toolwright.runtime.hold.hold import Answered, Hold
from toolwright.runtime.hold.move import Move
from toolwright.runtime.model.ask import Asking
from toolwright.runtime.runs.ending import Closing, End
from toolwright.runtime.runs.prompt_runs import Within
from toolwright.wire.event import step_event


class Carrying:
    """Takes the calls of a step to their answers, one commit at a time; those within calls by way of `within`."""

    def __init__(
        self,
        calls: Calls,
        handlers: Handlers,
        asking: Asking,
        waiting: Waiting,
        nested: Nested,
        closing: Closing,
    ) -> None:
        self._calls = calls
        self._handlers = handlers
        self._waiting = waiting
        self._closing = closing
        self.within = Within(self, calls, handlers, asking, waiting, nested, max_steps=closing.max_steps)

    async def begin(
        self, hold: Hold, move: Move, calls: Sequence[Call], run: Run, done: EventDraft | None = None
    ) -> Answered:
        """Commit calls that are new, the first that needs the outside world begun.

        `done` is said of the step if none of them does.
        """
        self._calls.begin(hold, calls, move)
        moved = {change.id: change for change in move.changes}
        move.calls = [call.moved(moved[call.id]) if call.id in moved else call for call in calls]
        move.changes = []
        answered = _answered(move)
        if any(call.id not in answered for call in calls):
            return await hold.commit(Answer, move, run)
        if done is not None:
            move.events.append(done)
        return await self._after_calls(hold, Answer, move, run)

    async def answer(self, hold: Hold, call: Call) -> None:
        """Take a call that has no answer one commit farther."""
        match call.status:
            case "running" if call.id in hold.prepared:
                await self._carry_out(hold, call)
            case "running":
                await self._recover(hold, call)
            case "waiting":
                lost = await self._waiting.wait(hold, call)
                if lost is not None:
                    await self._go_on(hold, lost)
            case "created":
                await self._start(hold, call)
            case _:
                move = Move()
                self._calls.deliver(hold, move, call)
                await self._go_on(hold, move)

    async def _start(self, hold: Hold, call: Call) -> None:
        """A call's turn has come; it waits for the values that its tool needs."""
        tool = hold.voice.by_name.get(call.name)
        move = Move()
        if tool is not None and needed_by(hold, tool):
            await hold.insist(hold.look_at_env)
            missing = lacking_for(hold, tool)
            if missing and hold.holder is None:
                await park_for(hold, missing)
                return
            refused = self._calls.refusal(hold, call)
            if refused is not None:
                self._calls.settle(hold, move, call, refused)
        await self._go_on(hold, move)

    async def _carry_out(self, hold: Hold, call: Call) -> None:
        if hold.prepared[call.id].tool.carrier == "prompt":
            await self.within.enter(hold, call)
            return
        ran = await self._handlers.carry_out(hold, call, self.within.invoke)
        del hold.prepared[call.id]
        if ran.outcome is not None:
            await self.take(hold, call, ran, ran.outcome)
        elif hold.holder is None:  # else the handler that waits for it is cancelled too
            await self._closing.end(hold, Finish, Move(), End("cancelled"))

    async def take(self, hold: Hold, call: Call, ran: Ran, outcome: Outcome) -> None:
        """Commit what became of a call; an error in its place, if the journal cannot hold it."""
        try:
            await self._take_outcome(hold, call, ran, outcome)
        except Unwritable as error:
            move = Move()
            self._calls.settle(hold, move, call, ToolResult.fail(error.message, error_code=error.code))
            await self._go_on(hold, move)

    async def _take_outcome(self, hold: Hold, call: Call, ran: Ran, outcome: Outcome) -> None:
        """Commit an outcome; again, with other names for its files, if one of their paths was taken meanwhile."""
        committed: Answered = "file"
        while committed in ("file", "space", "busy", "room", "terminated"):
            kept, move = await self._handlers.keep(hold, ran, call, outcome)
            await self.within.close_below(hold, move, call)
            committed = await self._commit_outcome(hold, move, call, ran.state.execution, kept)

    async def _commit_outcome(
        self, hold: Hold, move: Move, call: Call, execution: RunExecution, kept: Outcome
    ) -> Answered:
        run = _queueing(hold, execution)
        if not self._calls.take(hold, move, call, kept):
            return await hold.commit(Result, move, run)
        if hold.holder is not None:
            hold.holder.hear(execution)
        elif execution.skipped is not None:
            return await self._stop(hold, move, End("skipped", reason=execution.skipped.reason))
        elif execution.stopped:
            end = End("completed", "session_stop", terminated=execution.terminated)
            return await self._stop(hold, move, end)
        elif execution.side_stopped:
            return await self._stop_side(hold, move)
        return await self._go_on(hold, move, run)

    async def _recover(self, hold: Hold, call: Call) -> None:
        """A process died while it ran this call."""
        move = Move()
        result = self._calls.interrupted(hold, call)
        if result is None:
            self._calls.begin_again(hold, move, call)
            await hold.commit(Result, move, hold.run)
            return
        await self.within.close_left_below(hold, move, call)
        self._calls.settle(hold, move, call, result)
        await self._go_on(hold, move)

    async def _go_on(self, hold: Hold, move: Move, run: Run | None = None) -> Answered:
        """Commit a result together with the start of the next call, or with the end of the step."""
        run = hold.run if run is None else run
        answered = _answered(move)
        rest = [call for call in hold.unanswered() if call.id not in answered]
        if rest and all(call.status == "created" for call in rest):
            self._calls.begin(hold, rest, move)
            answered = _answered(move)
        if any(call.id not in answered for call in rest) or hold.frame.call is not None:
            return await hold.commit(Result, move, run)
        move.events.append(step_event("step.done", run.step_count))
        return await self._after_calls(hold, Result, move, run)

    async def _after_calls(self, hold: Hold, kind: Callable[..., Advance], move: Move, run: Run) -> Answered:
        """All calls of a step are answered: perhaps that ends a turn, or the run."""
        if hold.frame.call is not None:
            return await hold.commit(kind, move, run)
        before = run.turn
        made = _made(hold, move) if hold.voice.stops.ending else ()
        run, reason = after_calls(hold.voice, run, made)
        if run.queued and (reason is not None or run.turn != before):
            run = changed(run, queued=())  # they were to be called before the next step of this turn
        end = self._closing.limit_end(hold, run) if reason is None else End("completed", reason)
        handed_over = any(isinstance(each, HandOff) for each in move.effects)
        if reason is None and (run.queued or handed_over):  # the limits of who takes over are its own
            end = None
        return await self._closing.close_step(hold, kind, move, run, end)

    async def _stop(self, hold: Hold, move: Move, end: End) -> Answered:
        """A handler has ended the run: the calls behind it do not begin."""
        move.events.append(step_event("step.done", hold.run.step_count))
        return await self._closing.end(hold, Result, move, end)

    async def _stop_side(self, hold: Hold, move: Move) -> Answered:
        """A handler has ended the turn of its side: the calls behind it do not begin."""
        move.events.append(step_event("step.done", hold.run.step_count))
        assert hold.root.voice is not None, "somebody speaks"
        run, reason = side_over(hold.root.voice, changed(hold.run, queued=()), "end_turn")
        if reason is not None:
            return await self._closing.end(hold, Result, move, End("completed", reason))
        await self._closing.give_up(hold, move, End("completed"))
        end = self._closing.limit_end(hold, run)
        committed = await self._closing.close_step(hold, Result, move, run, end)
        if committed == "done":
            hold.frames[1:] = []
        return committed


def _queueing(hold: Hold, execution: RunExecution) -> Run:
    """The run with what the handler has queued, for the conversation that is at work."""
    if not execution.queued:
        return hold.run
    queued = [changed(each, within=hold.frame.id) for each in execution.queued]
    return changed(hold.run, queued=(*hold.run.queued, *queued))


def _answered(move: Move) -> set[str]:
    return {message.call_id for message in move.messages if message.call_id is not None}


def _made(hold: Hold, move: Move) -> list[Made]:
    """The calls of the step with how they went, some of them by this move."""
    calls = {call.id: call for call in (*hold.root.calls.values(), *move.calls)}
    status = {m.call_id: m.status for m in (*hold.root.messages, *move.messages) if m.role == "tool"}
    return [Made(c.name, c.arguments, status.get(c.id) == "success") for c in calls.values()]
