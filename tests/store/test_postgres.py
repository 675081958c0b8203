"""The journal on Postgres when connections die: every unit is there exactly once, or not at all."""

import asyncio
from dataclasses import replace

import pytest
from tests.play import begun, committed, create_thread, draft, dump, post, request_cancel, said, settle
from tests.postgres_server import fresh_database, server_url
from tests.store.pg_proxy import Proxy

from toolwright.adapters.store.opening import open_postgres
from toolwright.adapters.store.postgres_connection import Connection, connect
from toolwright.adapters.store.postgres_lock import PostgresLock
from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.errors import StoreError
from toolwright.core.event import Event, Topic
from toolwright.core.units import Answer, Conflict, Finish, Result, Submit
from toolwright.runtime.health import Health

pytestmark = pytest.mark.anyio

BLOCKED = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database() AND application_name = 'toolwright'"
)


async def blocked_backend(watcher: Connection) -> int:
    """The backend that waits for a row lock."""
    async with asyncio.timeout(10):
        while True:
            if found := await watcher.fetch(BLOCKED):
                return found[0][0]


async def until_lost(lock: PostgresLock) -> None:
    async with asyncio.timeout(10):
        while True:
            if not lock.held:
                return
            await asyncio.sleep(0.01)


async def test_a_backend_killed_before_commit_loses_and_doubles_nothing():
    published: list[Event] = []
    async with fresh_database() as url:
        store = await open_postgres(url, published.extend)
        drain = await begun(store)
        holder, watcher = await connect(url), await connect(url)
        await holder.execute("BEGIN")
        await holder.fetch("SELECT id FROM threads WHERE id = $1 FOR UPDATE", "th_1")
        unit = drain.unit(Result, messages=(said("once"),), events=(draft("message"),))
        commit = asyncio.create_task(store.commit(unit))
        pid = await blocked_backend(watcher)
        await watcher.execute("SELECT pg_terminate_backend($1)", pid)
        await holder.execute("ROLLBACK")
        assert (await commit) is not None
        assert [message.content for message in await store.messages("th_1")] == ["once"]
        assert list(await store.events(Topic(kind="thread", id="th_1"))) == published
        assert len(published) == 2
        await store.close()
        await holder.close()
        await watcher.close()


async def test_a_commit_whose_answer_is_lost_is_there_once():
    published: list[Event] = []
    async with fresh_database() as url, Proxy(url) as proxy:
        store = await open_postgres(proxy.url, published.extend)
        drain = await begun(store)
        await drain.answer(call := drain.call("pending"))
        parked = drain.unit(Result, {"lives": 1}, events=(draft("tool.progress"),))
        units = (
            drain.unit(Answer, messages=(said("once"),), events=(draft("message"), draft("x"))),
            post("th_1", "msg_b"),
            settle(Submit, "th_1", call.id),
            request_cancel("th_1", drain.run.id),
            replace(parked, seq=drain.seq + 1),
            replace(drain.unit(Finish, {"status": "cancelled"}, read=("msg_b",)), seq=drain.seq + 1),
        )
        for number, unit in enumerate(units, 1):
            proxy.lose_answer_to = b"COMMIT\x00"
            await committed(store, unit)
            assert proxy.lost == number
        assert [event.event_id for event in await store.unread("th_1")] == [f"tr:{call.id}"]
        assert [message.content for message in await store.messages("th_1")] == ["", "once"]
        events = list(await store.events(Topic(kind="thread", id="th_1")))
        assert events == published
        assert [event.n for event in events] == list(range(1, len(events) + 1))
        await store.close()


async def test_a_unit_is_there_once_whichever_statement_is_lost():
    async with fresh_database() as url, Proxy(url) as proxy:
        store = await open_postgres(proxy.url, lambda _: None)
        await create_thread(store)
        for number, statement in enumerate((b"BEGIN ISOLATION LEVEL READ COMMITTED\x00", b"COMMIT\x00"), 1):
            proxy.lose_answer_to = statement
            await committed(store, post("th_1"))
            assert proxy.lost == number
        assert [event.n for event in await store.inbox("th_1")] == [1, 2]
        proxy.lose_answer_to = b"BEGIN"
        assert await store.view("th_1") is not None
        await store.close()


async def test_a_unit_with_a_known_token_is_answered_as_the_first_time():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drain = await begun(store)
        unit = drain.unit(Result, events=(draft("message"),))
        first = await committed(store, unit)
        before = await dump(store)
        assert await store.commit(unit) == first
        assert await dump(store) == before
        await store.close()


async def test_a_unit_tried_again_after_an_outage_longer_than_the_drivers_patience_is_there_once():
    published: list[Event] = []
    async with fresh_database() as url, Proxy(url) as proxy:
        store = await open_postgres(proxy.url, published.extend)
        drain = await begun(store)
        unit = drain.unit(Result, messages=(said("once"),), events=(draft("message"), draft("x")))
        proxy.lose_answer_to, proxy.then_down = b"COMMIT\x00", True
        with pytest.raises(StoreError):
            await store.commit(unit)
        assert proxy.lost == 1
        proxy.up()
        answer = await committed(store, unit)
        assert (answer.run_id, answer.posted) == (drain.run.id, 1)
        assert [message.content for message in await store.messages("th_1")] == ["once"]
        assert list(await store.events(Topic(kind="thread", id="th_1"))) == published
        assert [event.n for event in published] == [1, 2, 3]
        assert await store.commit(replace(unit, token="another")) == Conflict(guard="fence")
        await store.close()


async def test_health_is_well_again_as_soon_as_the_database_is():
    async with fresh_database() as url, Proxy(url) as proxy:
        store = await open_postgres(proxy.url, lambda _: None)
        health = Health(store, SystemClock(), new_id)
        await health.check()
        await proxy.down()
        with pytest.raises(StoreError):
            await health.check()
        with pytest.raises(StoreError):
            await store.thread("th_1")
        proxy.up()
        async with asyncio.timeout(10):
            await health.check()
        await store.close()
        with pytest.raises(StoreError):
            await health.check()


async def test_a_database_that_cannot_be_reached_is_a_store_error():
    with pytest.raises(StoreError):
        await open_postgres("postgresql://nobody@/none?host=/nowhere", lambda _: None)


async def test_the_drain_lock_is_held_by_one_and_lost_with_its_connection():
    async with fresh_database() as url:
        first, second = PostgresLock(url), PostgresLock(url)
        assert await first.acquire()
        assert await first.acquire()
        assert not await second.acquire()
        assert (first.held, second.held) == (True, False)
        admin = await connect(server_url())
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        await until_lost(first)
        assert await second.acquire()
        await second.release()
        assert not second.held
        assert await first.acquire()
        await first.release()
        await admin.close()


async def test_the_drain_lock_is_lost_when_its_connection_falls_silent():
    async with fresh_database() as url, Proxy(url) as proxy:
        lock = PostgresLock(proxy.url, beat=0.01, patience=0.2)
        assert await lock.acquire()
        await asyncio.sleep(0.1)  # several beats
        assert lock.held
        proxy.freeze()
        await until_lost(lock)
        await lock.release()


async def test_the_drain_lock_is_released_though_nobody_answers():
    async with fresh_database() as url, Proxy(url) as proxy:
        lock = PostgresLock(proxy.url, beat=0.01, patience=0.2)
        assert await lock.acquire()
        proxy.freeze()
        await asyncio.sleep(0.05)  # in the middle of a beat
        async with asyncio.timeout(5):
            await lock.release()
        assert not lock.held
