"""Reads of families of threads on SQL: the queries of one dialect, and the port over a driver."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import BigInteger, func, literal, select

from toolwright.adapters.store.engine.codecs import Params, Row, micros
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.statement import Compiler, DialectName, number, statements, string
from toolwright.adapters.store.tables.calls import CALLS, calls
from toolwright.adapters.store.tables.children import REQUESTS, asked, requests, thread_values
from toolwright.adapters.store.tables.messages import MESSAGES, messages
from toolwright.adapters.store.tables.threads import NOT_OVER, THREADS, threads
from toolwright.core.env.env import VariablesRequest
from toolwright.core.json_value import dumps
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread


class ChildQueries:
    """The queries about families, compiled for one dialect; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        above = select(threads.c.parent_id.label("id"), literal(1, BigInteger).label("far"))
        above = above.where(threads.c.id == string("thread_id")).cte("above", recursive=True)
        farther = select(threads.c.parent_id, above.c.far + 1).join(above, threads.c.id == above.c.id)
        above = above.union_all(farther)
        self.lineage = compiled(select(threads).join(above, threads.c.id == above.c.id).order_by(above.c.far))
        below = select(threads).where(threads.c.parent_id == string("thread_id"))
        in_order = below.order_by(threads.c.created_at, threads.c.id)
        self.children = compiled(in_order.limit(number("limit")).offset(number("offset")))
        made = threads.c.parent_id == string("thread_id")
        alive = select(threads.c.agent, func.count()).where(made, NOT_OVER)
        self.living = compiled(alive.group_by(threads.c.agent))
        at_work = select(threads.c.id).where(made, threads.c.run_id.is_not(None))
        self.awaited = compiled(at_work.where(threads.c.report == string("call_id")).limit(1))
        nested = select(calls).where(calls.c.parent_id == string("call_id"))
        self.nested = compiled(nested.order_by(calls.c.step, calls.c.position))
        within = select(messages).where(messages.c.within == string("call_id"))
        self.within = compiled(within.order_by(messages.c.seq))
        self.request = compiled(select(requests).where(requests.c.id == string("id")))
        of_thread = select(requests).where(requests.c.thread_id == string("thread_id"))
        self.requests = compiled(of_thread.order_by(requests.c.created_at, requests.c.id))
        over = select(requests).where(requests.c.expires_at <= number("at"))
        self.expired = compiled(over.order_by(requests.c.expires_at, requests.c.id).limit(number("limit")))
        self.asked = compiled(select(asked.c.name).distinct().order_by(asked.c.name))
        asking = select(asked.c.thread_id).where(asked.c.name == string("name")).distinct()
        self.askers = compiled(asking.order_by(asked.c.thread_id))
        own = thread_values.c.thread_id == string("thread_id")
        self.value = compiled(select(thread_values.c.value).where(own, thread_values.c.key == string("key")))
        self.values = compiled(select(thread_values.c.key, thread_values.c.value).where(own))


class SqlChildren:
    """The `ChildReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(ChildQueries, driver.dialect)

    async def lineage(self, thread_id: str) -> Sequence[Thread]:
        here: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, THREADS.all, self._sql.lineage, here)

    async def children(self, thread_id: str, *, limit: int = 1000, offset: int = 0) -> Sequence[Thread]:
        page: Params = {"thread_id": thread_id, "limit": limit, "offset": offset}
        return await read_rows(self._driver, THREADS.each, self._sql.children, page)

    async def living(self, thread_id: str) -> Mapping[str, int]:
        here: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, _counts, self._sql.living, here)

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
        here: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, REQUESTS.all, self._sql.requests, here)

    async def expired(self, at: datetime, limit: int) -> Sequence[VariablesRequest]:
        page: Params = {"at": micros(at), "limit": limit}
        return await read_rows(self._driver, REQUESTS.all, self._sql.expired, page)

    async def asked(self) -> Sequence[str]:
        return await read_rows(self._driver, _values, self._sql.asked, {})

    async def askers(self, name: str) -> Sequence[str]:
        return await read_rows(self._driver, _values, self._sql.askers, {"name": name})

    async def value(self, thread_id: str, key: str) -> str | None:
        this: Params = {"thread_id": thread_id, "key": dumps(key)}
        values = await read_rows(self._driver, _values, self._sql.value, this)
        return values[0] if values else None

    async def values(self, thread_id: str) -> Mapping[str, str]:
        return await read_rows(self._driver, _values_by_key, self._sql.values, {"thread_id": thread_id})


def _values(rows: Sequence[Row]) -> list[str]:
    return [str(row[0]) for row in rows]


def _values_by_key(rows: Sequence[Row]) -> dict[str, str]:
    return {json.loads(str(key)): str(value) for key, value in rows}


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    return {str(name): int(count) for name, count in rows}
