"""Units of work on the in-memory tables. Preconditions are checked before any write, or per effect in order."""

from collections.abc import Sequence
from typing import TypeAlias

from toolwright.adapters.store.engine.late_results import handed_to, pending_calls, without_late_results
from toolwright.adapters.store.engine.outcome import (
    NO_EVENTS,
    NOTHING,
    EffectResult,
    GuardFailed,
    UnitResult,
    numbered,
)
from toolwright.adapters.store.memory import spaces
from toolwright.adapters.store.memory.children import cancel_late_calls
from toolwright.adapters.store.memory.retention import drop_thread, forget_bytes
from toolwright.adapters.store.memory.tables import Tables, ThreadRow
from toolwright.core.errors import Unwritable
from toolwright.core.journal import units
from toolwright.core.journal.approvals import Approve, Refuse
from toolwright.core.journal.effects import DropMember, Effect
from toolwright.core.journal.retention import DropThread, ForgetBytes, Prune, SweepThreads
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.threads.event import Event, RunEvents
from toolwright.core.threads.message import MessageVersion
from toolwright.core.threads.run import OVER, Run, Step
from toolwright.core.value import changed

Moved: TypeAlias = dict[str, Call]
RAISING = (units.Claim, units.Takeover)  # the units that increment the epoch


def advance(unit: units.Advance, tables: Tables) -> UnitResult:
    """Apply a worker's unit: check the fence, then write all of it. Only the unit's own parts are visited."""
    thread = tables.threads.get(unit.thread_id)
    opens = isinstance(unit, units.Claim) and unit.opens
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
            units.Committed(run_id=stored.id, posted=posted, cancel_requested=cancel, left=is_released),
            events,
        )
    runs = tuple(done.runs)
    answer = units.Committed(
        run_id=stored.id, posted=posted, cancel_requested=cancel, left=is_released, seq=done.seq, runs=runs
    )
    return UnitResult(answer, (*events, *done.events) if done.events else events)


def _write_thread(unit: units.Advance, thread: ThreadRow, over: bool) -> Sequence[Event]:
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


def _change_thread(unit: units.Advance, thread: ThreadRow) -> None:
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


def _move_calls(unit: units.Advance, tables: Tables) -> Moved:
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


def _check_inbox(unit: units.Advance, thread: ThreadRow, stored: Run) -> None:
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


def apply(unit: units.Unit, tables: Tables) -> UnitResult:
    """Apply the unit. Raises `GuardFailed`; for a unit without effects nothing was written then."""
    match unit:
        case units.Advance():
            return advance(unit, tables)
        case units.PostCall():
            return _post_call(unit, tables)
        case units.PostMessage():
            return _post(unit, tables)
        case units.Settle():
            return _settle(unit, tables)
        case Approve():
            return _approve(unit, tables)
        case units.RequestCancel():
            return _request_cancel(unit, tables)
        case units.RetryRun():
            return _retry_run(unit, tables)
        case units.Reseal():
            return _reseal(unit, tables)
        case units.SetEnv():
            return _set_env(unit, tables)
        case units.Apply():
            return _apply(unit, tables)
        case units.SaveAgent():
            return _save_agent(unit, tables)
        case units.DropAgent():
            return _drop_agent(unit, tables)
        case units.CancelOrphans():
            return _cancel_orphans(unit, tables)
        case units.LeaseCall():
            return _lease_call(unit, tables)
        case units.RetryEvent():
            return _retry_event(unit, tables)
        case units.CreateThread():
            return _create_thread(unit, tables)
        case units.RenameThread():
            thread = tables.thread(unit.thread_id)
            thread.born = changed(thread.born, name=unit.name)
            return UnitResult(units.Committed())
        case units.Leave():
            return UnitResult(units.Committed(left=tables.leave(unit.thread_id, unit.leaving)))
        case units.SaveEntity():
            return _save_entity(unit, tables)
        case units.SignOut() | units.UseOnce():
            current = {key: times for key, times in tables.sign_outs.items() if times[1] >= unit.at}
            if isinstance(unit, units.UseOnce) and unit.key in current:
                raise GuardFailed("duplicate")
            tables.sign_outs.clear()
            tables.sign_outs.update({**current, unit.key: (unit.at, unit.until)})
            return UnitResult(units.Committed())
        case units.DropEntity():
            return _drop_entity(unit, tables)
        case Prune():
            return _prune(unit, tables)
        case units.Probe() | SweepThreads():  # the thread has been deleted
            return UnitResult(units.Committed())
        case DropThread():
            return drop_thread(unit, tables)
        case ForgetBytes():
            return forget_bytes(unit, tables)
        case _:
            raise TypeError(f"No store can apply the unit {type(unit).__name__}.")


def _create_thread(unit: units.CreateThread, tables: Tables) -> UnitResult:
    thread = unit.thread
    if thread.id in tables.threads:
        raise GuardFailed("duplicate")
    tables.threads[thread.id] = ThreadRow.born_as(thread)
    tables.set_env(unit.env)
    return UnitResult(units.Committed())


def _post(unit: units.PostMessage, tables: Tables) -> UnitResult:
    thread = tables.thread(unit.event.thread_id)
    if thread.is_over:
        raise GuardFailed("terminated")
    joins = thread.run_id not in (None, unit.run.id)
    if unit.event.event_id in thread.inbox or (not joins and unit.run.id in tables.runs):
        raise GuardFailed("duplicate")
    thread.check_files(unit.files)
    run_id = thread.run_id or unit.run.id
    thread.write(unit.files)
    thread.post(changed(unit.event, run_id=run_id))
    tables.wake(thread.born.id, unit.at)
    if joins:
        return UnitResult(units.Committed(run_id=run_id))
    thread.run_id = run_id
    tables.runs[run_id] = unit.run
    thread.ev += 1
    events = numbered((unit.queued,), thread.ev, unit, thread.born.id, run_id, thread.born.agent)
    thread.events.append(events)
    return UnitResult(units.Committed(run_id=run_id), events)


def _post_call(unit: units.PostCall, tables: Tables) -> UnitResult:
    event, run = unit.event, tables.runs.get(unit.run.id)
    thread = tables.thread(event.thread_id)
    if thread.is_over:
        raise GuardFailed("terminated")
    if event.event_id in thread.inbox:
        raise GuardFailed("duplicate")
    if thread.run_id not in (None, unit.run.id):
        raise GuardFailed("busy")
    if run is not None and (run.thread_id != event.thread_id or (run.over and run.status != "completed")):
        raise GuardFailed("run")
    thread.post(changed(event, run_id=unit.run.id))
    tables.wake(event.thread_id, unit.at)
    if thread.run_id is not None:
        return UnitResult(units.Committed(run_id=unit.run.id))
    opened = changed(unit.run if run is None else run, status="queued", completed_at=None, calls_only=True)
    thread.run_id, tables.runs[opened.id] = opened.id, opened
    thread.begun = opened.started_at is not None
    thread.ev += 1
    events = numbered((unit.queued,), thread.ev, unit, event.thread_id, opened.id, thread.born.agent)
    thread.events.append(events)
    return UnitResult(units.Committed(run_id=opened.id), events)


def _retry_run(unit: units.RetryRun, tables: Tables) -> UnitResult:
    thread, run = tables.thread(unit.thread_id), tables.runs.get(unit.run_id)
    if thread.is_over:
        raise GuardFailed("terminated")
    if thread.run_id is not None:
        raise GuardFailed("busy")
    if run is None or run.thread_id != unit.thread_id or run.status != "failed":
        raise GuardFailed("run")
    if any(
        each.thread_id == run.thread_id and each.created_at > run.created_at for each in tables.runs.values()
    ):
        raise GuardFailed("run")
    tables.runs[run.id] = changed(
        run,
        status="queued",
        stop_reason=None,
        error=None,
        error_code=None,
        lives=0,
        isolated=0,
        waiting=None,
        cancel_requested_at=None,
        completed_at=None,
    )
    thread.run_id, thread.begun = run.id, True
    thread.state, thread.report = None, None
    thread.faults, thread.not_before = 0, None
    thread.ev += 1
    events = numbered((unit.queued,), thread.ev, unit, unit.thread_id, run.id, thread.born.agent)
    thread.events.append(events)
    tables.wake(unit.thread_id, unit.at)
    return UnitResult(units.Committed(run_id=run.id), events)


def _request_cancel(unit: units.RequestCancel, tables: Tables) -> UnitResult:
    run = tables.open_run(unit.run_id, unit.thread_id)
    if run.cancel_requested_at is None:
        tables.runs[run.id] = changed(run, cancel_requested_at=unit.at)
    tables.wake(unit.thread_id, unit.at)
    return UnitResult(units.Committed(run_id=run.id))


def _set_env(unit: units.SetEnv, tables: Tables) -> UnitResult:
    if unit.entity_id is not None and unit.entity_id not in tables.entities:
        raise GuardFailed("entity")
    thread = None if unit.thread_id is None else tables.thread(unit.thread_id)
    if thread is not None:
        thread.posted += 1
    tables.set_env(unit.env)
    tables.wake_askers(unit.env, unit.at)
    done = spaces.perform(unit.effects, unit, tables)
    return UnitResult(units.Committed(runs=tuple(done.runs)), tuple(done.events))


def _reseal(unit: units.Reseal, tables: Tables) -> UnitResult:
    count = 0
    for was, now in unit.rows:
        key = (was.owner, was.kind, was.name)
        stored = tables.env.get(key)
        if stored is not None and stored.value == was.value:
            tables.env[key] = changed(stored, value=now.value, key=now.key)
            count += 1
    return UnitResult(units.Committed(count=count))


def _retry_event(unit: units.RetryEvent, tables: Tables) -> UnitResult:
    thread = tables.threads.get(unit.thread_id)
    event = None if thread is None else thread.inbox.get(unit.event_id)
    if thread is None or event is None or event.status != "failed":
        raise GuardFailed("inbox")
    thread.change(changed(event, status="pending", attempts=0, run_id=None))
    thread.not_before = None
    tables.wake(unit.thread_id, unit.at)
    return UnitResult(units.Committed())


def _settle(unit: units.Settle, tables: Tables) -> UnitResult:
    thread = tables.thread(unit.thread_id)
    call = tables.calls.get(unit.call_id)
    if call is None or call.thread_id != unit.thread_id or call.status not in OPEN:
        raise GuardFailed("call")
    late = call.expires_at is not None and call.expires_at <= unit.at
    in_time = isinstance(unit, units.Submit | Refuse)
    if (in_time and late) or (isinstance(unit, units.Expire) and not late):
        raise GuardFailed("call")
    if in_time and call.awaits_approval != isinstance(unit, Refuse):
        raise GuardFailed("call")
    thread.check_files(unit.files)
    route = "inbox" if call.status == "pending" else "inline"
    if route == "inbox":
        if unit.notice.event_id in thread.inbox:
            raise GuardFailed("duplicate")
        thread.post(unit.notice)
    thread.write(unit.files)
    tables.calls[call.id] = changed(
        call, status=unit.outcome, route=route, result=unit.result, completed_at=unit.at
    )
    thread.ev += 1
    events = numbered((unit.event,), thread.ev, unit, unit.thread_id, call.run_id, thread.born.agent)
    thread.events.append(events)
    tables.wake(unit.thread_id, unit.at)
    done = spaces.perform(unit.effects, unit, tables)
    return UnitResult(units.Committed(run_id=call.run_id, route=route), (*events, *done.events))


def _approve(unit: Approve, tables: Tables) -> UnitResult:
    thread = tables.thread(unit.thread_id)
    call = tables.calls.get(unit.call_id)
    if call is None or call.thread_id != unit.thread_id or not call.awaits_approval:
        raise GuardFailed("call")
    if call.expires_at is not None and call.expires_at <= unit.at:
        raise GuardFailed("call")
    tables.calls[call.id] = call.approved(unit.arguments)
    thread.ev += 1
    events = numbered((unit.event,), thread.ev, unit, unit.thread_id, call.run_id, thread.born.agent)
    thread.events.append(events)
    tables.wake(unit.thread_id, unit.at)
    done = spaces.perform(unit.effects, unit, tables)
    return UnitResult(units.Committed(run_id=call.run_id), (*events, *done.events))


def _apply(unit: units.Apply, tables: Tables) -> UnitResult:
    done = spaces.perform(unit.effects, unit, tables)
    answer = units.Committed(seq=done.seq, runs=tuple(done.runs), count=done.count)
    return UnitResult(answer, tuple(done.events))


def _lease_call(unit: units.LeaseCall, tables: Tables) -> UnitResult:
    call = tables.calls.get(unit.call_id)
    if call is None or call.status not in OPEN or not call.free_for(unit.worker, unit.at):
        raise GuardFailed("call")
    tables.calls[call.id] = changed(call, worker=unit.worker, leased_until=unit.until)
    return UnitResult(units.Committed())


def _save_entity(unit: units.SaveEntity, tables: Tables) -> UnitResult:
    entity, was = unit.entity, unit.was
    stored = None if was is None else tables.entities.get(was.id)
    if was is not None and (stored is None or stored.updated_at != was.updated_at):
        raise GuardFailed("entity")
    same_id = None if entity.external_id is None else tables.entity_by_external_id(entity.external_id)
    if (same_id is not None and same_id is not stored) or (stored is None and entity.id in tables.entities):
        raise GuardFailed("duplicate")
    tables.entities[entity.id] = entity
    return UnitResult(units.Committed())


def _save_agent(unit: units.SaveAgent, tables: Tables) -> UnitResult:
    agent, stored = unit.agent, tables.agents.get(unit.agent.id)
    if unit.was is not None and (stored is None or stored.revision != unit.was):
        raise GuardFailed("agent")
    same_name = next((one for one in tables.agents.values() if one.name == agent.name), None)
    if (same_name is not None and same_name is not stored) or (unit.was is None and stored is not None):
        raise GuardFailed("duplicate")
    tables.agents[agent.id] = tables.revisions[agent.id, agent.revision] = agent
    tables.set_env(unit.env)
    tables.wake_askers(unit.env, unit.at)
    return UnitResult(units.Committed())


def _drop_agent(unit: units.DropAgent, tables: Tables) -> UnitResult:
    if tables.agents.pop(unit.agent_id, None) is None:
        raise GuardFailed("agent")
    tables.drop_mind(unit.agent_id)
    pending_threads = tables.pending_threads_of(unit.agent_id)
    done = EffectResult()
    edits = [
        edit for row in pending_threads for edit in cancel_late_calls(row, unit, tables, done, unit.author)
    ]
    for row in pending_threads:
        tables.wake(row.born.id, unit.at)
    effects = _leave_spaces(unit, tables, edits)
    return effects._replace(events=(*done.events, *effects.events))


def _cancel_orphans(unit: units.CancelOrphans, tables: Tables) -> UnitResult:
    rows = [tables.threads[each] for each in sorted(unit.thread_ids) if each in tables.threads]
    rows = [row for row in rows if tables.is_deleted(row.answering)]
    cancelled = EffectResult()
    edits = [edit for row in rows for edit in cancel_late_calls(row, unit, tables, cancelled)]
    done = spaces.perform(edits, unit, tables)
    return UnitResult(units.Committed(count=len(rows)), (*cancelled.events, *done.events))


def _drop_entity(unit: units.DropEntity, tables: Tables) -> UnitResult:
    if tables.entities.pop(unit.entity_id, None) is None:
        raise GuardFailed("entity")
    for key in [key for key in tables.env if key[0] == unit.entity_id]:
        del tables.env[key]
    tables.drop_owned("entity_id", unit.entity_id)
    return _leave_spaces(unit, tables)


def _leave_spaces(
    unit: units.DropAgent | units.DropEntity, tables: Tables, before: Sequence[Effect] = ()
) -> UnitResult:
    """Return effects that remove a participant from its spaces, preceded by `before`, which ends its work there."""
    space_ids = sorted(space_id for space_id, entity_id in tables.members if entity_id == unit.entity_id)
    effects = [DropMember(space_id=one, entity_id=unit.entity_id, events=unit.told) for one in space_ids]
    return UnitResult(units.Committed(), tuple(spaces.perform([*before, *effects], unit, tables).events))


def _prune(unit: Prune, tables: Tables) -> UnitResult:
    if unit.before is None:
        return UnitResult(units.Committed())
    remaining, before = unit.limit, unit.before
    idle = [row for row in tables.threads.values() if row.run_id is None]
    old = [(told, row) for row in idle for told in row.events if told.at < before]
    for told, row in sorted(old, key=lambda each: each[0].at):
        if not remaining:
            break
        row.events.remove(told)  # within a thread, oldest first
        rest = told.without(remaining)
        if rest is not None:
            row.events.insert(0, rest)
        remaining -= len(told) - (0 if rest is None else len(rest))
    gone = [event for event in tables.space_events if event.at < before][:remaining]
    del tables.space_events[: len(gone)]
    return UnitResult(units.Committed(count=unit.limit - remaining + len(gone)))
