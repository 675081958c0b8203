"""Ends of runs: results of the open calls, and updates of the thread's family. Suspension until a retry."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from logging import INFO, WARNING

from toolwright.core.env.logs import logger
from toolwright.core.journal.child_effects import CancelChildren, Close, Stop
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.units import Advance, Finish, Leaving, Release
from toolwright.core.json_value import JSONObject
from toolwright.core.text import quantity
from toolwright.core.threads.call import Call
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.value import changed
from toolwright.runtime.agents.inboxes import Rounds
from toolwright.runtime.calls.execute import CallExecutor, with_result
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.calls.settle import CallSettler
from toolwright.runtime.children.child import ChildReports
from toolwright.runtime.context.commit import REBUILT, Answered, Changes, End, Next
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.model.answer import outside_calls, queued_message
from toolwright.runtime.runs.finish import abandoned_results, ends_family, finish
from toolwright.runtime.runs.outage import back_off, has_own_message, retries
from toolwright.runtime.threads.inbox import own_message
from toolwright.wire.event import run_event

_log = logger("toolwright.runtime")
_MAX_UNKNOWN = 1_000  # maximum number of unknown agents that a warning has named
_LIMITS: Mapping[str | None, str] = {
    "max_steps": "its limit of steps (max_steps)",
    "max_seconds": "its time limit (max_seconds)",
    "max_tokens": "the output limit of its model (max_tokens)",
}


def _log_limit(context: RunContext, end: End) -> None:
    """Warn that the run has ended because of a limit, not because its agent had finished."""
    limit = _LIMITS.get(end.stop_reason)
    if limit is not None:
        agent, count = context.active.agent.name, quantity(context.run.step_count, "step")
        _log.warning("A run of the agent %r has reached %s after %s.", agent, limit, count)


def read_outside_calls(context: RunContext, changes: Changes, events: Sequence[InboxEvent]) -> Sequence[Call]:
    """Record the calls of these events as calls of the active agent; the caller settles each."""
    calls = outside_calls(context, events, context.run.step_count + 1)
    changes.read += tuple([event.event_id for event in events])
    changes.calls |= {call.id: call for call in calls}
    context.add_message(changes, queued_message(context, calls, context.next_seq(changes)))
    return calls


class RunEnds:
    """Ends runs and suspends failed ones; notifies parents, children and the next agent of a round.

    `max_steps` is the limit of a run whose agent sets none.
    """

    def __init__(
        self,
        settler: CallSettler,
        executor: CallExecutor,
        nested: Nested,
        reports: ChildReports,
        rounds: Rounds,
        *,
        max_steps: int,
    ) -> None:
        self._executor = executor
        self._settler = settler
        self._nested = nested
        self._reports = reports
        self._rounds = rounds
        self._unknown_agents: set[str] = set()  # already warned about: not again for each run
        self.max_steps = max_steps

    async def commit(self, context: RunContext, following: Next, end: End) -> Answered | None:
        """Commit with the end of the run. None if a message or a cancel request has arrived and the run continues."""
        kind, changes, run = following.kind, following.changes, following.run
        if following.forced:
            return await self.end(context, kind, changes, end)
        answer = await context.write(kind, *await self._finished(context, changes, run, end))
        if answer == "done":
            _log_limit(context, end)
        return None if answer in ("unread", "cancel") else answer

    async def end(
        self, context: RunContext, kind: Callable[..., Advance], changes: Changes, end: End
    ) -> Answered:
        """End the run, whatever arrives in the meantime: unread messages are kept, open calls get a result.

        A path that was taken in the meantime, and a child that is busy now, are left to the caller that wrote the files
        or sent the message.
        """
        end = changed(end, error=context.redactor.optional(end.error))
        while True:
            all_changes = changed(changes.copy(), read=())
            await self.end_open_calls(context, all_changes, end)
            self.decline(context, all_changes, context.joined_calls(), abandoned_results(context, end).what)
            if context.run.calls_only and context.joined():
                # the active agent is notified of the end
                context.run = changed(context.run, calls_only=False)
            for event in context.joined():
                all_changes.read += (event.event_id,)
                context.add_message(
                    all_changes,
                    own_message(event, context.run, context.run.step_count, context.next_seq(all_changes)),
                )
            outcome = await context.write(kind, *await self._finished(context, all_changes, context.run, end))
            if outcome == "terminated" and not changes.effects:
                continue  # the next participant of a round has just ended: select another
            is_left = outcome in REBUILT and (outcome != "file" or changes.files)
            if outcome == "done" or is_left:
                _log_limit(context, end)
                return outcome
            if outcome == "cancel":
                end = End("cancelled")

    def decline(self, context: RunContext, changes: Changes, events: Sequence[InboxEvent], what: str) -> None:
        """Record external calls that will not start, with `what` as the reason."""
        if events:
            for call in read_outside_calls(context, changes, events):
                self._settler.refuse(context, changes, call, what)

    async def fail(self, context: RunContext, error: str, code: str | None = None) -> None:
        """End the run as failed because of its messages or its configuration."""
        await self.end(context, Finish, Changes(), End("failed", error=error, error_code=code))

    async def wait(self, context: RunContext, waiting: JSONObject, *, is_shared: bool = False) -> None:
        """Release the run until it is retried, as described by `outage` or `unknown_agent`.

        If `is_shared`, the run is not delayed: another process can continue it at once.
        """
        run = changed(context.run, status="queued", error=str(waiting["error"]), waiting=waiting)
        # announced once, however often it is retried
        events = [] if retries(context.run) else [run_event(run)]
        until = datetime.fromisoformat(str(waiting["retryAt"]))
        pause = (until - context.clock.now()).total_seconds()
        changes = Changes(events=events, leaving=Leaving(gen=context.gen, due=until))
        if is_shared:
            await context.write(Release, changes, run)
            self._log_left(run.id, str(waiting["error"]))
            return
        changes.effects = (back_off(context, until),)
        await context.write(Release, changes, run)
        why = "its model failed" if waiting["reason"] == "model" else "its agent is not known here"
        _log.warning("Run %s is retried in %.0f s, because %s: %s", run.id, pause, why, waiting["error"])

    def _log_left(self, run_id: str, why: str) -> None:
        is_known = why in self._unknown_agents
        _log.log(INFO if is_known else WARNING, "Run %s is left to other processes: %s", run_id, why)
        if len(self._unknown_agents) < _MAX_UNKNOWN:
            self._unknown_agents.add(why)

    async def end_open_calls(self, context: RunContext, changes: Changes, end: End) -> None:
        """Give every open call a result: the turn has ended. Hooks are asked about results that were submitted."""
        for call in context.root.unanswered():
            checked = await self._executor.submitted(context, call, context.root)
            if checked is not None:
                self._settler.deliver(context, changes, with_result(changes, call, checked))
        self._settler.end_open_calls(
            context, changes, abandoned_results(context, end), await self._nested.open_nested_calls(context)
        )

    async def _finished(
        self, context: RunContext, changes: Changes, run: Run, end: End
    ) -> tuple[Changes, Run]:
        """Return the changes and the run's row that end the run, with the effects on other threads."""
        if end.status == "cancelled":
            run = changed(run, decisions=await context.decisions())
        all_changes, over = finish(context, changes, run, end)
        await self.add_family_effects(context, all_changes, over, terminated=end.terminated)
        return all_changes, over

    async def add_family_effects(
        self, context: RunContext, changes: Changes, over: Run, *, terminated: bool = False
    ) -> None:
        """Add the effects of this run's end on other threads: of its family, and in a round.

        The session of a failed run continues if another run will read its events.
        """
        effects = await self._next_turns(context, changes, terminated=terminated)
        is_requeued = over.status == "failed" and any(change.now == "pending" for change in changes.inbox)
        if not is_requeued or has_own_message(context):
            thread_id, link = context.thread.id, context.thread.link
            if over.calls_only and not terminated:
                link = None  # the call of its parent had already finished
            if over.status == "cancelled":
                effects.append(CancelChildren(thread_id=thread_id))
            if link is not None:
                effects += await self._reports.effects(context, link, changes, over, terminated=terminated)
            if ends_family(context, terminated=terminated) and (terminated or not over.calls_only):
                effects.append((Close if link is None else Stop)(thread_id=thread_id))
        changes.effects += (*effects,)

    async def _next_turns(self, context: RunContext, changes: Changes, *, terminated: bool) -> list[Effect]:
        """Return the effects that start the next turns of the rounds of these events."""
        left = [change.event_id for change in changes.inbox if change.now in ("processed", "failed")]
        events = [context.reading.get(each) or context.inbox.get(each) for each in left]
        if terminated:
            events += context.inbox.values()
        if not events:
            return []
        read = [event for event in events if event is not None]
        return [*await context.retry_until_available(lambda: self._rounds.after(read))]
