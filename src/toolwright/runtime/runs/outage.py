"""Pauses after failures: a model that is unavailable, inbox events that make runs fail (D21)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from toolwright.core import backoff
from toolwright.core.errors import ModelUnavailable, ToolwrightError
from toolwright.core.journal.child_effects import BackOff
from toolwright.core.journal.store import ThreadView
from toolwright.core.journal.units import Leaving
from toolwright.core.json_value import JSONObject
from toolwright.core.ports import Clock
from toolwright.core.threads.inbox import InboxChange
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.threads.inbox import OWN
from toolwright.wire.event import run_event

LONGEST_RETRY_AFTER = 86_400.0  # seconds; a provider that names more is believed no more


def requeue_read_events(context: RunContext, changes: Changes, *, failed: bool) -> Changes:
    """Return the changes that end a failed run and give back the events that it has read; `failed` counts against them.

    What the run said because of them stays in the records only, so that no later model reads an event twice; the
    thread's own messages stay where they are.
    """
    if not context.reading:
        return changed(changes, inbox=(), leaving=context.leaving(context.clock.now()))
    back = tuple([event.requeued(int(failed)) for event in context.reading.values()])
    dropped = [
        message.seq
        for message in context.root.messages
        if message.seq is not None and not _stays(message, context.run.id)
    ]
    messages = [changed(message, kept=_stays(message, context.run.id)) for message in changes.messages]
    return changed(
        changes, inbox=back, dropped=tuple(dropped), messages=messages, leaving=_leaving(context, back)
    )


def refused(context: RunContext, changes: Changes, back: list[InboxChange]) -> Changes:
    """Return the changes of a run that could not even begin, because of what it was to read."""
    return changed(changes, inbox=tuple(back), leaving=_leaving(context, back))


def tried_again(context: RunContext, changes: Changes, run: Run) -> bool:
    """Return whether another run will read what this failed run has read; the session then continues."""
    if run.status != "failed" or has_own_message(context):
        return False
    return any(change.now == "pending" for change in changes.inbox)


def has_own_message(context: RunContext) -> bool:
    """Return whether the run reads a message of the thread's own, and not only what came by way of the inbox."""
    of_run = [each for each in context.root.messages if each.run_id == context.run.id and each.role == "user"]
    return any(each.id.startswith(OWN) for each in of_run) or bool(context.joined())


def retries(run: Run) -> bool:
    """Return whether the run waits for its model to be available again: its retries are not announced."""
    return run.error is not None and not run.over


def _leaving(context: RunContext, back: Sequence[InboxChange]) -> Leaving:
    """Release the thread, due at once if an event is tried again."""
    leaving = context.leaving(context.clock.now())
    if any(change.now == "pending" for change in back):
        return changed(leaving, due=context.clock.now())
    return leaving


def _stays(message: Message, run_id: str) -> bool:
    own = message.role == "user" and message.id.startswith(OWN)
    return own or message.run_id != run_id


def back_off_end(view: ThreadView, clock: Clock) -> datetime | None:
    """Return the end of the thread's back-off, or None without one, or if its run is to be cancelled."""
    until = view.thread.not_before
    if until is None or until <= clock.now() or view.thread.is_over:
        return None
    return None if view.run is not None and view.run.cancel_requested_at is not None else until


def next_try(context: RunContext) -> datetime:
    """Return when a model that has just failed is asked again: after a longer pause, the more often it has."""
    return context.clock.now() + timedelta(seconds=backoff.nth(context.thread.faults))


def outage(context: RunContext, error: ToolwrightError) -> JSONObject:
    """Return what a run waits for whose model has failed: until when, and since when that has been so.

    The pause is longer the more often the model has failed; a longer `Retry-After` of its provider counts.
    """
    now = context.clock.now()
    asked = error.retry_after if isinstance(error, ModelUnavailable) else None
    told = now + timedelta(seconds=min(asked or 0.0, LONGEST_RETRY_AFTER))
    before = context.run.waiting if retries(context.run) else None
    return {
        "reason": "model",
        "retryAt": max(told, next_try(context)).isoformat(),
        "since": (before or {}).get("since") or now.isoformat(),
        "error": context.redactor.text(error.message),
    }


def unknown_agent(context: RunContext, why: str, *, is_shared: bool) -> JSONObject:
    """Return what a run waits for whose agent this process does not know: until when, and since when that has been so.

    Where other processes execute runs too (`is_shared`), one of them may know it, and continues it at once.
    """
    now = context.clock.now()
    before = context.run.waiting if retries(context.run) else None
    retry_at = now if is_shared else next_try(context)
    since = (before or {}).get("since") or now.isoformat()
    return {"reason": "agent", "retryAt": retry_at.isoformat(), "since": since, "error": why}


def lasts_too_long(waiting: JSONObject, most: timedelta) -> bool:
    """Return whether the next try comes later than an outage may last."""
    since, retry_at = (datetime.fromisoformat(str(waiting[name])) for name in ("since", "retryAt"))
    return retry_at - since > most


def back_off(context: RunContext, changes: Changes, until: datetime) -> Changes:
    """Return the changes, after which the thread is left alone until then, since its model has failed again."""
    effect = BackOff(thread_id=context.thread.id, faults=context.thread.faults + 1, until=until)
    return changed(changes, effects=(*changes.effects, effect), leaving=Leaving(gen=context.gen, due=until))


def is_left_to_others(run: Run | None) -> bool:
    """Return whether the journal says already that the run waits for a process that knows its agent."""
    return (
        run is not None
        and (run.waiting or {}).get("reason") == "agent"
        and run.status == "queued"
        and run.cancel_requested_at is None
    )


def end_outage(context: RunContext, changes: Changes) -> Changes:
    """Return the changes of a model's answer with the end of the outage that the run has waited for, if it has."""
    if retries(context.run):
        changes.events.insert(0, run_event(changed(context.run, error=None, waiting=None)))
    return end_back_off(context, changes)


def keep_back_off(context: RunContext, changes: Changes) -> Changes:
    """Return the changes that end a cancelled run: the rest of a thread that is left alone waits as long as before."""
    until = context.thread.not_before
    if (
        until is None
        or until <= context.clock.now()
        or changes.leaving is None
        or changes.leaving.due is None
    ):
        return end_back_off(context, changes)
    return changed(changes, leaving=Leaving(gen=context.gen, due=until))


def end_back_off(context: RunContext, changes: Changes) -> Changes:
    """Return the changes, after which nothing is put off any more."""
    if not context.thread.faults:
        return changes
    over = BackOff(thread_id=context.thread.id, faults=0, until=None)
    return changed(changes, effects=(*changes.effects, over))
