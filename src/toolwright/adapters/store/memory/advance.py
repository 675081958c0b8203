"""A worker's units of work on the in-memory tables, protected by their fence."""

from collections.abc import Sequence
from typing import TypeAlias

from toolwright.adapters.store.engine.late_results import handed_to, pending_calls, without_late_results
from toolwright.adapters.store.engine.outcome import NO_EVENTS, NOTHING, GuardFailed, UnitResult
from toolwright.adapters.store.memory import spaces
from toolwright.adapters.store.memory.tables import Tables, ThreadRow
from toolwright.core.errors import Unwritable
from toolwright.core.journal.units import Advance, Claim, Committed, Takeover
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Event, RunEvents
from toolwright.core.threads.message import MessageVersion
from toolwright.core.threads.run import OVER, Run, Step
from toolwright.core.value import changed

Moved: TypeAlias = dict[str, Call]
RAISING = (Claim, Takeover)  # the units that increment the epoch


def advance(unit: Advance, tables: Tables) -> UnitResult:
    """Apply a worker's unit: check the fence, then write all of it. Only the unit's own parts are visited."""
    thread = tables.threads.get(unit.thread_id)
    opens = isinstance(unit, Claim) and unit.opens
    if thread is None or thread.epoch != unit.epoch or thread.seq != unit.seq:
        raise GuardFailed("fence")
    if opens and (thread.run_id is not None or thread.is_over):
        raise GuardFailed("fence")
    if unit.node is not None and tables.leased_by(unit.thread_id) != unit.node:
        raise GuardFailed("lease")
    pending = pending_calls(unit)
    if pending and tables.is_deleted(handed_to(unit) or thread.answering):
        stored = [tables.calls[call_id] for call_id in pending if call_id in tables.calls]
        unit = without_late_results(unit, stored, tables.space_messages)
    run = unit.run
    moved = _move_calls(unit, tables) if unit.changes else {}
    calls = (*unit.calls, *unit.nested) if unit.nested else unit.calls
    if calls or unit.step is not None:
        _check_new(calls, unit.step, tables)
    stored = _new_run(run, tables) if opens else tables.open_run(run.id, unit.thread_id)
    over = run.status in OVER
    if unit.read or unit.inbox or over:
        _check_inbox(unit, thread, stored)
    if unit.files:
        thread.check_files(unit.files)

    if moved:
        tables.calls.update(moved)
    tables.runs[stored.id] = _merged(run, stored)
    if unit.env:
        tables.set_env(unit.env)
        tables.wake_askers(unit.env, unit.at)
    if unit.files:
        thread.write(unit.files)
    if isinstance(unit, RAISING):
        thread.epoch += 1
    events = _write_thread(unit, thread, over)
    for call in calls:
        tables.calls[call.id] = call
        tables.calls_of[call.run_id, call.step].append(call.id)
        tables.calls_in[call.thread_id].append(call.id)
    if unit.step is not None:
        tables.steps[unit.step.run_id].append(unit.step)
    is_released = unit.leaving is None or tables.leave(unit.thread_id, unit.leaving)
    posted = thread.posted
    done = spaces.perform(unit.effects, unit, tables) if unit.effects else NOTHING
    cancel = stored.cancel_requested_at is not None
    if done is NOTHING:
        return UnitResult(
            Committed(run_id=stored.id, posted=posted, cancel_requested=cancel, left=is_released), events
        )
    runs = tuple(done.runs)
    answer = Committed(
        run_id=stored.id, posted=posted, cancel_requested=cancel, left=is_released, seq=done.seq, runs=runs
    )
    return UnitResult(answer, (*events, *done.events) if done.events else events)


def _write_thread(unit: Advance, thread: ThreadRow, over: bool) -> Sequence[Event]:
    run = unit.run
    thread.run_id, thread.begun = run.id, run.started_at is not None
    if over:
        thread.run_id, thread.next_run_id, thread.begun = thread.next_run_id, None, False
    if unit.read or unit.inbox or unit.dropped or unit.edited:
        _change_thread(unit, thread)
    for message in unit.messages:
        thread.seq += 1
        placed = message if message.seq == thread.seq else changed(message, seq=thread.seq)
        thread.messages.append(placed)
    if not unit.events:
        return NO_EVENTS
    thread.ev += len(unit.events)
    events = RunEvents(unit.events, thread.ev, unit.at, unit.thread_id, run.id, run.agent)
    thread.events.append(events)
    return events


def _change_thread(unit: Advance, thread: ThreadRow) -> None:
    """Change existing inbox events and messages."""
    for event_id in unit.read:
        thread.inbox[event_id] = changed(thread.unread.pop(event_id), status="processed")
    for change in unit.inbox:
        thread.change(thread.inbox[change.event_id].changed(change))
    if unit.dropped:
        skipped = {*unit.dropped}
        thread.messages = [
            changed(each, kept=False) if each.seq in skipped else each for each in thread.messages
        ]
    for edited in unit.edited:
        for each in thread.messages:
            if each.seq is not None and each.seq == edited.seq:
                thread.versions += (
                    MessageVersion(
                        thread_id=unit.thread_id,
                        seq=each.seq,
                        until=unit.seq,
                        content=each.content,
                        native=each.native,
                    ),
                )
        thread.messages = [
            changed(edited, pinned=each.pinned) if each.seq == edited.seq else each
            for each in thread.messages
        ]


def _move_calls(unit: Advance, tables: Tables) -> Moved:
    moved: Moved = {}
    for change in unit.changes:
        call = moved.get(change.id) or tables.calls.get(change.id)
        if call is None or call.thread_id != unit.thread_id or call.status != change.was:
            raise GuardFailed("call")
        moved[call.id] = call.moved(change)
    return moved


def _check_new(calls: Sequence[Call], step: Step | None, tables: Tables) -> None:
    for call in calls:
        if call.id in tables.calls:
            raise Unwritable("The journal cannot hold this: a call with this id already exists.")
    steps = None if step is None else tables.steps.get(step.run_id)
    if step is not None and steps and steps[-1].number >= step.number:
        raise Unwritable("The journal cannot hold this: this step already exists.")


def _check_inbox(unit: Advance, thread: ThreadRow, stored: Run) -> None:
    if any(event_id not in thread.unread for event_id in unit.read) or len({*unit.read}) < len(unit.read):
        raise GuardFailed("inbox")
    read_ids = {*unit.read}
    for change in unit.inbox:
        event = thread.inbox.get(change.event_id)
        if event is None or event.status != change.was or change.event_id in read_ids:
            raise GuardFailed("inbox")
        read_ids.add(change.event_id)
    if not unit.run.over:
        return
    if unit.run.status != "cancelled" and stored.cancel_requested_at is not None:
        raise GuardFailed("cancel")
    joined = [event for event in thread.unread.values() if event.run_id == unit.run.id]
    if any(event.event_id not in read_ids for event in joined):
        raise GuardFailed("unread")


def _merged(run: Run, stored: Run) -> Run:
    """Return the run's new row. Its initial fields, and fields that others write, are kept as stored."""
    if (
        run.cancel_requested_at == stored.cancel_requested_at
        and run.created_at == stored.created_at
        and run.agent == stored.agent
    ):
        return run
    return changed(
        run,
        agent=stored.agent,
        cancel_requested_at=stored.cancel_requested_at,
        created_at=stored.created_at,
    )


def _new_run(run: Run, tables: Tables) -> Run:
    if run.id in tables.runs:
        raise GuardFailed("duplicate")
    return run
