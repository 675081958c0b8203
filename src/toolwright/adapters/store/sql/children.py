"""SQL of thread trees: links to parents, values of a thread, requests and their variables."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object, micros
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    Statement,
    number,
    read_rows,
    row_params,
    statements,
    string,
)
from toolwright.adapters.store.sql.messages import CALLS, MESSAGES, calls, messages
from toolwright.adapters.store.sql.threads import NOT_OVER, THREADS, family_of, inbox, runs, threads, wakes
from toolwright.core.env.env import RequestKind, Variable, VariablesRequest
from toolwright.core.json_value import dumps
from toolwright.core.threads.call import MOVES, Call
from toolwright.core.threads.child import MUTE
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import OVER
from toolwright.core.threads.thread import Thread


def _variables(parsed: Sequence[Any]) -> tuple[Variable, ...]:  # as written by _variables_text
    return tuple([Variable(*each) for each in parsed])


def _variables_text(variables: Sequence[Variable]) -> str:
    return dumps([[v.name, v.type, v.required, v.scoped, v.description] for v in variables])


thread_values = sa.Table(
    "thread_values",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
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


class Inserting(Protocol):
    """An INSERT into the wakes, of either dialect."""

    @property
    def excluded(self) -> Any:  # the columns of the row that conflicted
        ...

    def on_conflict_do_update(self, *, index_elements: Any, set_: Any) -> Any: ...  # types of SQLAlchemy


def woken(inserting: Inserting) -> Any:  # an SQLAlchemy statement
    """Return the schedule entry with the earlier due time and the next generation."""
    due = inserting.excluded.due
    earlier = sa.case((due < wakes.c.due, due), else_=wakes.c.due)
    return inserting.on_conflict_do_update(
        index_elements=[wakes.c.thread_id], set_={"due": earlier, "gen": wakes.c.gen + 1}
    )


# Phrased so that no database scans all pending calls of the journal, which can be many.
PENDING = sa.and_(*(calls.c.status != status for status in MOVES if status != "pending"))


class ChildStatements:
    """Statements about child threads, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        compiled = Compiler(name)
        self._thread_statements(compiled)
        self._cancel_statements(compiled)
        self._request_statements(compiled)
        put = self._insert(thread_values).values(row_params(thread_values))
        key = [thread_values.c.thread_id, thread_values.c.key]
        self.put_value = compiled(
            put.on_conflict_do_update(index_elements=key, set_={"value": put.excluded.value})
        )
        this = sa.and_(thread_values.c.thread_id == string("thread_id"), thread_values.c.key == string("key"))
        self.drop_value = compiled(sa.delete(thread_values).where(this))

    def _thread_statements(self, compiled: Compiler) -> None:
        by_id = threads.c.id == string("thread_id")
        changed = sa.update(threads).where(by_id)
        self.forget_state = compiled(changed.values(report=sa.null(), state=sa.null()))
        new_run = {"run_id": string("new_run"), "report": string("report"), "state": sa.null()}
        counted = {"posted": threads.c.posted + 1, "ev": threads.c.ev + 1}
        idle = changed.where(threads.c.run_id.is_(None), NOT_OVER).values(**new_run, **counted)
        self.begin = compiled(
            idle.returning(threads.c.run_id, threads.c.posted, threads.c.ev, threads.c.agent)
        )
        awaited = sa.or_(
            threads.c.report == string("report"),
            sa.and_(threads.c.report.is_(None), string("report").is_(None)),
        )
        ended = changed.values(report=sa.null(), state=string("state"))
        self.report = compiled(ended.where(awaited, NOT_OVER).returning(threads.c.id))
        self.end_unheard = compiled(
            changed.values(
                report=sa.case((threads.c.run_id.is_(None), sa.null()), else_=threads.c.report),
                state=sa.case((NOT_OVER, string("state")), else_=threads.c.state),
            ).returning(threads.c.id)
        )
        self.close = compiled(changed.values(state="terminated").returning(threads.c.id))
        ours = sa.and_(
            threads.c.parent_id == string("thread_id"), threads.c.agent == string("agent"), NOT_OVER
        )
        alive = sa.select(sa.func.count()).select_from(threads).where(ours).scalar_subquery()
        self.room = compiled(sa.select(sa.literal(1, sa.BigInteger)).where(alive < number("most")))
        self.hand_off = compiled(
            changed.values(active_agent=string("agent"), activated=sa.null()).returning(threads.c.id)
        )
        self.activated = compiled(changed.values(activated=string("activated")).returning(threads.c.id))
        self.back_off = compiled(
            changed.values(faults=number("faults"), not_before=number("until")).returning(threads.c.id)
        )
        self.hurry = compiled(changed.values(not_before=sa.null()))

    def _cancel_statements(self, compiled: Compiler) -> None:
        thread_id = string("thread_id")
        children = sa.select(threads.c.id).where(threads.c.parent_id == thread_id)
        self.stop_below = self._stopping(children, compiled)
        self.stop = self._stopping(sa.select(threads.c.id).where(threads.c.id == thread_id), compiled)
        over = sa.select(threads.c.id).where(threads.c.id == thread_id, sa.not_(NOT_OVER))
        is_own = calls.c.run_id.in_(sa.select(runs.c.id).where(runs.c.thread_id == thread_id))
        late_calls = sa.update(calls).where(is_own, PENDING, over.exists())
        cancelled = {"status": "cancelled", "result": string("result"), "completed_at": number("at")}
        self.cancel_calls = compiled(late_calls.values(**cancelled).returning(*calls.c))
        unread = sa.update(inbox).where(inbox.c.thread_id == thread_id, inbox.c.status == "pending")
        unread = unread.where(over.where(threads.c.run_id.is_(None)).exists())
        self.set_aside = compiled(unread.values(status="failed").returning(inbox.c.event_id))
        self.below = compiled(sa.select(family_of(children).c.id))

    def _stopping(self, first: Any, compiled: Compiler) -> Sequence[Statement]:  # SQLAlchemy statements
        """Return statements that stop the runs of the threads and their descendants, including queued ones.

        No report is sent, so calls that still accept a late result are cancelled. Waiting calls are ended by their own
        runs.
        """
        family = sa.select(family_of(first).c.id)
        at_work = sa.and_(threads.c.id.in_(family), threads.c.run_id.is_not(None))
        chosen = sa.union_all(
            sa.select(threads.c.run_id).where(at_work), sa.select(threads.c.next_run_id).where(at_work)
        )
        open_run = sa.and_(runs.c.id.in_(chosen), *(runs.c.status != status for status in sorted(OVER)))
        at = sa.func.coalesce(runs.c.cancel_requested_at, number("at"))
        # All return rows, so that they are executed in this order, the order of locks.
        awaited = sa.select(threads.c.report).where(at_work)
        unheard = sa.update(calls).where(calls.c.id.in_(awaited), PENDING)
        return (
            compiled(unheard.values(status="cancelled", completed_at=number("at")).returning(calls.c.id)),
            compiled(sa.update(runs).where(open_run).values(cancel_requested_at=at).returning(runs.c.id)),
            compiled(sa.update(threads).where(at_work).values(report=MUTE).returning(threads.c.id)),
            compiled(self._woken(sa.select(threads.c.id, number("due"), number("gen")).where(at_work))),
        )

    def _woken(self, chosen: Any) -> Any:  # as above
        all_of_them = chosen.where(sa.literal(value=True))  # SQLite requires a WHERE before ON CONFLICT
        several = self._insert(wakes).from_select(["thread_id", "due", "gen"], all_of_them)
        # It returns rows, so that it is not merged with other statements that wake the same thread.
        return woken(several).returning(wakes.c.thread_id)

    def _request_statements(self, compiled: Compiler) -> None:
        once = self._insert(requests).values(row_params(requests)).on_conflict_do_nothing()
        self.open_request = compiled(once)
        self.ask = compiled(self._insert(asked).values(row_params(asked)).on_conflict_do_nothing())
        closed = sa.delete(requests).where(requests.c.id == string("id"))
        self.close_request = compiled(closed)
        living = sa.select(threads.c.id).where(threads.c.id == requests.c.thread_id, NOT_OVER)
        held = (
            sa.update(requests).where(requests.c.id == string("id"), living.exists()).values(id=requests.c.id)
        )
        self.hold_request = compiled(held.returning(requests.c.id))
        self.take_request = compiled(closed.returning(requests.c.id))
        self.drop_asked = compiled(sa.delete(asked).where(asked.c.request_id == string("id")))
        asking = (
            sa.select(asked.c.thread_id, number("due"), number("gen"))
            .where(asked.c.name == string("name"))
            .distinct()
        )
        self.wake_askers = compiled(self._woken(asking))


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
