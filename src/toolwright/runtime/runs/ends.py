"""Ends of runs: results of the open calls, and updates of the thread's family. Suspension until a retry."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from logging import INFO, WARNING

from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.agents.catalog import REQUESTS
from toolwright.core.env.logs import logger
from toolwright.core.journal.child_effects import CancelChildren, Close, Stop
from toolwright.core.journal.effects import Announce, Effect
from toolwright.core.journal.units import Advance, Finish, Leaving, Release
from toolwright.core.json_value import JSONObject
from toolwright.core.text import quantity
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventType
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.value import changed
from toolwright.runtime.agents.inboxes import Rounds
from toolwright.runtime.calls.calls import CANCELLED, INTERRUPTED, AbandonedCallResults, Calls
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.children.child import ChildReports
from toolwright.runtime.context.commit import REBUILT, Answered, Changes, End, Next
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.record import source_of
from toolwright.runtime.model.answer import outside_calls, queued_message
from toolwright.runtime.runs.outage import (
    back_off,
    end_back_off,
    keep_back_off,
    next_try,
    requeue_read_events,
    retries,
    tried_again,
)
from toolwright.runtime.threads.inbox import own_message
from toolwright.wire.event import run_event
from toolwright.wire.space import space_event

_log = logger("toolwright.runtime")
_MOST_UNKNOWN = 1_000  # maximum number of unknown agents that a warning has named
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


def ended(context: RunContext, changes: Changes, run: Run, end: End) -> tuple[Changes, Run]:
    """Return the changes and the run's row that end the run and release the thread."""
    over = changed(
        run,
        status=end.status,
        stop_reason=end.stop_reason,
        error=end.error,
        error_code=end.error_code,
        waiting=None,
        completed_at=context.clock.now(),
    )
    if end.status == "skipped":
        over, changes = changed(over, output=end.reason), _left_out(context, changes)
    effects = (*changes.effects, *presence(context, context.space.at_work_after(changes), "agent.inactive"))
    changes = changed(changes, events=[*changes.events, run_event(over)], effects=effects)
    if end.status == "failed":
        changes = requeue_read_events(context, changes, failed=end.fault == "batch")
        waits = changes.leaving is not None and changes.leaving.due is not None
        if end.fault == "model" and waits:
            return back_off(context, changes, next_try(context)), over
        return end_back_off(context, changes), over
    inbox = tuple([event.processed() for event in context.reading.values()])
    changes = changed(changes, inbox=inbox, leaving=context.leaving(context.clock.now()))
    return (keep_back_off if end.status == "cancelled" else end_back_off)(context, changes), over


def _left_out(context: RunContext, changes: Changes) -> Changes:
    """Drop the messages of a run whose only call was to skip, but not those that joined it unread (D12)."""
    if context.run.step_count != 1 or len(context.root.calls) != 1 or not is_home(context):
        return changes
    of_run = [message for message in context.root.messages if message.run_id == context.run.id]
    answers = [changed(one, kept=False) if one.call_id is not None else one for one in changes.messages]
    return changed(
        changes, dropped=tuple([one.seq for one in of_run if one.seq is not None]), messages=answers
    )


def is_home(context: RunContext) -> bool:
    """Return whether the thread is its agent's home thread."""
    return context.thread.id == home_thread_id_of(context.thread.agent)


def presence(context: RunContext, space_id: str | None, type_: EventType) -> list[Effect]:
    """Return the event that tells the agent's space, if it is in one, whether the agent is active."""
    if space_id is None:
        return []
    entity_id = None if context.author is None else context.author.id
    event = space_event(type_, agentEntityId=entity_id, runId=context.run.id)
    return [Announce(space_id=space_id, source=source_of(context), events=(event,))]


def abandoned_results(context: RunContext, end: End) -> AbandonedCallResults:
    """Return the results of the calls that are still open when the run ends with `end`."""
    stops = end.status == "cancelled" or _ends_family(context, terminated=end.terminated)
    match end.status:
        case "cancelled":
            return AbandonedCallResults(
                what="Run cancelled", running=CANCELLED, code="cancelled", stops_children=stops
            )
        case "failed":
            return AbandonedCallResults(
                what="The run failed", running=INTERRUPTED, code="interrupted", stops_children=stops
            )
        case _:
            what = "The session was stopped"
            running = f"{what} while this call was running; its effect is unknown."
            return AbandonedCallResults(what=what, running=running, code="stopped", stops_children=stops)


def _ends_family(context: RunContext, *, terminated: bool) -> bool:
    """Return whether the thread and its child threads end with this run."""
    thread = context.thread
    if thread.link is None:
        return terminated or thread.agent == REQUESTS.id
    return terminated or not thread.link.resumable


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
        self, calls: Calls, nested: Nested, reports: ChildReports, rounds: Rounds, *, max_steps: int
    ) -> None:
        self._calls = calls
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
        answer = await context.write(kind, *await self._end_changes(context, changes, run, end))
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
            outcome = await context.write(
                kind, *await self._end_changes(context, all_changes, context.run, end)
            )
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
                self._calls.refuse(context, changes, call, what)

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
        changes = Changes(events=events)
        if is_shared:
            leaving = Leaving(gen=context.gen, due=until)
            await context.write(Release, changed(changes, leaving=leaving), run)
            self._log_left(run.id, str(waiting["error"]))
            return
        await context.write(Release, back_off(context, changes, until), run)
        why = "its model failed" if waiting["reason"] == "model" else "its agent is not known here"
        _log.warning("Run %s is retried in %.0f s, because %s: %s", run.id, pause, why, waiting["error"])

    def _log_left(self, run_id: str, why: str) -> None:
        is_known = why in self._unknown_agents
        _log.log(INFO if is_known else WARNING, "Run %s is left to other processes: %s", run_id, why)
        if len(self._unknown_agents) < _MOST_UNKNOWN:
            self._unknown_agents.add(why)

    async def end_open_calls(self, context: RunContext, changes: Changes, end: End) -> None:
        """Give every open call a result: the turn has ended."""
        self._calls.end_open_calls(
            context, changes, abandoned_results(context, end), await self._nested.open_nested_calls(context)
        )

    async def _end_changes(
        self, context: RunContext, changes: Changes, run: Run, end: End
    ) -> tuple[Changes, Run]:
        """Return the changes and the run's row that end the run, with the effects on other threads of its family."""
        all_changes, over = ended(context, changes, run, end)
        return await self.with_family_effects(context, all_changes, over, terminated=end.terminated), over

    async def with_family_effects(
        self, context: RunContext, changes: Changes, over: Run, *, terminated: bool = False
    ) -> Changes:
        """Return the changes that end this run, with the effects on other threads: of its family, and in a round."""
        effects = await self._next_turns(context, changes, terminated=terminated)
        if tried_again(context, changes, over):
            return changed(changes, effects=(*changes.effects, *effects)) if effects else changes
        thread_id, link = context.thread.id, context.thread.link
        if over.calls_only and not terminated:
            link = None  # the call of its parent had already finished
        if over.status == "cancelled":
            effects.append(CancelChildren(thread_id=thread_id))
        if link is not None:
            effects += await self._reports.effects(context, link, changes, over, terminated=terminated)
        if _ends_family(context, terminated=terminated) and (terminated or not over.calls_only):
            effects.append((Close if link is None else Stop)(thread_id=thread_id))
        return changed(changes, effects=(*changes.effects, *effects)) if effects else changes

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
