"""The journal on SQL: a store that works with any driver that can run programs."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from toolwright.adapters.store.engine.codecs import Params, instant, instant_or_none, micros
from toolwright.adapters.store.engine.program import Driver, Op, Reading, read_rows, statements
from toolwright.adapters.store.sql.agents import SqlAgents
from toolwright.adapters.store.sql.children import SqlChildren
from toolwright.adapters.store.sql.messages import CALLS, IN_PASSING, MESSAGES, SqlOffers
from toolwright.adapters.store.sql.readers import SHOWN_CALLS, Queries, each_event
from toolwright.adapters.store.sql.retention import SqlRetention
from toolwright.adapters.store.sql.rows import SqlRows
from toolwright.adapters.store.sql.spaces import SPACE_EVENTS, SqlSpaces
from toolwright.adapters.store.sql.threads import (
    COMPACTIONS,
    ENV,
    EVENTS,
    INBOX,
    RUNS,
    THREADS,
    WAKES,
)
from toolwright.core.env.env import EnvRow
from toolwright.core.journal.reads import Depths, McpReads, RecordReads, SessionReads
from toolwright.core.journal.rows import OneOf
from toolwright.core.journal.store import CallScope, CallVisibility, KnownMessages, Store, ThreadView
from toolwright.core.journal.units import Committed, Conflict, Unit
from toolwright.core.limits import ALL_ROWS, Page
from toolwright.core.threads.call import Call, CallStatus
from toolwright.core.threads.compaction import Compaction
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread, Wake

T = TypeVar("T")


async def shielded(outcome: "asyncio.Future[T]") -> T:
    """Return the future's outcome. A cancellation in the meantime is raised at the caller's next wait.

    A commit in progress cannot be undone: a caller cancelled during it must still learn its outcome.
    """
    task = asyncio.current_task()
    assert task is not None
    requests = task.cancelling()
    absorbed = False
    while not outcome.done():
        try:
            await asyncio.wait([outcome])
        except asyncio.CancelledError:
            absorbed = True
            # A cancellation requested before this function was called is counted in `requests`: subtract it.
            requests = min(requests, task.cancelling() - 1)
    if absorbed:
        asyncio.get_running_loop().call_soon(_cancel_again, task, requests)
    return outcome.result()


def _cancel_again(task: "asyncio.Task[Any]", requests: int) -> None:  # any result type
    """Raise the cancellation, unless its owner (such as an exited timeout) has withdrawn it in the meantime."""
    if task.cancelling() > requests:
        task.cancel()
        task.uncancel()  # `cancel` counted the request a second time


class SqlStore(Store):
    """The `Store` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        rows = SqlRows(driver)
        super().__init__(rows)
        self._driver = driver
        self._sql = statements(Queries, driver.dialect)
        self.spaces = SqlSpaces(rows, driver)
        self.agents = SqlAgents(driver)
        self.sessions = SessionReads(rows)
        self.records = RecordReads(rows)
        self.mcp = McpReads(rows)
        self.retention = SqlRetention(driver)
        self.offers = SqlOffers(driver)
        self.children = SqlChildren(rows, driver)

    async def commit(self, unit: Unit) -> Committed | Conflict:
        return await shielded(self._driver.write(unit))

    async def view(self, thread_id: str, known: KnownMessages | None = None) -> ThreadView | None:
        return await self._driver.snapshot(lambda: _view(thread_id, known, self._sql))

    async def compactions(
        self, thread_id: str, within: str | None = None, limit: int = ALL_ROWS, offset: int = 0
    ) -> Sequence[Compaction]:
        if within is None:
            where = {"thread_id": thread_id}
            return await self.rows.find(Compaction, where, ("number",), limit=limit, offset=offset)
        params: Params = {"thread_id": thread_id, "within": within}
        return await read_rows(self._driver, COMPACTIONS.page, self._sql.compactions_in_force, params)

    async def call_scope(self, call_id: str) -> CallScope | None:
        return await self._driver.snapshot(lambda: _call_scope(call_id, self._sql))

    async def calls(
        self,
        *,
        status: Sequence[CallStatus] | None = None,
        run_id: str | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        sees: CallVisibility | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Call]:
        filters: Params = {"run_id": run_id, "agent": agent, "space_id": space_id}
        chosen = {name: value for name, value in filters.items() if value is not None}
        page: Params = {**chosen, "limit": limit, "offset": offset, **_numbered("status", status)}
        users = None
        if sees is not None:
            users = len(sees.users)
            page |= {"seen_by": sees.entity_id, **_numbered("user", sees.users)}
        by_status = status is not None and IN_PASSING.isdisjoint(status)
        query = self._sql.calls(tuple(chosen), len(status or ()), users, by_status)
        return await read_rows(self._driver, SHOWN_CALLS.page, query, page)

    async def env(self, thread_id: str) -> Sequence[EnvRow]:
        return await read_rows(self._driver, ENV.all, self._sql.env, {"thread_id": thread_id})

    async def now(self) -> datetime:
        [(now,)] = await read_rows(self._driver, list, self._sql.now, {})
        return instant(now)

    async def events(
        self, topic: Topic, after: int = 0, limit: int = 500, offset: int = 0
    ) -> Sequence[Event]:
        page: Params = {"topic": topic.id, "after": after, "limit": limit, "offset": offset}
        mapping = EVENTS if topic.kind in ("thread", "run") else SPACE_EVENTS
        query = self._sql.events[topic.kind]
        return await read_rows(self._driver, lambda rows: Page(each_event(mapping, rows)), query, page)

    async def bounds(self, topic: Topic) -> tuple[int, int]:
        query = self._sql.bounds[topic.kind]
        [(oldest, newest)] = await read_rows(self._driver, list, query, {"topic": topic.id})
        return oldest, newest

    async def next_due(self, after: datetime) -> datetime | None:
        [(due,)] = await read_rows(self._driver, list, self._sql.next_due, {"at": micros(after)})
        return instant_or_none(due)

    async def depths(self) -> Depths:
        [counts] = await read_rows(self._driver, list, self._sql.depths, {})
        pending_calls, inbox_events, oldest, queued, active, waiting, oldest_wake = counts
        return Depths(
            pending_calls=pending_calls,
            inbox_events=inbox_events,
            oldest_event=instant_or_none(oldest),
            queued_runs=queued,
            active_runs=active,
            waiting_runs=waiting,
            connections=self._driver.connections,
            oldest_wake=instant_or_none(oldest_wake),
        )

    async def shrink(self) -> bool:
        return await self._driver.shrink()

    async def close(self) -> None:
        await self._driver.close()


def _call_scope(call_id: str, sql: Queries) -> Reading[CallScope | None]:
    rows = sql.rows.select
    call = CALLS.first((yield Op(*rows(Call, {"id": call_id}))))
    if call is None:
        return None
    thread = THREADS.first((yield Op(*rows(Thread, {"id": call.thread_id}))))
    run = RUNS.first((yield Op(*rows(Run, {"id": call.run_id}))))
    env = ENV.all((yield Op(sql.env, {"thread_id": call.thread_id})))
    return CallScope(call=call, thread=thread, run=run, env=tuple(env))


def _view(thread_id: str, known: KnownMessages | None, sql: Queries) -> Reading[ThreadView | None]:
    params, rows = Params(thread_id=thread_id), sql.rows.select
    thread = THREADS.first((yield Op(*rows(Thread, {"id": thread_id}))))
    if thread is None:
        return None
    run, calls = None, ()
    if thread.run_id is not None:
        run = RUNS.first((yield Op(*rows(Run, {"id": thread.run_id}))))
    if run is not None and (run.step_count or run.started_at is not None):
        of_step = {"run_id": run.id, "step": run.step_count, "parent_id": None}
        calls = tuple(CALLS.all((yield Op(*rows(Call, of_step, ("position",))))))
    compactions: tuple[Compaction, ...] = ()
    if thread.compacted:
        compactions = tuple(COMPACTIONS.all((yield Op(sql.compactions_in_force, {**params, "within": ""}))))
    if known is not None and known.matches(thread):
        messages = known.messages
    else:
        messages = tuple(MESSAGES.all((yield _messages(thread, compactions, sql))))
    is_open = OneOf(values=("pending", "processing"))
    opened = yield Op(*rows(InboxEvent, {"thread_id": thread_id, "status": is_open}, ("n",)))
    waiting = INBOX.all(opened)
    wake = WAKES.first((yield Op(*rows(Wake, {"thread_id": thread_id}))))
    env = ENV.all((yield Op(sql.env, params)))
    return ThreadView(
        thread=thread,
        run=run,
        messages=messages,
        calls=calls,
        inbox=tuple([event for event in waiting if event.status == "pending"]),
        wake=wake,
        env=tuple(env),
        reading=tuple([event for event in waiting if event.status == "processing"]),
        compactions=compactions,
    )


def _messages(thread: Thread, compactions: Sequence[Compaction], sql: Queries) -> Op:
    params: Params = {"thread_id": thread.id}
    if not thread.cut:
        spoken = {"thread_id": thread.id, "within": None, "kept": True}
        return Op(*sql.rows.select(Message, spoken, ("seq",)))
    pinned = sorted({seq for each in compactions for seq in each.kept if seq <= thread.cut})
    params |= {
        "cut": thread.cut,
        "run_id": thread.run_id,
        **{f"kept_{i}": each for i, each in enumerate(pinned)},
    }
    return Op(sql.kept_after(len(pinned)), params)


def _numbered(name: str, values: Sequence[str] | None) -> Params:
    return {f"{name}_{i}": one for i, one in enumerate(values or ())}
