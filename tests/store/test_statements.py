"""How many statements the units of a usual step take: a commit costs what they cost."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.play import Drain, begun, change, committed, draft, said

from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.adapters.store.sqlite.driver import SqliteDriver
from toolwright.adapters.store.sqlite.file import connect
from toolwright.adapters.store.store import SqlStore
from toolwright.core.journal.units import Committed, Conflict, Result, Unit
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Topic

pytestmark = pytest.mark.anyio

RESULT = [
    *("BEGIN IMMEDIATE", "UPDATE threads", "UPDATE calls", "UPDATE calls", "UPDATE runs"),
    *("INSERT INTO messages", "INSERT INTO events", "COMMIT"),
]


class Recorder:
    """A connection that keeps the beginning of each statement."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.statements: list[str] = []

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:  # as sqlite3 has them
        words = 3 if sql.startswith("INSERT") else 2
        self.statements.append(" ".join(sql.split()[:words]))
        return self._connection.execute(sql, values)

    def __getattr__(self, name: str) -> Any:  # whatever else a connection has
        return getattr(self._connection, name)


def opened(path: Path) -> tuple[SqlStore, Callable[[], list[str]]]:
    """A journal, and what tells which statements it has taken since one asked last."""
    recorders: list[Recorder] = []

    def recording(path: Path) -> Any:  # a connection, as far as the driver sees
        recorders.append(Recorder(connect(path)))
        return recorders[-1]

    upgrade_sqlite(path)
    store = SqlStore(SqliteDriver(path, lambda _: None, recording))

    def statements() -> list[str]:
        taken, recorders[0].statements = recorders[0].statements, []
        return taken

    return store, statements


async def ready(store: SqlStore, thread_id: str = "th_1") -> tuple[Drain, list[Call]]:
    """A drain whose model has asked for two calls, the first of which runs."""
    drain = await begun(store, thread_id)
    calls = [drain.call("running"), drain.call(position=1)]
    await drain.answer(*calls)
    return drain, calls


def result(drain: Drain, calls: list[Call]) -> Result:
    """The first call is done, the second one begins."""
    moves = (
        change(calls[0].id, "running", "done", result={"status": "success", "result": "sunny"}),
        change(calls[1].id, "created", "running"),
    )
    message = said("sunny", drain.run.id, call_id=calls[0].id, status="success", step=1)
    events = (draft("tool.done"), draft("message"), draft("tool.started"))
    return drain.unit(Result, changes=moves, messages=(message,), events=events)


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
    moves = (change("call_none", "running", "done"),)
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
