"""Durable commits: a `Result` unit as a run makes it, alone and from 50 runs at once, on SQLite and Postgres.

Each figure is compared with a floor measured in the same run: one row committed by the bare driver. The floor of a
single commit on SQLite is the same statements, and so the same bytes, on a bare connection.
"""

import asyncio
import contextlib
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from tests.play import Drain, begun, change, committed, draft, said
from tests.postgres_server import fresh_database

from bench.row import Row
from toolwright.adapters.store.opening import open_postgres, open_sqlite
from toolwright.adapters.store.postgres.connection import connect
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.adapters.store.sqlite.driver import SqliteDriver
from toolwright.adapters.store.sqlite.file import connect as connect_file
from toolwright.adapters.store.store import SqlStore
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Result
from toolwright.core.threads.call import Call
from toolwright.wiring.gateway import settle_memory

ALONE, RUNS, EACH = 300, 50, 40


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    return asyncio.run(_all())


async def _all() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        rows = await _sqlite(Path(folder))
    return rows + await _postgres()


async def _sqlite(folder: Path) -> list[Row]:
    alone, together = await _same_statements(folder), sqlite_floor(folder / "floor.db")
    with contextlib.closing(connect_file(folder / "floor.db")) as connection:
        synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    store = await open_sqlite(folder / "journal.db", _nobody)
    name = f"SQLite (synchronous={synchronous})"
    rows = await _measured(store, name, alone, together, (0.5, 6_000))
    await store.close()
    return rows


async def _postgres() -> list[Row]:
    async with fresh_database(synced=True) as url:
        alone, together = await postgres_floors(url)
        store = await open_postgres(url, _nobody)
        rows = await _measured(store, "Postgres", alone, together, (0.9, 2_500))
        await store.close()
    return rows


async def _measured(
    store: Store, name: str, alone: float, together: float, targets: tuple[float, float]
) -> list[Row]:
    single = await _alone(store)
    many = await _together(store)
    return [
        Row(f"{name}: a commit alone, p50", single, "ms", alone, targets[0]),
        Row(f"{name}: commits of 50 runs at once", many, "/s", together, targets[1], better="more"),
    ]


async def _alone(store: Store) -> float:
    [took] = await asyncio.gather(_work(await _ready(store, "th_alone", ALONE + 1), ALONE))
    return statistics.median(took) * 1_000


async def _together(store: Store) -> float:
    drains = [await _ready(store, f"th_{number}", EACH + 1) for number in range(RUNS)]
    start = time.perf_counter()
    await asyncio.gather(*(_work(drain, EACH) for drain in drains))
    return RUNS * EACH / (time.perf_counter() - start)


async def _ready(store: Store, thread_id: str, calls: int) -> tuple[Drain, list[Call]]:
    drain = await begun(store, thread_id)
    made = [drain.call("running" if n == 0 else "created", position=n) for n in range(calls)]
    await drain.answer(*made)
    return drain, made


async def _work(ready: tuple[Drain, list[Call]], count: int) -> list[float]:
    """Commit results one after another: a message, a finished call, a started call, three events."""
    drain, calls = ready
    took: list[float] = []
    events = (draft("tool.done", result="sunny"), draft("message", text="sunny"), draft("tool.started"))
    running = calls[0]
    for number in range(count):
        started = change(calls[number + 1], "running")
        moves = (change(running, "done", result={"status": "success", "result": "sunny, 21 C"}), started)
        message = said("sunny, 21 C", drain.run.id, call_id=running.id, status="success", step=1)
        running = started.after
        unit = drain.unit(Result, changes=moves, messages=(message,), events=events)
        start = time.perf_counter()
        await committed(drain.store, unit)
        took.append(time.perf_counter() - start)
        drain.moved_by(unit)
    return took


class Recorder:
    """A connection that records its statements, grouped by commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.commits: list[list[tuple[str, Sequence[Any]]]] = [[]]  # any parameter types

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:  # any parameter types
        self.commits[-1].append((sql, values))
        if sql == "COMMIT":
            self.commits.append([])
        return self._connection.execute(sql, values)

    def __getattr__(self, name: str) -> Any:  # the remaining attributes of a connection
        return getattr(self._connection, name)


async def _same_statements(folder: Path) -> float:
    """Return the median of commits by a journal, and of the same statements repeated on a copy of its file."""
    path, copy = folder / "recorded.db", folder / "copy.db"
    recorders: list[Recorder] = []

    def recording(path: Path) -> Any:  # to the driver, this is a connection
        recorders.append(Recorder(connect_file(path)))
        return recorders[-1]

    upgrade_sqlite(path)
    store = SqlStore(SqliteDriver(path, _nobody, recording))
    drain = await _ready(store, "th_alone", ALONE + 1)
    with (
        contextlib.closing(connect_file(path)) as source,
        contextlib.closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    recorders[0].commits = [[]]
    await _work(drain, ALONE)
    await store.close()
    took: list[float] = []
    with contextlib.closing(connect_file(copy)) as connection:
        for statements in recorders[0].commits[:-1]:
            start = time.perf_counter()
            for sql, values in statements:
                connection.execute(sql, values).fetchall()
            took.append(time.perf_counter() - start)
    return statistics.median(took) * 1_000


def sqlite_floor(path: Path) -> float:
    """Return rows a second with fifty rows in a commit, as the writer groups them."""
    with contextlib.closing(connect_file(path)) as connection:
        connection.execute("CREATE TABLE floor (id INTEGER PRIMARY KEY, body TEXT)")
        start = time.perf_counter()
        for _ in range(EACH):
            connection.execute("BEGIN IMMEDIATE")
            for _ in range(RUNS):
                connection.execute("INSERT INTO floor (body) VALUES ('sunny, 21 C')")
            connection.execute("COMMIT")
        return RUNS * EACH / (time.perf_counter() - start)


async def postgres_floors(url: str) -> tuple[float, float]:
    connections = [await connect(url) for _ in range(10)]
    await connections[0].execute("CREATE TABLE floor (id BIGSERIAL PRIMARY KEY, body TEXT)")
    insert = "INSERT INTO floor (body) VALUES ($1)"

    async def one(execute: Callable[..., Awaitable[object]], count: int) -> list[float]:
        took: list[float] = []
        for _ in range(count):
            start = time.perf_counter()
            await execute(insert, "sunny, 21 C")
            took.append(time.perf_counter() - start)
        return took

    alone = statistics.median(await one(connections[0].execute, ALONE)) * 1_000
    start = time.perf_counter()
    await asyncio.gather(*(one(connection.execute, RUNS * EACH // 10) for connection in connections))
    together = RUNS * EACH / (time.perf_counter() - start)
    for connection in connections:
        await connection.close()
    return alone, together


def _nobody(_: object) -> None:
    """A bus without followers."""
