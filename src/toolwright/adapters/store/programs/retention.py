"""Deletion of threads as programs: the thread itself is deleted at once, its other rows in batches."""

from toolwright.adapters.store.engine.codecs import Params, micros
from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, UnitResult
from toolwright.adapters.store.engine.program import Op, Program
from toolwright.adapters.store.programs.late_results import cancel_late_calls, shown
from toolwright.adapters.store.programs.parts import Steps, lock_threads
from toolwright.adapters.store.programs.spaces import perform
from toolwright.adapters.store.sql.retention import AGENT, SPACE
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.retention import DropThread, ForgetBytes, SweepThreads
from toolwright.core.journal.units import Committed
from toolwright.core.mcp.records import task_timer


def drop_thread(unit: DropThread, sql: Statements) -> Program:
    """Delete a thread tree. Conflict: `busy`, also while a request's answer is creating a child in it."""
    params: Params = {"thread_id": unit.thread_id}
    yield Op(sql.thread_state, params, "thread")
    below = yield Op(sql.children.below, params)
    family = {unit.thread_id, *[str(thread_id) for (thread_id,) in below]}
    yield from lock_threads(family, sql)
    yield Op(sql.thread_state, params, "thread")  # it can have been deleted while waiting for the locks
    yield from _may_go(unit, sql)
    asking = yield Op(sql.retention.drop_requests, params)
    yield [Op(sql.children.drop_asked, {"id": request_id}) for (request_id,) in asking]
    below = yield Op(sql.children.below, params)
    if not family.issuperset(str(thread_id) for (thread_id,) in below):
        raise GuardFailed("busy")
    pending_threads = yield Op(sql.retention.pending_threads, params)
    cancelled, edits = EffectResult(), list[Effect]()
    for thread_id in sorted(str(each) for (each,) in pending_threads):
        calls = yield from cancel_late_calls(
            sql.agents.cancel_calls_in_thread, {"thread_id": thread_id}, unit, sql, cancelled
        )
        edits += yield from shown(calls, sql)
    yield Op(sql.retention.note_threads, {**params, "at": micros(unit.at)})
    tasks = yield Op(sql.retention.drop_tasks, params)
    yield [Op(sql.spaces.drop_timer, {"name": task_timer(call_id)}) for (call_id,) in tasks]
    yield Op(sql.retention.drop_wakes, params)
    gone = yield Op(sql.retention.drop_threads, params)
    done = yield from perform(edits, unit, sql)
    return UnitResult(Committed(count=len(gone)), (*cancelled.events, *done.events))


def _may_go(unit: DropThread, sql: Statements) -> Steps:
    key: Params = {"thread_id": unit.thread_id}
    if (yield Op(sql.retention.at_work, key)):
        raise GuardFailed("busy")
    if unit.idle_since is None:
        return
    if (yield Op(sql.retention.pending_threads, key)):
        raise GuardFailed("busy")
    before = micros(unit.idle_since)
    for reason in sql.retention.reasons_to_stay:
        params = {**key, "before": before} if "before" in reason.order else key
        if (yield Op(reason, params)):
            raise GuardFailed("busy")


def sweep_threads(unit: SweepThreads, sql: Statements) -> Program:
    """Delete remaining rows, starting with the oldest deletion. Deletes its note after the last row."""
    rows = yield Op(sql.retention.next_dropped, {})
    if not rows:
        return UnitResult(Committed())
    note, remaining = str(rows[0][0]), unit.limit
    id = note.removeprefix(SPACE).removeprefix(AGENT)
    if note.startswith(SPACE):
        sweeps, forget = sql.retention.sweeps_of_space, sql.retention.forget_space
    elif id != note:
        sweeps, forget = sql.retention.sweeps_of_agent, sql.retention.forget_agent
    else:
        sweeps, forget = sql.retention.sweeps, sql.retention.forget_thread
        digests = yield Op(sql.retention.sweep_bytes, {"thread_id": id, "limit": remaining})
        at = micros(unit.at)
        yield [Op(sql.retention.drop_bytes, {"digest": digest, "at": at}) for (digest,) in digests]
        remaining -= len(digests)
    for sweep in sweeps:
        if not remaining:
            break
        swept = yield Op(sweep, {"thread_id": id, "limit": remaining})
        remaining -= len(swept)
    if remaining:
        yield Op(forget, {"thread_id": id, "note": note})
    return UnitResult(Committed(count=max(unit.limit - remaining, 1)))


def forget_bytes(unit: ForgetBytes, sql: Statements) -> Program:
    """Delete the records of the given bytes."""
    dropped: list[Params] = [{"digest": each.digest, "seen": micros(each.at)} for each in unit.dropped]
    yield [Op(sql.retention.forget_bytes, params) for params in dropped]
    return UnitResult(Committed(count=len(dropped)))
