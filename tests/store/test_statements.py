"""The number of statements of a usual step's units, which determines the cost of a commit."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.databases import create_file
from tests.play import Drain, begun, change, committed, draft, request_cancel, said
from tests.postgres_server import fresh_database

from toolwright.adapters.store.postgres.connection import Connection, Limits, Pool, Pools, connect_pools
from toolwright.adapters.store.postgres.driver import PostgresDriver
from toolwright.adapters.store.sqlite.driver import SqliteDriver
from toolwright.adapters.store.sqlite.file import connect
from toolwright.adapters.store.store import SqlStore
from toolwright.core.journal.units import Committed, Conflict, Result, Unit
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Topic
from toolwright.core.threads.run import Usage

pytestmark = pytest.mark.anyio

RESULT = [
    *("BEGIN IMMEDIATE", "UPDATE threads", "UPDATE calls", "UPDATE calls", "SELECT runs.cancel_requested_at"),
    *("INSERT INTO messages", "INSERT INTO events", "COMMIT"),
]


class Recorder:
    """A connection that records the beginning of each statement."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.statements: list[str] = []

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:  # as in sqlite3
        words = 3 if sql.startswith("INSERT") else 2
        self.statements.append(" ".join(sql.split()[:words]))
        return self._connection.execute(sql, values)

    def __getattr__(self, name: str) -> Any:  # all other attributes of a connection
        return getattr(self._connection, name)


def opened(path: Path) -> tuple[SqlStore, Callable[[], list[str]]]:
    """A journal, and a function that returns the statements since its last call."""
    recorders: list[Recorder] = []

    def recording(path: Path) -> Any:  # to the driver, this is a connection
        recorders.append(Recorder(connect(path)))
        return recorders[-1]

    create_file(path)
    store = SqlStore(SqliteDriver(path, lambda _: None, recording))

    def statements() -> list[str]:
        taken, recorders[0].statements = recorders[0].statements, []
        return taken

    return store, statements


async def ready(store: SqlStore, thread_id: str = "th_1") -> tuple[Drain, list[Call]]:
    """Return a drain whose model has requested two calls, the first of which is running."""
    drain = await begun(store, thread_id)
    calls = [drain.call("running"), drain.call(position=1)]
    await drain.answer(*calls)
    return drain, calls


def result(drain: Drain, calls: list[Call]) -> Result:
    """Return the unit in which the first call ends and the second one starts."""
    moves = (
        change(calls[0], "done", result={"status": "success", "result": "sunny"}),
        change(calls[1], "running"),
    )
    message = said("sunny", drain.run.id, call_id=calls[0].id, status="success", step=1)
    events = (draft("tool.done"), draft("message"), draft("tool.started"))
    return drain.unit(Result, changes=moves, messages=(message,), events=events)


class Counted:
    """A session that counts its statements."""

    def __init__(self, connection: Connection, asked: list[str]) -> None:
        self._connection = connection
        self._asked = asked

    def __getattr__(self, name: str) -> Any:  # all other attributes of a session
        if name in {"execute", "fetch", "fetchmany", "fetchval"}:
            self._asked.append(name)
        return getattr(self._connection, name)


class CountedPool:
    """A pool of sessions with a common count."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._lent: dict[int, Connection] = {}
        self.asked: list[str] = []

    async def acquire(self) -> Connection:
        connection = await self._pool.acquire()
        counted: Any = Counted(connection, self.asked)  # to the store, this is a session
        self._lent[id(counted)] = connection
        return counted

    async def release(self, connection: Connection) -> None:
        await self._pool.release(self._lent.pop(id(connection)))

    async def close(self) -> None:
        await self._pool.close()

    def terminate(self) -> None:
        self._pool.terminate()


async def all_at_once(store: SqlStore, units: list[Unit]) -> list[Committed | Conflict]:
    return await asyncio.gather(*(store.commit(unit) for unit in units))


async def test_a_result_takes_one_statement_for_each_row_that_it_changes_and_each_table_that_grows(
    tmp_path: Path,
) -> None:
    store, statements = opened(tmp_path / "journal.db")
    drain, calls = await ready(store)
    statements()
    await committed(store, result(drain, calls))
    assert statements() == RESULT
    await store.close()


async def test_the_row_of_a_run_is_written_where_it_changes(tmp_path: Path) -> None:
    store, _ = opened(tmp_path / "journal.db")
    drain, _ = await ready(store)
    usage = Usage(input_tokens=3)
    for fields in ({"output": True, "usage": usage}, {"output": 1}, {}, {"side": "side_b", "error": "late"}):
        await drain.do(drain.unit(Result, fields))
        stored = await store.run(drain.run.id)
        assert repr(stored) == repr(drain.run)
    elsewhere = drain.unit(Result, {"turn": 4})
    await committed(store, replace(elsewhere, run=replace(elsewhere.run, queued=()), was=None))
    assert await store.run(drain.run.id) == elsewhere.run
    await store.close()


async def test_a_unit_that_leaves_the_row_of_its_run_as_it_is_finds_out_that_the_run_is_over(
    tmp_path: Path,
) -> None:
    store, _ = opened(tmp_path / "journal.db")
    drain, _ = await ready(store)
    unit = drain.unit(Result, messages=(said("x"),))
    await committed(store, request_cancel("th_1", drain.run.id))
    answer = await committed(store, unit)
    assert answer.cancel_requested
    drain.moved_by(unit)
    with closing(connect(tmp_path / "journal.db")) as connection:
        connection.execute("UPDATE runs SET status = 'cancelled'")
    assert await store.commit(drain.unit(Result, messages=(said("x"),))) == Conflict(guard="run")
    await store.close()


async def test_units_of_one_turn_share_their_commit_and_what_they_append(tmp_path: Path) -> None:
    store, statements = opened(tmp_path / "journal.db")
    units: list[Unit] = [result(*await ready(store, f"th_{number}")) for number in range(16)]
    statements()
    await all_at_once(store, units)
    taken = statements()
    assert [taken.count(each) for each in ("BEGIN IMMEDIATE", "COMMIT", "INSERT INTO messages")] == [1, 1, 1]
    assert taken.count("INSERT INTO events") == 3
    assert len(taken) == 1 + 16 * 4 + 4 + 1
    for number in range(16):
        assert len(await store.messages(f"th_{number}")) == 2
        happened = await store.events(Topic(kind="thread", id=f"th_{number}"))
        assert [event.n for event in happened] == list(range(1, 6))
    await store.close()


async def test_a_unit_that_fails_before_it_writes_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    store, statements = opened(tmp_path / "journal.db")
    drains = [await begun(store, f"th_{number}") for number in range(3)]
    units: list[Unit] = [drain.unit(Result, messages=(said("x"),)) for drain in drains]
    drains[1].epoch += 1
    units[1] = drains[1].unit(Result, messages=(said("x"),))
    statements()
    outcomes = await all_at_once(store, units)
    assert [type(outcome) for outcome in outcomes] == [Committed, Conflict, Committed]
    assert statements().count("BEGIN IMMEDIATE") == 1
    assert [len(await store.messages(f"th_{number}")) for number in range(3)] == [1, 0, 1]
    await store.close()


async def test_a_unit_that_fails_in_its_midst_is_kept_apart_from_the_others(tmp_path: Path) -> None:
    store, statements = opened(tmp_path / "journal.db")
    drains = [await begun(store, f"th_{number}") for number in range(3)]
    units: list[Unit] = [drain.unit(Result, messages=(said("x"),)) for drain in drains]
    moves = (change(drains[1].call("running", id="call_none"), "done"),)
    units[1] = drains[1].unit(Result, messages=(said("x"),), changes=moves)
    statements()
    outcomes = await all_at_once(store, units)
    assert outcomes[1] == Conflict(guard="call")
    assert [type(outcome) for outcome in outcomes] == [Committed, Conflict, Committed]
    taken = statements()
    assert (taken.count("BEGIN IMMEDIATE"), taken.count("SAVEPOINT unit")) == (2, 3)
    assert [len(await store.messages(f"th_{number}")) for number in range(3)] == [1, 0, 1]
    await store.close()


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
async def test_a_row_that_no_database_takes_fails_alone(tmp_path: Path, number: int) -> None:
    store, _ = opened(tmp_path / "journal.db")
    drains = [await begun(store, f"th_{number}") for number in range(3)]
    units: list[Unit] = [drain.unit(Result, messages=(said("x"),)) for drain in drains]
    units[1] = drains[1].unit(Result, messages=(said("x", step=number),))
    outcomes = await asyncio.gather(*(store.commit(unit) for unit in units), return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["Committed", "Unwritable", "Committed"]
    assert [len(await store.messages(f"th_{number}")) for number in range(3)] == [1, 0, 1]
    await store.close()


async def test_a_unit_sees_what_those_of_its_turn_have_appended(tmp_path: Path) -> None:
    store, _ = opened(tmp_path / "journal.db")
    drain = await begun(store)
    first = drain.unit(Result, messages=(said("x"),))
    drain.moved_by(first)
    second = drain.unit(Result, dropped=(1,))
    outcomes = await all_at_once(store, [first, second])
    assert [type(outcome) for outcome in outcomes] == [Committed, Committed]
    [message] = await store.messages("th_1")
    assert (message.id, message.kept) == (first.messages[0].id, False)
    await store.close()


async def test_a_result_on_postgres_takes_one_round_trip() -> None:
    async with fresh_database() as url:
        pools = await connect_pools(url, Limits())
        commits = CountedPool(pools.commits)
        driver = PostgresDriver(Pools(commits, pools.reads), lambda _: None, Limits())
        await driver.open()
        store = SqlStore(driver)
        drain, calls = await ready(store)
        commits.asked.clear()
        await committed(store, result(drain, calls))
        assert commits.asked == ["fetchval"]
        await store.close()


async def test_a_session_that_comes_back_is_lent_to_who_waits_and_one_that_was_closed_is_not() -> None:
    async with fresh_database() as url:
        pools = await connect_pools(url, Limits(connections=2))
        first = await pools.commits.acquire()
        waiting = asyncio.create_task(pools.commits.acquire())
        await asyncio.sleep(0)
        await pools.commits.release(first)
        second = await waiting
        await pools.commits.release(second)
        assert await pools.commits.acquire() is second
        second.terminate()
        await pools.commits.release(second)
        third = await pools.commits.acquire()
        assert await third.fetchval("SELECT 1") == 1
        await pools.commits.release(third)
        await pools.close(5.0)
