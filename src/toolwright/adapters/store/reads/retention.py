"""Reads of what may be deleted and of what deletion has left on SQL: the queries of one dialect, and the port."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import exists, or_, select

from toolwright.adapters.store.engine.codecs import Params, Row, instant, micros
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.statement import Compiler, DialectName, number, statements, string
from toolwright.adapters.store.tables.retention import dropped_bytes, dropped_threads, kept_bytes
from toolwright.adapters.store.tables.threads import THREADS, family_of, runs, threads
from toolwright.core.journal.retention import DroppedBytes
from toolwright.core.threads.thread import Thread

_LATEST = micros(datetime.max.replace(tzinfo=UTC))
"""Invalid times count as later, and are left alone: an inspection reports them."""


class RetentionQueries:
    """The queries about deletion; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        first = select(threads.c.id).where(threads.c.id == string("thread_id"))
        family = select(family_of(first).c.id)
        at_work = select(threads.c.id, threads.c.run_id).where(
            threads.c.id.in_(family), threads.c.run_id.is_not(None)
        )
        self.open_runs = compiled(at_work.order_by(threads.c.id))
        ended_late = or_(runs.c.completed_at >= number("before"), runs.c.completed_at.is_(None))
        self.idle = compiled(
            THREADS.query.where(
                threads.c.id > string("after"),
                threads.c.parent_id.is_(None),
                threads.c.run_id.is_(None),
                threads.c.created_at < number("before"),
                ~exists().where(runs.c.thread_id == threads.c.id, ended_late),
            )
            .order_by(threads.c.id)
            .limit(number("limit"))
        )
        self.left = compiled(select(dropped_threads.c.thread_id).limit(1))
        needed = exists().where(kept_bytes.c.digest == dropped_bytes.c.digest)
        self.dropped_bytes = compiled(
            select(dropped_bytes.c.digest, dropped_bytes.c.at, needed)
            .where(dropped_bytes.c.digest > string("after"), dropped_bytes.c.at < _LATEST)
            .order_by(dropped_bytes.c.digest)
            .limit(number("limit"))
        )


class SqlRetention:
    """The `RetentionReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(RetentionQueries, driver.dialect)

    async def open_runs(self, thread_id: str) -> Sequence[tuple[str, str]]:
        return await read_rows(self._driver, _pairs, self._sql.open_runs, {"thread_id": thread_id})

    async def idle(self, before: datetime, after: str, limit: int) -> Sequence[Thread]:
        page: Params = {"before": micros(before), "after": after, "limit": limit}
        return await read_rows(self._driver, THREADS.each, self._sql.idle, page)

    async def has_rows_left(self) -> bool:
        return bool(await read_rows(self._driver, list, self._sql.left, {}))

    async def dropped_bytes(self, after: str, limit: int) -> Sequence[DroppedBytes]:
        page: Params = {"after": after, "limit": limit}
        return await read_rows(self._driver, _notes, self._sql.dropped_bytes, page)


def _pairs(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [(str(thread_id), str(run_id)) for thread_id, run_id in rows]


def _notes(rows: Sequence[Row]) -> list[DroppedBytes]:
    return [DroppedBytes(digest=digest, at=instant(at), needed=bool(needed)) for digest, at, needed in rows]
