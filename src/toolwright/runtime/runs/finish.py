"""The end of a run: a pure function of its record, the changes of its last unit, and how it ends (D12, D21)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.agents.catalog import REQUESTS
from toolwright.core.journal.agent_effects import SetTimer
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.space_effects import Announce
from toolwright.core.journal.units import Leaving
from toolwright.core.threads.event import EventType
from toolwright.core.threads.inbox import InboxChange
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.value import changed
from toolwright.runtime.calls.settle import CANCELLED, INTERRUPTED, AbandonedCallResults
from toolwright.runtime.context.commit import Changes, End
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.record import source_of
from toolwright.runtime.runs.outage import back_off, end_of_back_off, next_try
from toolwright.runtime.runs.reading import is_unread
from toolwright.runtime.threads.inbox import OWN
from toolwright.runtime.timers import AFTER_RUN
from toolwright.wire.event import run_event
from toolwright.wire.space import space_event

MADE_UP_AFTER = timedelta(seconds=60)
"""Time after which another process asks the hooks of the end of a run, unless they were asked."""


def finish(context: RunContext, changes: Changes, run: Run, end: End) -> tuple[Changes, Run]:
    """Return the changes and the run's row that end the run and release the thread, without effects on its family.

    Events that a failed run has read are requeued, which counts against them unless the model is the cause. Those that
    it has not read yet are requeued however it ends.
    """
    now, output, inbox = context.clock.now(), run.output, list[InboxChange]()
    if end.status == "skipped":
        output, changes = end.reason, _without_skipped(context, changes)
    elif end.status == "failed" and context.reading:
        inbox = [event.requeued(int(end.fault == "batch")) for event in context.reading.values()]
        changes = _without_requeued(context, changes)
    if end.status != "failed":
        is_requeued = is_unread(context)
        inbox = [each.requeued(0) if is_requeued else each.processed() for each in context.reading.values()]
    over = changed(
        run,
        status=end.status,
        stop_reason=end.stop_reason,
        output=output,
        error=end.error,
        error_code=end.error_code,
        waiting=None,
        completed_at=now,
    )
    leaving, back_off = _release(context, inbox, end, now)
    told = after_run_timer(context, run.id, now)
    inactive = presence(context, context.space.busy_space_after(changes), "agent.inactive")
    return changed(
        changes,
        events=[*changes.events, run_event(over)],
        effects=(*changes.effects, *inactive, *back_off, *told),
        inbox=tuple(inbox),
        leaving=leaving,
    ), over


def after_run_timer(context: RunContext, run_id: str, now: datetime) -> Sequence[Effect]:
    """Return the timer that asks the hooks of a run's end if this process dies before it has done so."""
    hooks = context.root.active.hooks if context.root.active is not None else None
    if hooks is None or not hooks.after_run:
        return ()
    return (SetTimer(name=f"{AFTER_RUN}:{run_id}", due=now + MADE_UP_AFTER),)


def leaving_after(context: RunContext, inbox: Sequence[InboxChange], now: datetime) -> Leaving:
    """Return how a run releases its thread: due at once if the inbox has more events, or one of these is retried."""
    is_retried = any(change.now == "pending" for change in inbox)
    rest = is_retried or any(event.run_id != context.run.id for event in context.inbox.values())
    return Leaving(gen=context.gen, due=now if rest else None)


def _release(
    context: RunContext, inbox: Sequence[InboxChange], end: End, now: datetime
) -> tuple[Leaving, Sequence[Effect]]:
    """Return how the finished run releases its thread, and the effect on the thread's back-off.

    What remains in the inbox is retried later after a failure of the model, and not before the end of a back-off if
    the run is cancelled. Every other end is the end of the back-off.
    """
    thread, leaving = context.thread, leaving_after(context, inbox, now)
    if leaving.due is not None and end.status == "failed" and end.fault == "model":
        until = next_try(context)
        return changed(leaving, due=until), (back_off(context, until),)
    if leaving.due is not None and end.status == "cancelled" and (thread.not_before or now) > now:
        return changed(leaving, due=thread.not_before), ()
    return leaving, end_of_back_off(context)


def _without_skipped(context: RunContext, changes: Changes) -> Changes:
    """Drop the messages of a run whose only call was to skip, but not those that joined it unread (D12)."""
    if context.run.step_count != 1 or len(context.root.calls) != 1 or not is_home(context):
        return changes
    of_run = [message for message in context.root.messages if message.run_id == context.run.id]
    answers = [changed(one, kept=False) if one.call_id is not None else one for one in changes.messages]
    return changed(changes, dropped=_numbers(of_run), messages=answers)


def _without_requeued(context: RunContext, changes: Changes) -> Changes:
    """Drop the run's messages about events that another run will read; the thread's own messages stay."""

    def stays(message: Message) -> bool:
        own = message.role == "user" and message.id.startswith(OWN)
        return own or message.run_id != context.run.id

    messages = [changed(message, kept=stays(message)) for message in changes.messages]
    dropped = _numbers([message for message in context.root.messages if not stays(message)])
    return changed(changes, dropped=dropped, messages=messages)


def _numbers(messages: Sequence[Message]) -> tuple[int, ...]:
    return tuple([message.seq for message in messages if message.seq is not None])


def is_home(context: RunContext) -> bool:
    """Return whether the thread is its agent's home thread."""
    return context.thread.id == home_thread_id_of(context.thread.agent)


def ends_family(context: RunContext, *, terminated: bool) -> bool:
    """Return whether the thread and its child threads end with this run."""
    thread = context.thread
    if thread.link is None:
        return terminated or thread.agent == REQUESTS.id
    return terminated or not thread.link.resumable


def presence(context: RunContext, space_id: str | None, type_: EventType) -> list[Effect]:
    """Return the event that tells the agent's space, if it is in one, whether the agent is active."""
    if space_id is None:
        return []
    entity_id = None if context.author is None else context.author.id
    event = space_event(type_, agentEntityId=entity_id, runId=context.run.id)
    return [Announce(space_id=space_id, source=source_of(context), events=(event,))]


def abandoned_results(context: RunContext, end: End) -> AbandonedCallResults:
    """Return the results of the calls that are still open when the run ends with `end`."""
    stops = end.status == "cancelled" or ends_family(context, terminated=end.terminated)
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
