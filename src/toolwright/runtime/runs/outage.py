"""Pauses after failures: a model that is unavailable, inbox events that make runs fail (D21)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from toolwright.core.errors import ModelUnavailable, ToolwrightError
from toolwright.core.journal.child_effects import BackOff
from toolwright.core.journal.store import ThreadView
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import nth_delay
from toolwright.core.ports import Clock
from toolwright.core.threads.run import Run
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.threads.inbox import OWN
from toolwright.wire.event import run_event

MAX_RETRY_AFTER = 86_400.0  # seconds; a longer `Retry-After` is capped


def has_own_message(context: RunContext) -> bool:
    """Return whether the run reads one of the thread's own messages, and not only events from the inbox."""
    of_run = [each for each in context.root.messages if each.run_id == context.run.id and each.role == "user"]
    return any(each.id.startswith(OWN) for each in of_run) or bool(context.joined())


def retries(run: Run) -> bool:
    """Return whether the run waits for its model to be available again. Its retries are not announced."""
    return run.error is not None and not run.over


def back_off_end(view: ThreadView, clock: Clock) -> datetime | None:
    """Return the end of the thread's back-off, or None without one or if its run has a cancel request."""
    until = view.thread.not_before
    if until is None or until <= clock.now() or view.thread.is_over:
        return None
    return None if view.run is not None and view.run.cancel_requested_at is not None else until


def next_try(context: RunContext) -> datetime:
    """Return the time of the next call of a failed model. The pause grows with the number of failures."""
    return context.clock.now() + timedelta(seconds=nth_delay(context.thread.faults))


def outage(context: RunContext, error: ToolwrightError) -> JSONObject:
    """Return the `waiting` value of a run whose model has failed: the time of the retry, and since when it fails.

    The pause grows with the number of failures. A longer `Retry-After` of the provider takes precedence.
    """
    now = context.clock.now()
    asked = error.retry_after if isinstance(error, ModelUnavailable) else None
    told = now + timedelta(seconds=min(asked or 0.0, MAX_RETRY_AFTER))
    before = context.run.waiting if retries(context.run) else None
    return {
        "reason": "model",
        "retryAt": max(told, next_try(context)).isoformat(),
        "since": (before or {}).get("since") or now.isoformat(),
        "error": context.redactor.text(error.message),
    }


def unknown_agent(context: RunContext, why: str, *, is_shared: bool) -> JSONObject:
    """Return the `waiting` value of a run whose agent this process does not know: the retry time, and since when.

    If other processes execute runs too (`is_shared`), one of them can know the agent and continue the run at once.
    """
    now = context.clock.now()
    before = context.run.waiting if retries(context.run) else None
    retry_at = now if is_shared else next_try(context)
    since = (before or {}).get("since") or now.isoformat()
    return {"reason": "agent", "retryAt": retry_at.isoformat(), "since": since, "error": why}


def lasts_too_long(waiting: JSONObject, most: timedelta) -> bool:
    """Return whether the next retry is later than the maximum duration of an outage."""
    since, retry_at = (datetime.fromisoformat(str(waiting[name])) for name in ("since", "retryAt"))
    return retry_at - since > most


def back_off(context: RunContext, until: datetime) -> BackOff:
    """Return the effect that puts the thread into back-off until then, because its model has failed again."""
    return BackOff(thread_id=context.thread.id, faults=context.thread.faults + 1, until=until)


def end_of_back_off(context: RunContext) -> Sequence[BackOff]:
    """Return the effect that ends the thread's back-off, if its model has failed."""
    return (BackOff(thread_id=context.thread.id, faults=0, until=None),) if context.thread.faults else ()


def is_left_to_others(run: Run | None) -> bool:
    """Return whether the run is already recorded as waiting for a process that knows its agent."""
    return (
        run is not None
        and (run.waiting or {}).get("reason") == "agent"
        and run.status == "queued"
        and run.cancel_requested_at is None
    )


def end_outage(context: RunContext, changes: Changes) -> None:
    """Add the end of the outage that the run waited for, if any, to the changes of a model's answer."""
    if retries(context.run):
        changes.events.insert(0, run_event(changed(context.run, error=None, waiting=None)))
    changes.effects += (*end_of_back_off(context),)
