"""SQL of calls, including the calls available to external workers."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from sqlalchemy import Boolean, Column, Index, Integer, Table, Text, and_, false, or_, select, text

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object, micros
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.statement import (
    Compiler,
    DialectName,
    Statement,
    number,
    statements,
    string,
)
from toolwright.adapters.store.sql.threads import runs
from toolwright.core.journal.reads import Offer
from toolwright.core.json_value import dumps, dumps_unescaped
from toolwright.core.threads.approval import ApprovalState
from toolwright.core.threads.call import OPEN, Call, CallStatus, Route
from toolwright.core.tools.tool import Kind

ON_OFFER = "kind = 'external' AND completed_at IS NULL"
"""Condition of calls that external workers may claim. A query must repeat it exactly to use the indexes."""

IN_PASSING: frozenset[CallStatus] = frozenset({"created", "running", "done"})
BY_STATUS = "status NOT IN ('created', 'running', 'done')"
"""Condition of the index of call statuses: a usual call, which is created, runs and completes, never enters it.

A query must repeat it exactly to use the index, and must not ask for the statuses `IN_PASSING`.
"""

IS_OPEN = f"calls.{BY_STATUS} AND calls.status IN ('waiting', 'pending')"
IS_PENDING = f"calls.{BY_STATUS} AND calls.status = 'pending'"
"""Conditions of calls whose results have not arrived yet, and of calls that no run waits for."""

IN_A_SPACE = "space_id IS NOT NULL"
_BELOW = text("parent_id IS NOT NULL")
_OFFERED, _LEASED = text(ON_OFFER), text(f"{ON_OFFER} AND leased_until IS NOT NULL")

calls = Table(
    "calls",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", Json(a_text), nullable=False),
    Column("kind", Text, nullable=False, info=one_of(Kind)),
    Column("arguments", Json(a_text, dumps_unescaped), nullable=False),
    Column("model_call_id", Json(a_text), nullable=False),
    Column("status", Text, nullable=False, info=one_of(CallStatus)),
    Column("route", Text, info=one_of(Route)),
    Column("result", Json(an_object, dumps_unescaped)),
    Column("attempts", Integer, nullable=False),
    Column("deadline", Instant()),
    Column("expires_at", Instant()),
    Column("created_at", Instant(), nullable=False),
    Column("started_at", Instant()),
    Column("completed_at", Instant()),
    Column("visible", Boolean, nullable=False, server_default=false()),
    Column("space_id", Text),
    Column("repeatable", Boolean, nullable=False, server_default=false()),
    Column("worker", Json(a_text)),
    Column("leased_until", Instant()),
    Column("agent", Text),
    Column("parent_id", Text),
    Column("approval", Text, info=one_of(ApprovalState)),
    Column("terms", Json(an_object, dumps_unescaped)),
    Index("calls_by_parent", "parent_id", sqlite_where=_BELOW, postgresql_where=_BELOW),
    Index("calls_by_run", "run_id", "step", "position"),
    Index("calls_by_time", "created_at"),
    Index(
        "calls_by_status",
        "status",
        "created_at",
        sqlite_where=text(BY_STATUS),
        postgresql_where=text(BY_STATUS),
    ),
    Index(
        "calls_by_space",
        "space_id",
        "created_at",
        sqlite_where=text(IN_A_SPACE),
        postgresql_where=text(IN_A_SPACE),
    ),
    Index("calls_on_offer", "started_at", "id", sqlite_where=_OFFERED, postgresql_where=_OFFERED),
    Index("calls_leased", "leased_until", sqlite_where=_LEASED, postgresql_where=_LEASED),
)


CALLS = Mapping(calls, Call)


class OfferQueries:
    """Queries about calls available to external workers. Their first condition repeats that of the indexes exactly."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = compiled = Compiler(name)
        agent = select(runs.c.agent).where(runs.c.id == calls.c.run_id).scalar_subquery()
        trace = select(runs.c.traceparent).where(runs.c.id == calls.c.run_id).scalar_subquery()
        status = calls.c.status.concat("")  # an expression, so that the index of statuses is not used
        opened = or_(*(status == each for each in OPEN))
        in_time = or_(calls.c.expires_at.is_(None), calls.c.expires_at > number("at"))
        again = and_(calls.c.repeatable, calls.c.leased_until <= number("at"))
        offered = select(*calls.c, agent, trace).where(text(ON_OFFER), opened, in_time).limit(number("limit"))
        start = calls.c.started_at
        behind = and_(start >= number("after"), or_(start > number("after"), calls.c.id > string("after_id")))
        free = or_(calls.c.worker.is_(None), again)
        self._begun = offered.where(free, behind, start < number("before")).order_by(start, calls.c.id)
        self.begun = cache(self._begun_of)
        expired_leases = offered.where(again, calls.c.leased_until >= number("since"))
        self.expired_leases = compiled(expired_leases.order_by(calls.c.leased_until))

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

    async def claimable(
        self,
        at: datetime,
        *,
        after: tuple[datetime, str],
        before: datetime,
        names: Sequence[str] | None = None,
        limit: int = 100,
    ) -> Sequence[Offer]:
        params: Params = {"at": micros(at), "before": micros(before), "limit": limit}
        params |= {"after": micros(after[0]), "after_id": after[1]}
        params |= {f"name_{i}": dumps(name) for i, name in enumerate(names or ())}
        return await self._all(self._sql.begun(len(names or ())), params)

    async def expired_leases(self, at: datetime, *, since: datetime, limit: int = 100) -> Sequence[Offer]:
        return await self._all(
            self._sql.expired_leases, {"at": micros(at), "since": micros(since), "limit": limit}
        )

    async def _all(self, statement: Statement, params: Params) -> list[Offer]:
        return await read_rows(self._driver, _offers, statement, params)


def _offers(rows: Sequence[Row]) -> list[Offer]:
    """Return the available calls of the rows. Broken rows are left out, so that they do not block others."""
    return [
        Offer(call=call, agent=row[-2], traceparent=row[-1]) for row in rows for call in CALLS.each([row])
    ]
