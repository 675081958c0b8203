"""Deliveries, effects on thread trees and their reads, on the in-memory tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from toolwright.adapters.store.engine.late_results import (
    RESULT,
    cancelled_edits,
    cancelled_event,
    dropped_timers,
)
from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, numbered
from toolwright.adapters.store.memory.tables import Tables, ThreadRow
from toolwright.core.env.env import VariablesRequest
from toolwright.core.files import FileChange
from toolwright.core.journal import child_effects
from toolwright.core.journal.effects import AddNestedCall, Edit
from toolwright.core.journal.units import Unit
from toolwright.core.spaces import Entity
from toolwright.core.threads.call import OPEN, Call, is_over
from toolwright.core.threads.child import MUTE
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery, InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed


def deliver(delivery: Delivery, unit: Unit, tables: Tables, done: EffectResult) -> str | None:
    """Insert an event into an inbox for the queued run, or for a new run if none is queued, and wake the thread.

    Returns the id of that run. Returns None and inserts nothing if the thread is terminated or deleted.
    """
    thread, run = delivery.thread, delivery.run
    if not delivery.existing:
        tables.threads.setdefault(thread.id, ThreadRow.born_as(thread))
    row = tables.threads.get(thread.id)
    if row is None or row.is_over:
        if delivery.required:
            raise GuardFailed("terminated")
        return None
    _check_new(delivery.event, row)
    run_id = row.promise(run.id)
    if run_id == run.id and run_id not in tables.runs:
        tables.runs[run_id] = run
        row.ev += 1
        events = numbered((delivery.queued,), row.ev, unit, thread.id, run_id, thread.agent)
        row.events.append(events)
        done.events += events
    row.post(changed(delivery.event, promised=run_id))
    tables.wake(thread.id, unit.at)
    done.runs.append((thread.id, run_id))
    return run_id


def perform_child(effect: child_effects.ChildEffect, unit: Unit, tables: Tables, done: EffectResult) -> None:
    """Perform one effect."""
    match effect:
        case child_effects.Spawn():
            if effect.thread_id not in tables.threads:
                tables.threads[effect.thread_id] = _unspoken(ThreadRow.born_as(effect.thread))
                tables.set_env(effect.env)
                _speak(effect, unit, tables, done)
                if effect.told is not None and effect.thread.parent_id is not None:
                    _notify_parent(effect.thread.parent_id, (effect.told,), None, unit, tables, done)
        case child_effects.Speak():
            _speak(effect, unit, tables, done)
        case child_effects.Report():
            _report(effect, unit, tables, done)
        case child_effects.Notify():
            _write_new(effect.files, tables.thread(effect.thread_id))
            deliver(effect.notice, unit, tables, done)
        case child_effects.Close() | child_effects.Terminate():
            row = tables.thread(effect.thread_id)
            row.state = "terminated"
            _stop([row, *tables.below(effect.thread_id)], unit, tables)
            _abandon_calls(row, unit, tables, done)
        case child_effects.CancelChildren():
            _stop(tables.below(effect.thread_id), unit, tables)
        case child_effects.Stop():
            row = tables.thread(effect.thread_id)
            _stop([row, *tables.below(effect.thread_id)], unit, tables)
            _abandon_calls(row, unit, tables, done)
        case child_effects.HandOff():
            row = tables.thread(effect.thread_id)
            row.active_agent, row.activated = effect.agent, ()
            if tables.is_deleted(effect.agent):
                done.shown += cancel_late_calls(row, unit, tables, done)
        case child_effects.Activated():
            tables.thread(effect.thread_id).activated = effect.sides
        case child_effects.BackOff():
            row = tables.thread(effect.thread_id)
            row.faults, row.not_before = effect.faults, effect.until
        case child_effects.SetValue(value=None):
            tables.values.pop((effect.thread_id, effect.key), None)
        case child_effects.SetValue(value=str() as text):
            tables.values[effect.thread_id, effect.key] = text
        case child_effects.ChildLimit():
            ours = [row for row in tables.children(effect.thread_id) if row.born.agent == effect.agent]
            if len([row for row in ours if not row.is_over]) >= effect.most:
                raise GuardFailed("child_limit")
        case child_effects.CheckRequest():
            request = tables.requests.get(effect.id)
            if request is None or tables.threads[request.thread_id].is_over:
                raise GuardFailed("request")
        case child_effects.FulfillRequest():
            if tables.requests.pop(effect.id, None) is None:
                raise GuardFailed("request")
        case child_effects.OpenRequest(request=request):
            tables.requests.setdefault(request.id, request)
        case child_effects.CloseRequest():
            tables.requests.pop(effect.id, None)
        case _:
            raise TypeError(f"No store can apply the effect {type(effect).__name__}.")


def _unspoken(row: ThreadRow) -> ThreadRow:
    """Return a new thread's row without its first message and run."""
    row.run_id, row.posted, row.ev = None, 0, 0
    return row


def _speak(
    effect: child_effects.Spawn | child_effects.Speak, unit: Unit, tables: Tables, done: EffectResult
) -> None:
    row, run = tables.thread(effect.thread_id), effect.run
    if row.is_over:
        raise GuardFailed("terminated")
    begins = row.run_id is None
    run_id = run.id if begins else str(row.run_id)
    if isinstance(effect, child_effects.Speak) and effect.report is not None and not begins:
        raise GuardFailed("busy")
    if isinstance(effect, child_effects.Speak) and begins:
        row.report, row.state = effect.report, None
    _write_new(effect.files, row)
    _check_new(effect.event, row)
    row.post(changed(effect.event, run_id=run_id))
    tables.wake(effect.thread_id, unit.at)
    done.runs.append((effect.thread_id, run_id))
    if begins:
        row.run_id, tables.runs[run_id] = run_id, run
        row.ev += 1
        events = numbered((effect.queued,), row.ev, unit, effect.thread_id, run_id, run.agent)
        row.events.append(events)
        done.events += events


def _report(effect: child_effects.Report, unit: Unit, tables: Tables, done: EffectResult) -> None:
    child, parent = tables.thread(effect.thread_id), tables.thread(effect.parent.id)
    is_reported = child.report == effect.report and not child.is_over
    child.report = None if is_reported or child.run_id is None else child.report
    child.state = child.state if child.is_over else effect.state
    if not is_reported:
        _abandon_calls(child, unit, tables, done)
        return
    _write_new(effect.files, parent)
    if effect.report is not None:
        _settle(effect, effect.report, unit, tables, done)
    elif effect.notice is not None:
        run_id = deliver(effect.notice, unit, tables, done)
        if run_id is not None:
            _notify_parent(effect.parent.id, (effect.finished,), run_id, unit, tables, done)


def _settle(
    effect: child_effects.Report, call_id: str, unit: Unit, tables: Tables, done: EffectResult
) -> None:
    call, parent = tables.calls.get(call_id), tables.thread(effect.parent.id)
    if call is None or call.status not in OPEN:
        return
    route = "inbox" if call.status == "pending" else "inline"
    if route == "inbox" and effect.late is not None:
        _check_new(effect.late, parent)
        parent.post(effect.late)
    tables.calls[call_id] = changed(
        call, status="resolved", route=route, result=effect.result, completed_at=unit.at
    )
    _notify_parent(effect.parent.id, effect.followers_events, call.run_id, unit, tables, done)
    tables.wake(effect.parent.id, unit.at)
    done.runs.append((effect.parent.id, call.run_id))


def _notify_parent(
    parent_id: str,
    drafts: tuple[EventDraft, ...],
    run_id: str | None,
    unit: Unit,
    tables: Tables,
    done: EffectResult,
) -> None:
    """Send events to the parent's subscribers."""
    parent = tables.threads[parent_id]
    for draft in drafts:
        parent.ev += 1
        events = numbered((draft,), parent.ev, unit, parent_id, run_id, parent.born.agent)
        parent.events.append(events)
        done.events += events


def _stop(rows: Sequence[ThreadRow], unit: Unit, tables: Tables) -> None:
    """Stop the open and queued runs of these threads without a report.

    Calls that still accept a late result are cancelled. Waiting calls are ended by their own runs.
    """
    for row in [tables.threads[each.born.id] for each in rows if each.run_id is not None]:
        call = None if row.report is None else tables.calls.get(row.report)
        if call is not None and call.status == "pending":
            tables.calls[call.id] = changed(call, status="cancelled", completed_at=unit.at)
        for run_id in (row.run_id, row.next_run_id):
            run = None if run_id is None else tables.runs.get(run_id)
            if run is not None and not run.over:
                tables.runs[run.id] = changed(run, cancel_requested_at=run.cancel_requested_at or unit.at)
        row.report = MUTE
        tables.wake(row.born.id, unit.at)


def _abandon_calls(row: ThreadRow, unit: Unit, tables: Tables, done: EffectResult) -> None:
    """Cancel an ended thread's calls that still accept a late result, and discard its unread events."""
    if not row.is_over:
        return
    done.shown += cancel_late_calls(row, unit, tables, done)
    for event in [each for each in row.unread.values() if row.run_id is None]:
        row.change(changed(event, status="failed"))


def cancel_late_calls(
    row: ThreadRow, unit: Unit, tables: Tables, done: EffectResult, author: Entity | None = None
) -> list[Edit]:
    """Cancel the thread's calls that still accept a late result. Returns the edits for the spaces that show them."""
    calls = tables.pending_in(row.born.id)
    for call in calls:
        tables.calls[call.id] = changed(call, status="cancelled", result=RESULT, completed_at=unit.at)
        _notify_parent(row.born.id, (cancelled_event(call),), call.run_id, unit, tables, done)
    for timer in dropped_timers(calls):
        tables.wakes.pop(timer.name, None)
    return cancelled_edits(calls, tables.space_messages, author)


def _write_new(changes: Sequence[FileChange], row: ThreadRow) -> None:
    if any(change.folded in row.files for change in changes):
        raise GuardFailed("file")
    row.write(changes)


def _check_new(event: InboxEvent, row: ThreadRow) -> None:
    if event.event_id in row.inbox:
        raise GuardFailed("duplicate")


def add_nested_call(effect: AddNestedCall, unit: Unit, tables: Tables, done: EffectResult) -> None:
    """Create a nested call."""
    call, thread = effect.call, tables.thread(effect.call.thread_id)
    parent = None if call.parent_id is None else tables.calls.get(call.parent_id)
    if parent is None or parent.thread_id != call.thread_id or is_over(parent.status):
        raise GuardFailed("call")
    if call.id in tables.calls:
        raise GuardFailed("call")
    tables.calls[call.id] = call
    tables.calls_of[call.run_id, call.step].append(call.id)
    tables.calls_in[call.thread_id].append(call.id)
    if effect.events:
        thread.ev += len(effect.events)
        events = numbered(effect.events, thread.ev, unit, call.thread_id, call.run_id, thread.born.agent)
        thread.events.append(events)
        done.events += events


class MemoryChildren:
    """The `ChildReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def lineage(self, thread_id: str) -> Sequence[Thread]:
        return [row.value() for row in self._tables.lineage(thread_id)]

    async def children(self, thread_id: str, *, limit: int = 1000, offset: int = 0) -> Sequence[Thread]:
        return [row.value() for row in self._tables.children(thread_id)[offset : offset + limit]]

    async def living(self, thread_id: str) -> Mapping[str, int]:
        return Counter([row.born.agent for row in self._tables.children(thread_id) if not row.is_over])

    async def awaited(self, thread_id: str, call_id: str) -> bool:
        rows = self._tables.children(thread_id)
        return any(row.report == call_id and row.run_id is not None for row in rows)

    async def nested(self, call_id: str) -> Sequence[Call]:
        rows = [call for call in self._tables.calls.values() if call.parent_id == call_id]
        return sorted(rows, key=lambda call: (call.step, call.position))

    async def within(self, call_id: str) -> Sequence[Message]:
        parent = self._tables.calls.get(call_id)
        messages = [] if parent is None else self._tables.threads[parent.thread_id].messages
        return [message for message in messages if message.within == call_id]

    async def request(self, request_id: str) -> VariablesRequest | None:
        return self._tables.requests.get(request_id)

    async def requests(self, thread_id: str) -> Sequence[VariablesRequest]:
        rows = [each for each in self._tables.requests.values() if each.thread_id == thread_id]
        return sorted(rows, key=lambda each: (each.created_at, each.id))

    async def expired(self, at: datetime, limit: int) -> Sequence[VariablesRequest]:
        timed = [(each.expires_at, each) for each in self._tables.requests.values() if each.expires_at]
        over = [(until, each) for until, each in timed if until <= at]
        return [each for _, each in sorted(over, key=lambda one: (one[0], one[1].id))[:limit]]

    async def requested_variables(self) -> Sequence[str]:
        return sorted({each.name for request in self._parked() for each in request.required})

    async def waiting_threads(self, name: str) -> Sequence[str]:
        asking = [each for each in self._parked() if name in {one.name for one in each.required}]
        return sorted({each.thread_id for each in asking})

    def _parked(self) -> list[VariablesRequest]:
        return [each for each in self._tables.requests.values() if each.kind == "run"]

    async def value(self, thread_id: str, key: str) -> str | None:
        return self._tables.values.get((thread_id, key))

    async def values(self, thread_id: str) -> Mapping[str, str]:
        return {key: text for (owner, key), text in self._tables.values.items() if owner == thread_id}
