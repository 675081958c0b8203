"""SQL of thread trees: links to parents, values of a thread, requests and their variables."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object, micros
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    number,
    read_rows,
    statements,
    string,
)
from toolwright.adapters.store.sql.messages import CALLS, MESSAGES, calls, messages
from toolwright.adapters.store.sql.threads import NOT_OVER, THREADS, family_of, runs, threads
from toolwright.core.env.env import Asked, RequestKind, Variable, VariablesRequest
from toolwright.core.json_value import dumps
from toolwright.core.threads.call import MOVES, Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread, ThreadValue


def _variables(parsed: Sequence[Any]) -> tuple[Variable, ...]:  # as written by _variables_text
    return tuple([Variable(*each) for each in parsed])


def _variables_text(variables: Sequence[Variable]) -> str:
    return dumps([[v.name, v.type, v.required, v.scoped, v.description] for v in variables])


thread_values = sa.Table(
    "thread_values",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("key", Json(a_text), nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("thread_id", "key"),
)

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False, info=one_of(RequestKind)),
    sa.Column("agent", Json(a_text), nullable=False),
    sa.Column("required", Json(_variables, _variables_text), nullable=False),
    sa.Column("child", Json(an_object)),
    sa.Column("expires_at", Instant()),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Index("requests_by_thread", "thread_id"),
)

asked = sa.Table(
    "asked",
    metadata,
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("name", "request_id"),
    sa.Index("asked_by_request", "request_id"),
)


REQUESTS = Mapping(requests, VariablesRequest)
ASKED = Mapping(asked, Asked)
THREAD_VALUES = Mapping(thread_values, ThreadValue)


# Phrased so that no database scans all pending calls of the journal, which can be many.
PENDING = sa.and_(*(calls.c.status != status for status in MOVES if status != "pending"))


class ChildStatements:
    """Statements about child threads, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        compiled, thread_id = Compiler(name), string("thread_id")
        children = sa.select(threads.c.id).where(threads.c.parent_id == thread_id)
        self.below = compiled(sa.select(family_of(children).c.id))
        of_thread = sa.select(runs.c.id).where(runs.c.thread_id == thread_id)
        self.pending_in = compiled(sa.select(calls).where(calls.c.run_id.in_(of_thread), PENDING))
        family = sa.select(family_of(sa.select(threads.c.id).where(threads.c.id == thread_id)).c.id)
        of_family = sa.select(runs.c.id).where(runs.c.thread_id.in_(family))
        self.pending_in_family = compiled(sa.select(calls).where(calls.c.run_id.in_(of_family), PENDING))


class ChildQueries:
    """Queries about thread trees, compiled for one dialect; each attribute is a query."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        above = sa.select(threads.c.parent_id.label("id"), sa.literal(1, sa.BigInteger).label("far"))
        above = above.where(threads.c.id == string("thread_id")).cte("above", recursive=True)
        farther = sa.select(threads.c.parent_id, above.c.far + 1).join(above, threads.c.id == above.c.id)
        above = above.union_all(farther)
        self.lineage = compiled(
            sa.select(threads).join(above, threads.c.id == above.c.id).order_by(above.c.far)
        )
        below = sa.select(threads).where(threads.c.parent_id == string("thread_id"))
        in_order = below.order_by(threads.c.created_at, threads.c.id)
        self.children = compiled(in_order.limit(number("limit")).offset(number("offset")))
        is_child = threads.c.parent_id == string("thread_id")
        alive = sa.select(threads.c.agent, sa.func.count()).where(is_child, NOT_OVER)
        self.living = compiled(alive.group_by(threads.c.agent))
        at_work = sa.select(threads.c.id).where(is_child, threads.c.run_id.is_not(None))
        self.awaited = compiled(at_work.where(threads.c.report == string("call_id")).limit(1))
        nested = sa.select(calls).where(calls.c.parent_id == string("call_id"))
        self.nested = compiled(nested.order_by(calls.c.step, calls.c.position))
        within = sa.select(messages).where(messages.c.within == string("call_id"))
        self.within = compiled(within.order_by(messages.c.seq))
        self.request = compiled(sa.select(requests).where(requests.c.id == string("id")))
        of_thread = sa.select(requests).where(requests.c.thread_id == string("thread_id"))
        self.requests = compiled(of_thread.order_by(requests.c.created_at, requests.c.id))
        over = sa.select(requests).where(requests.c.expires_at <= number("at"))
        self.expired = compiled(over.order_by(requests.c.expires_at, requests.c.id).limit(number("limit")))
        self.asked = compiled(sa.select(asked.c.name).distinct().order_by(asked.c.name))
        asking = sa.select(asked.c.thread_id).where(asked.c.name == string("name")).distinct()
        self.waiting_threads = compiled(asking.order_by(asked.c.thread_id))
        is_own = thread_values.c.thread_id == string("thread_id")
        self.value = compiled(
            sa.select(thread_values.c.value).where(is_own, thread_values.c.key == string("key"))
        )
        self.values = compiled(sa.select(thread_values.c.key, thread_values.c.value).where(is_own))


class SqlChildren:
    """The `ChildReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(ChildQueries, driver.dialect)

    async def lineage(self, thread_id: str) -> Sequence[Thread]:
        params: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, THREADS.all, self._sql.lineage, params)

    async def children(self, thread_id: str, *, limit: int = 1000, offset: int = 0) -> Sequence[Thread]:
        page: Params = {"thread_id": thread_id, "limit": limit, "offset": offset}
        return await read_rows(self._driver, THREADS.page, self._sql.children, page)

    async def living(self, thread_id: str) -> dict[str, int]:
        params: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, _counts, self._sql.living, params)

    async def awaited(self, thread_id: str, call_id: str) -> bool:
        this: Params = {"thread_id": thread_id, "call_id": call_id}
        return bool(await read_rows(self._driver, _values, self._sql.awaited, this))

    async def nested(self, call_id: str) -> Sequence[Call]:
        return await read_rows(self._driver, CALLS.all, self._sql.nested, {"call_id": call_id})

    async def within(self, call_id: str) -> Sequence[Message]:
        return await read_rows(self._driver, MESSAGES.all, self._sql.within, {"call_id": call_id})

    async def request(self, request_id: str) -> VariablesRequest | None:
        one: Params = {"id": request_id}
        return await read_rows(self._driver, REQUESTS.first, self._sql.request, one)

    async def requests(self, thread_id: str) -> Sequence[VariablesRequest]:
        params: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, REQUESTS.all, self._sql.requests, params)

    async def expired(self, at: datetime, limit: int) -> Sequence[VariablesRequest]:
        page: Params = {"at": micros(at), "limit": limit}
        return await read_rows(self._driver, REQUESTS.all, self._sql.expired, page)

    async def requested_variables(self) -> Sequence[str]:
        return await read_rows(self._driver, _values, self._sql.asked, {})

    async def waiting_threads(self, name: str) -> Sequence[str]:
        return await read_rows(self._driver, _values, self._sql.waiting_threads, {"name": name})

    async def value(self, thread_id: str, key: str) -> str | None:
        this: Params = {"thread_id": thread_id, "key": dumps(key)}
        values = await read_rows(self._driver, _values, self._sql.value, this)
        return values[0] if values else None

    async def values(self, thread_id: str) -> dict[str, str]:
        return await read_rows(self._driver, _values_by_key, self._sql.values, {"thread_id": thread_id})


def _values(rows: Sequence[Row]) -> list[str]:
    return [str(row[0]) for row in rows]


def _values_by_key(rows: Sequence[Row]) -> dict[str, str]:
    return {json.loads(str(key)): str(value) for key, value in rows}


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    return {str(name): int(count) for name, count in rows}
