"""The journal on Postgres when connections break: every unit is written exactly once, or not at all."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.conformance.test_agents import agent
from tests.conformance.test_agents import save as save_agent
from tests.conformance.test_entities import drop, human, save
from tests.conformance.test_spaces import act
from tests.conformance.test_values import of_person, row
from tests.play import AT, begun, committed, create_thread, draft, dump, post, request_cancel, said, settle
from tests.postgres_server import database_url, fresh_database, server_url
from tests.store.pg_proxy import Proxy
from tests.store.test_plans import filling

import toolwright as tw
from toolwright.adapters.memory import MemoryFiles
from toolwright.adapters.motor.manual import ManualClock
from toolwright.adapters.store.opening import open_postgres
from toolwright.adapters.store.postgres.connection import Connection, PostgresRelay, connect, store_error
from toolwright.adapters.store.postgres.locks import PostgresLock
from toolwright.adapters.system import new_id
from toolwright.core.env.env import EnvChange
from toolwright.core.errors import AlreadyExists, StoreError
from toolwright.core.files import FileChange
from toolwright.core.journal.child_effects import HandOff
from toolwright.core.journal.retention import SweepThreads
from toolwright.core.journal.units import (
    Answer,
    Committed,
    Conflict,
    Finish,
    PostMessage,
    Result,
    SubmitResult,
    Unit,
)
from toolwright.core.threads.event import Event, Topic
from toolwright.runtime.health import FRESH, Health

pytestmark = pytest.mark.anyio

BLOCKED = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database() AND application_name = 'toolwright'"
)


async def blocked_backend(watcher: Connection) -> int:
    """Return the backend that waits for a row lock."""
    async with asyncio.timeout(10):
        while True:
            if found := await watcher.fetch(BLOCKED):
                return found[0][0]


def commit_of(unit: Unit) -> bytes:
    """Return bytes of the statement that commits the unit."""
    return b"COMMIT\x00" if isinstance(unit, PostMessage | SubmitResult) else unit.token.encode()


@asynccontextmanager
async def racing(url: str, unit: Unit, *theirs: str) -> AsyncGenerator["asyncio.Task[Committed | Conflict]"]:
    """Commit the unit while it waits for the locks of another session, which commits its statements."""
    store = await open_postgres(url, lambda _: None)
    holder, watcher = await connect(url), await connect(url)
    await holder.execute("BEGIN")
    for statement in theirs:
        await holder.execute(statement)
    commit = asyncio.create_task(store.commit(unit))
    await blocked_backend(watcher)
    await holder.execute("COMMIT")
    yield commit
    await store.close()
    await holder.close()
    await watcher.close()


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
            settle(SubmitResult, "th_1", call.id),
            request_cancel("th_1", drain.run.id),
            replace(parked, seq=drain.seq + 1),
            replace(drain.unit(Finish, {"status": "cancelled"}, read=("msg_b",)), seq=drain.seq + 1),
        )
        for number, unit in enumerate(units, 1):
            proxy.lose_answer_to = commit_of(unit)
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
        for number, statement in enumerate((b"BEGIN ISOLATION LEVEL READ COMMITTED", b"COMMIT\x00"), 1):
            proxy.lose_answer_to = statement
            await committed(store, post("th_1"))
            assert proxy.lost == number
        assert [event.n for event in await store.inbox("th_1")] == [1, 2]
        proxy.lose_answer_to = b"BEGIN"
        assert await store.view("th_1") is not None
        await store.close()


POSTED = "UPDATE threads SET posted = posted + 1 WHERE id = 'th_1'"
INSERTED = (
    "INSERT INTO inbox (thread_id, event_id, n, type, status, run_id, attempts, content, created_at)"
    " VALUES ('th_1', 'msg_late', 2, 'message', 'pending', {run}, 0, '{{}}', 0)"
)


async def test_a_run_does_not_end_past_a_message_that_joined_while_its_end_waited_for_the_thread():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drain = await begun(store)
        before = await store.messages("th_1")
        ending = drain.unit(Answer, {"status": "completed"}, messages=(said("bye"),))
        async with racing(url, ending, POSTED, INSERTED.format(run=f"'{drain.run.id}'")) as commit:
            assert await commit == Conflict(guard="unread")
        assert await store.messages("th_1") == before
        await drain.do(replace(ending, token="with it", read=("msg_late",)))
        await store.close()


async def test_a_run_ends_though_something_for_the_next_one_came_while_its_end_waited():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drain = await begun(store)
        ending = drain.unit(Answer, {"status": "completed"}, messages=(said("bye"),))
        async with racing(url, ending, POSTED, INSERTED.format(run="NULL")) as commit:
            answer = await commit
        assert isinstance(answer, Committed)
        assert answer.posted == 2
        assert [event.event_id for event in await store.unread("th_1")] == ["msg_late"]
        await store.close()


async def test_a_cancel_that_came_while_the_end_of_the_run_waited_for_it_is_seen():
    asked = "UPDATE runs SET cancel_requested_at = 1"
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drain = await begun(store)
        ending = drain.unit(Answer, {"status": "completed"})
        async with racing(url, ending, asked) as commit:
            assert await commit == Conflict(guard="cancel")
        async with racing(url, drain.unit(Result), asked) as commit:
            answer = await commit
        assert isinstance(answer, Committed)
        assert answer.cancel_requested
        await store.close()


async def test_a_fence_that_was_lost_while_the_unit_waited_for_it_refuses_the_unit():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drain = await begun(store)
        unit = drain.unit(Result, messages=(said("late"),), events=(draft("message"),))
        async with racing(url, unit, "UPDATE threads SET epoch = epoch + 1") as commit:
            assert await commit == Conflict(guard="fence")
        assert await store.messages("th_1") == []
        await store.close()


async def test_events_are_numbered_behind_those_that_came_while_the_unit_waited():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drain = await begun(store)
        unit = drain.unit(Result, events=(draft("message"), draft("x")))
        async with racing(url, unit, "UPDATE threads SET ev = ev + 5") as commit:
            await commit
        assert [event.n for event in await store.events(Topic(kind="thread", id="th_1"))] == [1, 7, 8]
        await store.close()


@pytest.mark.parametrize(
    ("theirs", "status"),
    [
        (("DELETE FROM agents WHERE id = 'agt_1'",), "cancelled"),
        (("UPDATE agents SET revision = 2 WHERE id = 'agt_1'",), "pending"),
        (
            (
                "CREATE TEMP TABLE was ON COMMIT DROP AS TABLE agents",
                "DELETE FROM agents WHERE id = 'agt_1'",
                "INSERT INTO agents TABLE was",  # as a new revision is written
            ),
            "pending",
        ),
    ],
)
async def test_a_call_that_waits_for_its_agent_becomes_pending_if_that_is_there_then(
    theirs: tuple[str, ...], status: str
):
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        await committed(store, save_agent(agent()))
        drain = await begun(store)
        await committed(store, act(HandOff(thread_id="th_1", agent="agt_1")))
        call = drain.call("pending")
        unit = drain.unit(Result, nested=(call,), events=(draft("message"),))
        async with racing(url, unit, *theirs) as commit:
            assert isinstance(await commit, Committed)
        stored = await store.call(call.id)
        assert stored is not None and stored.status == status
        await store.close()


async def test_an_answer_with_more_calls_than_one_statement_takes_is_written():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drain = await begun(store)
        await drain.answer(*[drain.call(position=number) for number in range(1_500)])
        assert len(await store.calls(limit=2_000)) == 1_500
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
        store = await open_postgres(proxy.url, published.extend, patience=0.5)
        drain = await begun(store)
        unit = drain.unit(Result, messages=(said("once"),), events=(draft("message"), draft("x")))
        proxy.lose_answer_to, proxy.then_down = commit_of(unit), True
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
        store = await open_postgres(proxy.url, lambda _: None, patience=0.5)
        clock = ManualClock()
        health = Health(store, MemoryFiles(), clock, new_id)
        clock.advance(FRESH)
        await health.check()
        await proxy.down()
        with pytest.raises(StoreError):
            clock.advance(FRESH)
            await health.check()
        with pytest.raises(StoreError):
            await store.thread("th_1")
        proxy.up()
        async with asyncio.timeout(10):
            clock.advance(FRESH)
            await health.check()
        await store.close()
        with pytest.raises(StoreError):
            clock.advance(FRESH)
            await health.check()


async def test_a_silent_database_is_a_store_error_in_bounded_time_and_the_unit_may_be_tried_again():
    async with fresh_database() as url, Proxy(url) as proxy:
        store = await open_postgres(proxy.url, lambda _: None, attempt=0.2, patience=0.5)
        drain = await begun(store)
        unit = drain.unit(Result, messages=(said("once"),), events=(draft("message"),))
        proxy.freeze()
        waiting = [store.commit(unit), store.thread("th_1"), store.view("th_1"), store.commit(post("th_1"))]
        async with asyncio.timeout(30):
            found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in found] == [StoreError] * 4
        proxy.thaw()
        await committed(store, unit)
        assert [message.content for message in await store.messages("th_1")] == ["once"]
        await store.close()


async def test_a_store_on_a_silent_database_can_be_closed():
    async with fresh_database() as url, Proxy(url) as proxy:
        store = await open_postgres(proxy.url, lambda _: None, attempt=0.2, patience=0.5)
        await create_thread(store)
        proxy.freeze()
        async with asyncio.timeout(30):
            await store.close()


async def test_readers_that_hold_all_their_connections_do_not_keep_commits_waiting():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None, connections=4)
        drain = await begun(store)
        holder, watcher = await connect(url), await connect(url)
        await holder.execute("BEGIN")
        await holder.execute("LOCK TABLE steps IN ACCESS EXCLUSIVE MODE")
        readers = [asyncio.create_task(store.steps(drain.run.id)) for _ in range(8)]
        await blocked_backend(watcher)
        async with asyncio.timeout(60):
            await drain.do(drain.unit(Result, events=(draft("message"),)))
        assert not any(reader.done() for reader in readers)
        await holder.execute("ROLLBACK")
        assert await asyncio.gather(*readers) == [[]] * 8
        await store.close()
        await holder.close()
        await watcher.close()


async def test_a_statement_that_waits_too_long_is_ended_by_the_server():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None, statement=1.0)
        drain = await begun(store)
        holder = await connect(url)
        await holder.execute("BEGIN")
        await holder.execute("SELECT id FROM threads FOR UPDATE")
        with pytest.raises(StoreError):
            await drain.do(drain.unit(Result))
        await holder.execute("ROLLBACK")
        await drain.do(drain.unit(Result))
        await store.close()
        await holder.close()


async def test_a_process_that_stands_still_in_a_transaction_keeps_no_other_waiting_and_loses_no_unit():
    async with fresh_database() as url, Proxy(url) as proxy:
        frozen = await open_postgres(proxy.url, lambda _: None, statement=2.0, attempt=60, patience=60)
        other = await open_postgres(url, lambda _: None)
        await create_thread(frozen)
        proxy.freeze_at = b"COMMIT\x00"
        first = asyncio.create_task(committed(frozen, post("th_1", "msg_a")))
        await proxy.frozen.wait()
        await committed(other, post("th_1", "msg_b"))  # waits for the lock of the thread
        proxy.thaw()
        await first
        assert [event.event_id for event in await other.inbox("th_1")] == ["msg_b", "msg_a"]
        await frozen.close()
        await other.close()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "it did not answer in time"),
        (TimeoutError(110, "Connection timed out"), "[Errno 110] Connection timed out"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
async def test_an_error_without_a_text_is_named_by_what_it_means(error: OSError, reason: str) -> None:
    assert store_error(error).message == f"The journal on Postgres cannot be used: {reason}."


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
        await asyncio.sleep(0.1)  # several heartbeats
        assert lock.held
        proxy.freeze()
        await until_lost(lock)
        await lock.release()


async def test_the_drain_lock_is_released_without_an_answer():
    async with fresh_database() as url, Proxy(url) as proxy:
        lock = PostgresLock(proxy.url, beat=0.01, patience=0.2)
        assert await lock.acquire()
        proxy.freeze()
        await asyncio.sleep(0.05)  # in the middle of a heartbeat
        async with asyncio.timeout(30):
            await lock.release()
        assert not lock.held


GIVEN_MEANWHILE = {
    "env": "INSERT INTO env (owner, kind, name, type, value, updated_at) VALUES ('th_1', 'env', 'A', 'text', 'a', 0)",
    "file": (
        "INSERT INTO files (thread_id, path, folded, id, name, mime_type, size, digest, created_at)"
        " VALUES ('th_1', '/a.txt', '/a.txt', 'fil_1', 'a.txt', 'text/plain', 1, 'd', 0)"
    ),
}


@pytest.mark.parametrize("what", GIVEN_MEANWHILE)
async def test_a_unit_takes_away_what_came_while_it_waited(what: str):
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drain = await begun(store)
        unit = drain.unit(
            Result,
            env=(EnvChange(owner="th_1", kind="env", name="A"),),
            files=(FileChange(path="/a.txt"),),
        )
        async with racing(url, unit, POSTED, GIVEN_MEANWHILE[what]) as commit:
            assert isinstance(await commit, Committed)
        assert (await store.env_of("th_1"), await store.files("th_1")) == ([], [])
        await store.close()


async def test_values_that_wait_for_the_deletion_of_their_person_are_not_set():
    async with fresh_database() as url:
        reader = await open_postgres(url, lambda _: None)
        await committed(reader, save(human(1)))
        async with racing(url, of_person(row("ent_1", "A")), "DELETE FROM entities") as commit:
            assert await commit == Conflict(guard="entity")
        assert await reader.env_of("ent_1") == []
        await reader.close()


async def test_a_deletion_that_waits_for_values_takes_them_away():
    async with fresh_database() as url:
        reader = await open_postgres(url, lambda _: None)
        await committed(reader, save(human(1)))
        setting = (
            "SELECT id FROM entities FOR SHARE",
            "INSERT INTO env (owner, kind, name, type, value, updated_at)"
            " VALUES ('ent_1', 'env', 'A', 'text', 'v', 0)",
        )
        async with racing(url, drop("ent_1"), *setting) as commit:
            assert await commit == Committed()
        assert await reader.env_of("ent_1") == []
        await reader.close()


async def test_behind_a_pooler_a_process_that_locks_the_database_does_not_start() -> None:
    async with fresh_database() as url, Proxy(url, pools=True) as proxy:
        with pytest.raises(
            StoreError, match=r"through a connection pooler such as PgBouncer.* TOOLWRIGHT_CLUSTER\."
        ):
            await open_postgres(proxy.url, print, locks=True)
        await (await open_postgres(proxy.url, print)).close()  # a cluster node has no such lock
        await (await open_postgres(url, print, locks=True)).close()


async def test_behind_a_pooler_notifications_are_said_once_to_be_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with fresh_database() as url, Proxy(url, pools=True) as proxy:
        relay, connected = PostgresRelay(proxy.url), asyncio.Semaphore(0)
        for _ in range(2):
            listening = asyncio.create_task(relay.listen(lambda _: None, connected.release))
            await connected.acquire()
            listening.cancel()
            await asyncio.wait([listening])
    assert [each.message for each in caplog.records if "connection pooler" in each.message] == [
        "Notifications of the database do not pass its connection pooler: this process notices other processes by "
        "looking at the journal. Set TOOLWRIGHT_CLUSTER to the URL of a NATS server."
    ]


async def test_a_database_that_cannot_keep_every_letter_is_refused() -> None:
    async with fresh_database() as url:
        admin = await connect(url)
        await admin.execute("CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
        try:
            with pytest.raises(StoreError, match="must have the encoding UTF8, and this one has LATIN1"):
                await open_postgres(database_url("latin"), lambda _: None)
        finally:
            await admin.execute("DROP DATABASE latin WITH (FORCE)")
            await admin.close()


async def test_a_row_that_is_written_while_it_is_swept_goes_with_a_later_unit() -> None:
    """The sweep skips it, with the run by which the call is found, and the thread's note stays until both are gone."""
    async with fresh_database() as url:
        watcher = await connect(url)
        for table in ("calls", "runs"):
            await watcher.execute(await filling(watcher, table))
        await watcher.execute("DELETE FROM runs WHERE id <> 'x1'")
        await watcher.execute("INSERT INTO dropped_threads VALUES ('x', 1)")
        sweep = SweepThreads(token="first", at=AT, limit=10_000)
        async with racing(url, sweep, "UPDATE calls SET worker = 'w' WHERE id = 'x1'") as commit:
            assert isinstance(await commit, Committed)
        assert await watcher.fetchval("SELECT count(*) FROM calls") == 1
        store = await open_postgres(url, lambda _: None)
        assert await store.retention.has_rows_left()
        await committed(store, SweepThreads(token="second", at=AT, limit=10_000))
        assert not await store.retention.has_rows_left()
        assert (
            await watcher.fetchval("SELECT (SELECT count(*) FROM calls) + (SELECT count(*) FROM runs)") == 0
        )
        await store.close()
        await watcher.close()


async def test_the_id_of_a_deleted_space_is_free_once_another_process_has_deleted_its_rows() -> None:
    """The other process holds the note of the space, so that nothing is left to sweep here, and nothing exists."""
    async with fresh_database() as url:
        other = await connect(url)
        await other.execute("INSERT INTO dropped_threads VALUES ('space:tea', 1)")
        settings = tw.Settings(database_url=url, work=False)
        async with tw.App().runtime(settings) as rt:
            await other.execute("BEGIN")
            await other.execute("DELETE FROM dropped_threads")
            creating = asyncio.create_task(rt.spaces.create("Coffee", id="tea"))
            await asyncio.wait({creating}, timeout=0.5)
            assert not creating.done()
            await other.execute("COMMIT")
            assert (await creating).id == "tea"
            with pytest.raises(AlreadyExists):
                await rt.spaces.create("Coffee", id="tea")
        await other.close()
