"""Deletion of threads on the in-memory tables: all rows are deleted at once, because that is fast in memory."""

from collections.abc import Sequence
from datetime import datetime

from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, UnitResult
from toolwright.adapters.store.memory import spaces
from toolwright.adapters.store.memory.children import cancel_late_calls
from toolwright.adapters.store.memory.tables import Tables, ThreadRow
from toolwright.core.journal.retention import DroppedBytes, DropThread, ForgetBytes
from toolwright.core.journal.units import Committed
from toolwright.core.mcp.servers import McpTask, task_timer
from toolwright.core.threads.thread import Thread


def drop_thread(unit: DropThread, tables: Tables) -> UnitResult:
    """Delete the thread and its descendants if none of them has an open run."""
    family = [tables.thread(unit.thread_id), *tables.below(unit.thread_id)]
    if any(row.run_id is not None for row in family):
        raise GuardFailed("busy")
    ids = {row.born.id for row in family}
    if unit.idle_since is not None and _stays(ids, family, unit.idle_since, tables):
        raise GuardFailed("busy")
    cancelled = EffectResult()
    edits = [edit for row in family for edit in cancel_late_calls(row, unit, tables, cancelled)]
    for row in family:
        _drop_rows(row, unit.at, tables)
    for request in [each for each in tables.requests.values() if each.thread_id in ids]:
        del tables.requests[request.id]
    for task in [each for each in tables.records_of(McpTask).values() if each.thread_id in ids]:
        tables.wakes.pop(task_timer(task.call_id), None)
    for thread_id in ids:
        tables.drop_owned("thread_id", thread_id)
    for env_key in [key for key in tables.env if key[0] in ids]:
        del tables.env[env_key]
    for value_key in [key for key in tables.values if key[0] in ids]:
        del tables.values[value_key]
    for run in [each for each in tables.runs.values() if each.thread_id in ids]:
        del tables.runs[run.id]
        tables.steps.pop(run.id, None)
    done = spaces.perform(edits, unit, tables)
    return UnitResult(Committed(count=len(family)), (*cancelled.events, *done.events))


def _stays(ids: set[str], family: Sequence[ThreadRow], before: datetime, tables: Tables) -> bool:
    runs = [run for run in tables.runs.values() if run.thread_id in ids]
    return (
        any(row.born.created_at >= before or tables.pending_in(row.born.id) for row in family)
        or any(run.completed_at is None or run.completed_at >= before for run in runs)
        or any(request.thread_id in ids for request in tables.requests.values())
        or any(thread_id in tables.wakes for thread_id in ids)
    )


def _drop_rows(row: ThreadRow, at: datetime, tables: Tables) -> None:
    thread_id = row.born.id
    del tables.threads[thread_id]
    for sent_key in [key for key in tables.sent_texts if key[0] == thread_id]:
        del tables.sent_texts[sent_key]
    for row_key in [key for key in tables.compactions if key[0] == thread_id]:
        del tables.compactions[row_key]
    tables.wakes.pop(thread_id, None)
    tables.dropped_bytes.update(dict.fromkeys(row.digests, at))
    for call_id in tables.calls_in.pop(thread_id, ()):
        call = tables.calls.pop(call_id)
        tables.calls_of.pop((call.run_id, call.step), None)


def forget_bytes(unit: ForgetBytes, tables: Tables) -> UnitResult:
    """Delete the records of the given bytes if they are unchanged."""
    for each in unit.dropped:
        if tables.dropped_bytes.get(each.digest) == each.at:
            del tables.dropped_bytes[each.digest]
    return UnitResult(Committed(count=len(unit.dropped)))


class MemoryRetention:
    """The `RetentionReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def open_runs(self, thread_id: str) -> Sequence[tuple[str, str]]:
        top = self._tables.threads.get(thread_id)
        family = [] if top is None else [top, *self._tables.below(thread_id)]
        return sorted((row.born.id, row.run_id) for row in family if row.run_id is not None)

    async def idle(self, before: datetime, after: str, limit: int) -> Sequence[Thread]:
        young = {
            run.thread_id
            for run in self._tables.runs.values()
            if run.completed_at is None or run.completed_at >= before
        }
        rows = [row.value() for row in self._tables.threads.values() if row.born.id > after]
        rows = [
            row
            for row in rows
            if row.parent_id is None
            and row.run_id is None
            and row.created_at < before
            and row.id not in young
        ]
        return sorted(rows, key=lambda row: row.id)[:limit]

    async def has_rows_left(self) -> bool:
        return False  # they were deleted with the thread

    async def dropped_bytes(self, after: str, limit: int) -> Sequence[DroppedBytes]:
        needed = {digest for row in self._tables.threads.values() for digest in row.digests}
        notes = sorted((digest, at) for digest, at in self._tables.dropped_bytes.items() if digest > after)
        return [DroppedBytes(digest=digest, at=at, needed=digest in needed) for digest, at in notes[:limit]]
