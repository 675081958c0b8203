"""The journal on SQL: a store that works with any driver that can run programs."""

import asyncio
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Any, TypeVar

from toolwright.adapters.store.engine.codecs import Params, Row, instant, instant_or_none, micros
from toolwright.adapters.store.engine.program import Driver, Op, Reading, read_rows, statements
from toolwright.adapters.store.sql.agents import SqlAgents
from toolwright.adapters.store.sql.children import SqlChildren
from toolwright.adapters.store.sql.messages import CALLS, IN_PASSING, MESSAGE_VERSIONS, MESSAGES, SqlOffers
from toolwright.adapters.store.sql.readers import MOST, OWNERS, SHOWN_CALLS, Queries, each_event
from toolwright.adapters.store.sql.retention import SqlRetention
from toolwright.adapters.store.sql.rows import SqlRows
from toolwright.adapters.store.sql.spaces import SPACE_EVENTS, SqlSpaces
from toolwright.adapters.store.sql.threads import (
    COMPACTIONS,
    ENTITIES,
    ENV,
    EVENTS,
    FILES,
    INBOX,
    NODES,
    RUNS,
    SENT_TEXTS,
    STEPS,
    THREADS,
    WAKES,
)
from toolwright.core.env.env import EnvRow
from toolwright.core.files import File
from toolwright.core.journal.reads import Depths, McpReads, RecordReads, SessionReads
from toolwright.core.journal.store import CallScope, CallVisibility, KnownMessages, Order, ThreadView
from toolwright.core.journal.units import Committed, Conflict, Node, Unit
from toolwright.core.limits import ALL_ROWS, Page
from toolwright.core.spaces import Entity
from toolwright.core.threads.call import Call, CallStatus
from toolwright.core.threads.compaction import Compaction, SentText
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message, MessageVersion
from toolwright.core.threads.run import Run, RunStatus, Step
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


class SqlStore:
    """The `Store` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(Queries, driver.dialect)
        self._rows = SqlRows(driver)
        self.spaces = SqlSpaces(self._rows, driver)
        self.agents = SqlAgents(driver)
        self.sessions = SessionReads(self._rows)
        self.records = RecordReads(self._rows)
        self.mcp = McpReads(self._rows)
        self.retention = SqlRetention(driver)
        self.offers = SqlOffers(driver)
        self.children = SqlChildren(self._rows, driver)

    async def commit(self, unit: Unit) -> Committed | Conflict:
        return await shielded(self._driver.write(unit))

    async def thread(self, thread_id: str) -> Thread | None:
        return await read_rows(self._driver, THREADS.first, self._sql.thread, {"thread_id": thread_id})

    async def threads(
        self,
        *,
        users: Sequence[str] | None = None,
        agent: str | None = None,
        order: Order = "oldest_first",
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Thread]:
        if users is not None and not users:
            return []
        filters: Params = {} if agent is None else {"agent": agent}
        page: Params = {**filters, "limit": limit, "offset": offset, **_numbered("user", users)}
        query = self._sql.threads(len(users or ()), tuple(filters), order)
        return await read_rows(self._driver, THREADS.page, query, page)

    async def view(self, thread_id: str, known: KnownMessages | None = None) -> ThreadView | None:
        return await self._driver.snapshot(lambda: _view(thread_id, known, self._sql))

    async def unread(self, thread_id: str) -> Sequence[InboxEvent]:
        return await read_rows(self._driver, INBOX.all, self._sql.unread, {"thread_id": thread_id})

    async def inbox(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[InboxEvent]:
        page: Params = {"thread_id": thread_id, "limit": limit, "offset": offset}
        return await read_rows(self._driver, INBOX.page, self._sql.inbox, page)

    async def inbox_event(self, thread_id: str, event_id: str) -> InboxEvent | None:
        this: Params = {"thread_id": thread_id, "event_id": event_id}
        return await read_rows(self._driver, INBOX.first, self._sql.inbox_event, this)

    async def messages(
        self, thread_id: str, limit: int = 100, offset: int = 0, *, run_id: str | None = None
    ) -> Sequence[Message]:
        page: Params = {"thread_id": thread_id, "limit": limit, "offset": offset}
        if run_id is not None:
            page["run_id"] = run_id
        query = self._sql.messages if run_id is None else self._sql.messages_of_run
        return await read_rows(self._driver, MESSAGES.page, query, page)

    async def messages_before(self, thread_id: str, seq: int | None, limit: int) -> Sequence[Message]:
        page: Params = {"thread_id": thread_id, "before": MOST if seq is None else seq, "limit": limit}
        rows = await read_rows(self._driver, MESSAGES.page, self._sql.messages_before, page)
        return Page(rows[::-1], more=rows.more)

    async def run_messages(self, run_id: str, limit: int = ALL_ROWS) -> Sequence[Message]:
        page: Params = {"run_id": run_id, "limit": limit}
        return await read_rows(self._driver, MESSAGES.page, self._sql.run_messages, page)

    async def message(self, thread_id: str, message_id: str) -> Message | None:
        params: Params = {"thread_id": thread_id, "message_id": message_id}
        return await read_rows(self._driver, MESSAGES.first, self._sql.message, params)

    async def pinned_messages(self, thread_id: str) -> Sequence[Message]:
        params: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, MESSAGES.page, self._sql.pinned_messages, params)

    async def compactions(
        self, thread_id: str, within: str | None = None, limit: int = ALL_ROWS, offset: int = 0
    ) -> Sequence[Compaction]:
        if within is None:
            page: Params = {"thread_id": thread_id, "limit": limit, "offset": offset}
            return await read_rows(self._driver, COMPACTIONS.page, self._sql.compactions, page)
        params: Params = {"thread_id": thread_id, "within": within}
        return await read_rows(self._driver, COMPACTIONS.page, self._sql.compactions_in_force, params)

    async def message_versions(self, thread_id: str) -> Sequence[MessageVersion]:
        params: Params = {"thread_id": thread_id}
        return await read_rows(self._driver, MESSAGE_VERSIONS.page, self._sql.message_versions, params)

    async def sent_texts(self, thread_id: str, digests: Sequence[str]) -> Sequence[SentText]:
        if not digests:
            return []
        params: Params = {"thread_id": thread_id, **_numbered("digest", digests)}
        query = self._sql.sent_texts(len(digests))
        return await read_rows(self._driver, SENT_TEXTS.page, query, params)

    async def run(self, run_id: str) -> Run | None:
        return await read_rows(self._driver, RUNS.first, self._sql.run, {"run_id": run_id})

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Run]:
        filters: Params = {"status": status, "agent": agent, "thread_id": thread_id}
        chosen = {name: value for name, value in filters.items() if value is not None}
        page: Params = {**chosen, "limit": limit, "offset": offset}
        by_status = thread_id is None and status not in (None, "completed")
        return await read_rows(self._driver, RUNS.page, self._sql.runs(tuple(chosen), by_status), page)

    async def steps(self, run_id: str, limit: int = ALL_ROWS) -> Sequence[Step]:
        page: Params = {"run_id": run_id, "limit": limit}
        return await read_rows(self._driver, STEPS.page, self._sql.steps, page)

    async def call(self, call_id: str) -> Call | None:
        return await read_rows(self._driver, CALLS.first, self._sql.call, {"call_id": call_id})

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

    async def env_of(self, owner: str) -> Sequence[EnvRow]:
        return await read_rows(self._driver, ENV.all, self._sql.env_of, {"owner": owner})

    async def now(self) -> datetime:
        [(now,)] = await read_rows(self._driver, list, self._sql.now, {})
        return instant(now)

    async def nodes(self) -> Sequence[Node]:
        return await read_rows(self._driver, NODES.readable, self._sql.nodes, {})

    async def sealed_otherwise(self, key: str, limit: int) -> Sequence[EnvRow]:
        return await read_rows(
            self._driver, ENV.readable, self._sql.sealed_otherwise, {"key": key, "limit": limit}
        )

    async def files(self, thread_id: str) -> Sequence[File]:
        return await read_rows(self._driver, FILES.page, self._sql.files, {"thread_id": thread_id})

    async def file(self, thread_id: str, folded: str) -> File | None:
        return await read_rows(
            self._driver, FILES.first, self._sql.file, {"thread_id": thread_id, "folded": folded}
        )

    async def files_at(self, thread_id: str, folded: Sequence[str]) -> Set[str]:
        paths: Params = {"thread_id": thread_id, **_numbered("path", folded)}
        return await read_rows(self._driver, _firsts, self._sql.files_at(len(folded)), paths)

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

    async def entity(self, entity_id: str) -> Entity | None:
        return await read_rows(self._driver, ENTITIES.first, self._sql.entity, {"entity_id": entity_id})

    async def entity_by_external_id(self, external_id: str) -> Entity | None:
        return await read_rows(
            self._driver, ENTITIES.first, self._sql.entity_by_external_id, {"external_id": external_id}
        )

    async def entities(self, *, limit: int = 50, offset: int = 0) -> Sequence[Entity]:
        return await read_rows(
            self._driver, ENTITIES.page, self._sql.entities, {"limit": limit, "offset": offset}
        )

    async def wake(self, thread_id: str) -> Wake | None:
        return await read_rows(self._driver, WAKES.first, self._sql.wake, {"thread_id": thread_id})

    async def due(self, now: datetime, limit: int) -> Sequence[Wake]:
        return await read_rows(
            self._driver, WAKES.readable, self._sql.due, {"at": micros(now), "limit": limit}
        )

    async def owners(self, thread_ids: Sequence[str]) -> Mapping[str, str]:
        owners: dict[str, str] = {}
        for start in range(0, len(thread_ids), OWNERS):
            ids = thread_ids[start : start + OWNERS]
            params: Params = {f"id_{i}": each for i, each in enumerate(ids)}
            params |= {f"id_{i}": "" for i in range(len(ids), OWNERS)}
            owners |= await read_rows(self._driver, _pairs, self._sql.owners, params)
        return owners

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


def _pairs(rows: Sequence[Row]) -> dict[str, str]:
    return {str(key): str(value) for key, value in rows}


def _call_scope(call_id: str, sql: Queries) -> Reading[CallScope | None]:
    call = CALLS.first((yield Op(sql.call, {"call_id": call_id})))
    if call is None:
        return None
    params: Params = {"thread_id": call.thread_id}
    thread = THREADS.first((yield Op(sql.thread, params)))
    run = RUNS.first((yield Op(sql.run, {"run_id": call.run_id})))
    env = ENV.all((yield Op(sql.env, params)))
    return CallScope(call=call, thread=thread, run=run, env=tuple(env))


def _view(thread_id: str, known: KnownMessages | None, sql: Queries) -> Reading[ThreadView | None]:
    params: Params = {"thread_id": thread_id}
    rows = yield Op(sql.thread, params)
    if not rows:
        return None
    thread = THREADS.all(rows)[0]
    run, calls = None, ()
    if thread.run_id is not None:
        run = RUNS.first((yield Op(sql.run, {"run_id": thread.run_id})))
    if run is not None and (run.step_count or run.started_at is not None):
        rows_of_calls = yield Op(sql.step_calls, {"run_id": run.id, "step": run.step_count})
        calls = tuple(CALLS.all(rows_of_calls))
    compactions: tuple[Compaction, ...] = ()
    if thread.compacted:
        compactions = tuple(COMPACTIONS.all((yield Op(sql.compactions_in_force, {**params, "within": ""}))))
    if known is not None and known.matches(thread):
        messages = known.messages
    else:
        messages = tuple(MESSAGES.all((yield _messages(thread, compactions, sql))))
    opened = yield Op(sql.open_inbox, params)
    waiting = INBOX.all(opened)
    wake = WAKES.first((yield Op(sql.wake, params)))
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
        return Op(sql.kept_messages, {**params, "kept": True})
    pinned = sorted({seq for each in compactions for seq in each.kept if seq <= thread.cut})
    params |= {
        "cut": thread.cut,
        "run_id": thread.run_id,
        **{f"kept_{i}": each for i, each in enumerate(pinned)},
    }
    return Op(sql.kept_after(len(pinned)), params)


def _firsts(rows: Sequence[Row]) -> Set[str]:
    return {row[0] for row in rows}


def _numbered(name: str, values: Sequence[str] | None) -> Params:
    return {f"{name}_{i}": one for i, one in enumerate(values or ())}
