"""Delivery of an event to the inbox of another thread, as a program, and reasons for rejecting it."""

from collections.abc import Generator
from typing import TypeAlias

from toolwright.adapters.store.engine.codecs import Row, micros
from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, numbered
from toolwright.adapters.store.engine.program import Op, Ops
from toolwright.adapters.store.sql.events import EVENTS, INBOX
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sql.threads import RUNS, THREADS
from toolwright.core.journal.effects import Guard
from toolwright.core.journal.units import Unit
from toolwright.core.threads.child import ENDED
from toolwright.core.threads.inbox import Delivery
from toolwright.core.value import changed

Steps: TypeAlias = Generator[Ops, list[Row], None]


def refused(thread_id: str, otherwise: Guard, sql: Statements) -> Steps:
    """Raise the failed precondition of a statement that sends to a thread."""
    [(state,)] = yield Op(sql.thread_state, {"thread_id": thread_id}, "thread")
    raise GuardFailed("terminated" if state in ENDED else otherwise)


def deliver(
    delivery: Delivery, unit: Unit, sql: Statements, done: EffectResult
) -> Generator[Ops, list[Row], str | None]:
    """Insert the event for the queued run, or for a new run if none is queued, and wake the thread.

    Returns the id of that run. Returns None and inserts nothing if the thread is terminated or deleted.
    """
    thread, run = delivery.thread, delivery.run
    if not delivery.existing:
        yield Op(sql.spaces.insert_home, THREADS.params(thread))
    rows = yield Op(sql.spaces.deliver, {"thread_id": thread.id, "new_run": run.id})
    if not rows and delivery.required:
        raise GuardFailed("terminated")
    if not rows:
        return None
    [(run_id, posted, ev)] = rows
    event = changed(delivery.event, promised=run_id)
    yield Op(sql.insert_inbox, INBOX.params(event, n=posted), "duplicate")
    if run_id == run.id:
        yield Op(sql.insert_run, RUNS.params(run), "duplicate")
        events = numbered((delivery.queued,), ev, unit, thread.id, run_id, thread.agent)
        yield Op(sql.insert_event, EVENTS.params(events[0], base=0))
        done.events += events
    at = micros(unit.at)
    yield Op(sql.wake, {"thread_id": thread.id, "due": at, "gen": at})
    done.runs.append((thread.id, run_id))
    return str(run_id)
