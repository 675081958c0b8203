"""Units of work in memory: a worker's unit, which is checked before it is written, and all others as rules."""

from collections.abc import Sequence
from operator import attrgetter

from msgspec.structs import replace

from toolwright.adapters.store.engine.outcome import NO_EVENTS, UnitResult
from toolwright.adapters.store.memory.rows import MemoryRows
from toolwright.adapters.store.rules.effects import perform
from toolwright.adapters.store.rules.late_results import pending_calls, without_orphans
from toolwright.adapters.store.rules.parts import new_files, wake_askers, write_env, write_files
from toolwright.adapters.store.rules.units import rule_of
from toolwright.core.errors import Unwritable
from toolwright.core.journal import units
from toolwright.core.journal.retention import Prune, SweepThreads
from toolwright.core.journal.rows import GuardFailed
from toolwright.core.threads.call import MOVED
from toolwright.core.threads.event import Event, RunEvents
from toolwright.core.threads.message import MessageVersion
from toolwright.core.threads.run import OVER, Run
from toolwright.core.threads.thread import Thread, Wake
from toolwright.core.value import changed

NOW, STATUS = attrgetter("after.status"), attrgetter("status")
RAISING = (units.Claim, units.Takeover)  # the units that increment the epoch


def apply(unit: units.Unit, rows: MemoryRows) -> UnitResult:
    """Apply a unit that is not a worker's. If it raises, it must be undone."""
    match unit:
        case Prune():
            return _prune(unit, rows)
        case units.Probe() | SweepThreads():  # rows of deleted threads are not left
            return UnitResult(units.Committed())
        case _:
            return rows.run(rule_of(unit))


def advance(unit: units.Advance, rows: MemoryRows) -> UnitResult:
    """Apply a worker's unit: check the fence, then write all of it. Only the unit's own parts are visited."""
    thread_id, run = unit.thread_id, unit.run
    thread = rows.threads.rows.get((thread_id,))
    opens = isinstance(unit, units.Claim) and unit.opens
    if thread is None or thread.epoch != unit.epoch or thread.seq != unit.seq:
        raise GuardFailed("fence")
    if opens and (thread.run_id is not None or thread.is_over):
        raise GuardFailed("fence")
    if unit.node is not None:
        wake = rows.of(Wake).get(thread_id)
        if wake is None or wake.node != unit.node:
            raise GuardFailed("lease")
    statuses = (*map(NOW, unit.changes), *map(STATUS, unit.calls), *map(STATUS, unit.nested))
    if "pending" in statuses and pending_calls(unit):
        unit = rows.run(without_orphans(unit))
    if unit.changes:
        _move_calls(unit, rows)
    stored = rows.runs.rows.get((run.id,))
    if opens:
        if stored is not None:
            raise GuardFailed("duplicate")
        stored = run
    elif stored is None or stored.thread_id != thread_id or stored.status in OVER:
        raise GuardFailed("run")
    over = run.status in OVER
    if unit.read or unit.inbox or over:
        _change_inbox(unit, stored, over, rows)
    if opens:
        rows.runs.put((run.id,), run)
    elif run is not stored:
        rows.log.append((rows.runs.restore, (run.id,), stored))
        rows.runs.rows[run.id,] = _merged(run, stored)
    if unit.calls or unit.nested or unit.step is not None:
        _add_step(unit, rows)
    if unit.dropped or unit.edited:
        _change_messages(unit, rows)
    events = _write_thread(unit, thread, over, rows)
    cancel = stored.cancel_requested_at is not None
    is_released = unit.leaving is None or _leave(thread_id, unit.leaving, rows)
    for operation in (*new_files(unit.files), *write_files(thread_id, unit.files)) if unit.files else ():
        rows.perform(operation)
    answer = units.Committed(run_id=run.id, posted=thread.posted, cancel_requested=cancel, left=is_released)
    if not (unit.effects or unit.env):
        return UnitResult(answer, events)
    for operation in write_env(unit.env):
        rows.perform(operation)
    rows.run(wake_askers(unit.env, unit))
    done = rows.run(perform(unit.effects, unit))
    answer = changed(answer, seq=done.seq, runs=tuple(done.runs))
    return UnitResult(answer, (*events, *done.events) if done.events else events)


def _write_thread(unit: units.Advance, thread: Thread, over: bool, rows: MemoryRows) -> Sequence[Event]:
    """Append the messages and events of the unit, and write the row of the thread."""
    thread_id, run, seq = unit.thread_id, unit.run, thread.seq
    for message in unit.messages:
        seq += 1
        placed = message if message.seq == seq else replace(message, seq=seq)
        rows.messages.put((thread_id, seq), placed)
    ev = thread.ev + len(unit.events)
    row = replace(
        thread,
        run_id=thread.next_run_id if over else run.id,
        next_run_id=None if over else thread.next_run_id,
        begun=run.started_at is not None and not over,
        epoch=thread.epoch + 1 if isinstance(unit, RAISING) else thread.epoch,
        seq=seq,
        ev=ev,
    )
    rows.log.append((rows.threads.restore, (thread_id,), thread))
    rows.threads.rows[thread_id,] = row
    if not unit.events:
        return NO_EVENTS
    events, stored = RunEvents(unit.events, ev, unit.at, thread_id, run.id, run.agent), rows.events[thread_id]
    stored.append(events)
    rows.log.append((stored.pop,))
    return events


def _leave(thread_id: str, leaving: units.Leaving, rows: MemoryRows) -> bool:
    """Release the thread, if its wake-up is unchanged since the worker has read it."""
    wakes, key = rows.of(Wake), (thread_id,)
    stored = wakes.rows.get(key)
    if stored is None or stored.gen != leaving.gen:
        return False
    if leaving.due is None:
        wakes.drop(key)
    else:
        wakes.put(key, replace(stored, due=leaving.due))
    return True


def _change_messages(unit: units.Advance, rows: MemoryRows) -> None:
    """Drop or edit existing messages. The earlier text of a message is kept."""
    messages, versions = rows.messages, rows.of(MessageVersion)
    for seq in unit.dropped:
        key = (unit.thread_id, seq)
        messages.put(key, changed(messages.rows[key], kept=False))
    for edited in unit.edited:
        key = (unit.thread_id, edited.seq)
        stored = messages.rows.get(key)
        if stored is None:
            continue
        version = MessageVersion(
            thread_id=unit.thread_id,
            seq=stored.seq or 0,
            until=unit.seq,
            content=stored.content,
            native=stored.native,
        )
        versions.put((*key, unit.seq), version)
        messages.put(key, changed(edited, pinned=stored.pinned))


def _move_calls(unit: units.Advance, rows: MemoryRows) -> None:
    calls = rows.calls
    for change in unit.changes:
        before, after = change.before, change.after
        call = calls.rows.get((after.id,))
        if call is None or call.thread_id != unit.thread_id or call.status != before.status:
            raise GuardFailed("call")
        if call is not before:  # others have written fields that no transition changes
            after = changed(call, **{name: getattr(after, name) for name in MOVED})
        calls.put((after.id,), after)


def _add_step(unit: units.Advance, rows: MemoryRows) -> None:
    table, steps, step = rows.calls, rows.steps, unit.step
    for call in (*unit.calls, *unit.nested):
        if (call.id,) in table.rows:
            raise Unwritable("The journal cannot hold this: a call with this id already exists.")
        table.put((call.id,), call)
    if step is not None:
        if (step.run_id, step.number) in steps.rows:
            raise Unwritable("The journal cannot hold this: this step already exists.")
        steps.put((step.run_id, step.number), step)


def _change_inbox(unit: units.Advance, stored: Run, over: bool, rows: MemoryRows) -> None:
    inbox, thread_id = rows.inbox, unit.thread_id
    for event_id in unit.read:
        event = inbox.get(thread_id, event_id)
        if event is None or event.status != "pending":
            raise GuardFailed("inbox")
        inbox.put((thread_id, event_id), changed(event, status="processed"))
    for change in unit.inbox:
        event = inbox.get(thread_id, change.event_id)
        if event is None or event.status != change.was or change.event_id in unit.read:
            raise GuardFailed("inbox")
        inbox.put((thread_id, change.event_id), event.changed(change))
    if not over:
        return
    if unit.run.status != "cancelled" and stored.cancel_requested_at is not None:
        raise GuardFailed("cancel")
    touched = {change.event_id for change in unit.inbox}
    joined = [event for event in inbox.of("open_in", thread_id) if event.run_id == unit.run.id]
    if any(event.status == "pending" and event.event_id not in touched for event in joined):
        raise GuardFailed("unread")


def _merged(run: Run, stored: Run) -> Run:
    """Return the run's new row. Its initial fields, and fields that others write, are kept as stored."""
    if (
        run.cancel_requested_at == stored.cancel_requested_at
        and run.decisions == stored.decisions
        and run.created_at == stored.created_at
        and run.agent == stored.agent
    ):
        return run
    return changed(
        run,
        agent=stored.agent,
        cancel_requested_at=stored.cancel_requested_at,
        decisions=stored.decisions,
        created_at=stored.created_at,
    )


def _prune(unit: Prune, rows: MemoryRows) -> UnitResult:
    if unit.before is None:
        return UnitResult(units.Committed())
    remaining, before, threads = unit.limit, unit.before, rows.threads
    idle = [id for id in rows.events if (row := threads.get(id)) is not None and row.run_id is None]
    old = [(told, rows.events[id]) for id in idle for told in rows.events[id] if told.at < before]
    for told, stored in sorted(old, key=lambda each: each[0].at):
        if not remaining:
            break
        stored.remove(told)  # within a thread, oldest first
        rest = told.without(remaining)
        if rest is not None:
            stored.insert(0, rest)
        remaining -= len(told) - (0 if rest is None else len(rest))
    gone = [event for event in rows.space_events if event.at < before][:remaining]
    del rows.space_events[: len(gone)]
    return UnitResult(units.Committed(count=unit.limit - remaining + len(gone)))
