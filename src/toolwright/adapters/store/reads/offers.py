"""Reads of calls on offer on SQL: the queries of one dialect, and the port over a driver."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from sqlalchemy import and_, or_, select, text

from toolwright.adapters.store.engine.codecs import Params, Row, micros
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.statement import (
    Compiler,
    DialectName,
    Statement,
    number,
    statements,
    string,
)
from toolwright.adapters.store.tables.calls import CALLS, ON_OFFER, calls
from toolwright.adapters.store.tables.threads import runs
from toolwright.core.journal.reads import Offer
from toolwright.core.json_value import dumps
from toolwright.core.threads.call import OPEN


class OfferQueries:
    """The queries about calls on offer. Their first condition is that of the indexes, word by word."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = compiled = Compiler(name)
        agent = select(runs.c.agent).where(runs.c.id == calls.c.run_id).scalar_subquery()
        trace = select(runs.c.traceparent).where(runs.c.id == calls.c.run_id).scalar_subquery()
        status = calls.c.status.concat("")  # an expression, so that the index of the statuses is not taken
        opened = or_(*(status == each for each in OPEN))
        in_time = or_(calls.c.expires_at.is_(None), calls.c.expires_at > number("at"))
        again = and_(calls.c.repeatable, calls.c.leased_until <= number("at"))
        offered = select(*calls.c, agent, trace).where(text(ON_OFFER), opened, in_time).limit(number("limit"))
        start = calls.c.started_at
        behind = and_(start >= number("after"), or_(start > number("after"), calls.c.id > string("after_id")))
        free = or_(calls.c.worker.is_(None), again)
        self._begun = offered.where(free, behind, start < number("before")).order_by(start, calls.c.id)
        self.begun = cache(self._begun_of)
        lapsed = offered.where(again, calls.c.leased_until >= number("since"))
        self.lapsed = compiled(lapsed.order_by(calls.c.leased_until))

    def _begun_of(self, count: int) -> Statement:
        if not count:
            return self._compiled(self._begun)
        return self._compiled(
            self._begun.where(calls.c.name.in_([string(f"name_{i}") for i in range(count)]))
        )


class SqlOffers:
    """The `OfferReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(OfferQueries, driver.dialect)

    async def begun(
        self,
        at: datetime,
        *,
        after: tuple[datetime, str],
        before: datetime,
        names: Sequence[str] | None = None,
        limit: int = 100,
    ) -> Sequence[Offer]:
        asked: Params = {"at": micros(at), "before": micros(before), "limit": limit}
        asked |= {"after": micros(after[0]), "after_id": after[1]}
        asked |= {f"name_{i}": dumps(name) for i, name in enumerate(names or ())}
        return await self._all(self._sql.begun(len(names or ())), asked)

    async def lapsed(self, at: datetime, *, since: datetime, limit: int = 100) -> Sequence[Offer]:
        return await self._all(self._sql.lapsed, {"at": micros(at), "since": micros(since), "limit": limit})

    async def _all(self, statement: Statement, params: Params) -> list[Offer]:
        return await read_rows(self._driver, _offers, statement, params)


def _offers(rows: Sequence[Row]) -> list[Offer]:
    """Return the available calls of the rows. Broken rows are left out, so that they do not block others."""
    return [
        Offer(call=call, agent=row[-2], traceparent=row[-1]) for row in rows for call in CALLS.each([row])
    ]
