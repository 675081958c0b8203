"""10,000 threads with history: from the start of a process to a healthy gateway, and its memory when idle.

The floor is the same process on an empty journal.
"""

import asyncio
import os
import re
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
from tests.postgres_server import fresh_database

from bench.row import Row
from toolwright.adapters.store.postgres.connection import connect
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.adapters.store.sql.messages import MESSAGES, messages
from toolwright.adapters.store.sql.threads import EVENTS, INBOX, RUNS, THREADS, events, inbox, runs, threads
from toolwright.adapters.system import SystemClock
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread

THREAD_COUNT, STARTS = 10_000, 5
RUN_COUNT = 3  # per thread: a message, an answer and four events each
SECONDS = 2.0
IDLE = 1.0  # seconds after which a process counts as idle
URL = re.compile(r"http://127\.0\.0\.1:\d+")


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    return asyncio.run(_all())


async def _all() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        empty, full = Path(folder) / "empty.db", Path(folder) / "full.db"
        for path in (empty, full):
            upgrade_sqlite(path)
        _fill_sqlite(full)
        rows = await asyncio.to_thread(_measured, "SQLite", f"sqlite:///{empty}", f"sqlite:///{full}")
    async with fresh_database(synced=True) as empty_url, fresh_database(synced=True) as full_url:
        await _fill_postgres(full_url)
        return rows + await asyncio.to_thread(_measured, "Postgres", empty_url, full_url)


def _measured(name: str, empty: str, full: str) -> list[Row]:
    base, found = [_start(empty) for _ in range(STARTS)], [_start(full) for _ in range(STARTS)]
    (least, least_memory), (took, memory) = _middle(base), _middle(found)
    what = f"{name}, {THREAD_COUNT:,} threads"
    return [
        Row(f"{what}: start to /health", took, "s", least, SECONDS, note=f"worst {max(found)[0]:.2f} s"),
        Row(f"{what}: memory when idle", memory, "MiB", least_memory, None),
    ]


def _middle(measured: list[tuple[float, float]]) -> tuple[float, float]:
    half = len(measured) // 2
    return sorted(took for took, _ in measured)[half], sorted(memory for _, memory in measured)[half]


def _start(url: str) -> tuple[float, float]:
    """Return the seconds until the gateway is healthy, and the resident MiB of the process afterwards."""
    start = time.perf_counter()
    with serving_of(url) as server:
        with urlopen(f"{address(server)}/health") as answer:
            assert answer.status == 200
        took = time.perf_counter() - start
        time.sleep(IDLE)
        memory = psutil.Process(server.pid).memory_info().rss / 2**20
        server.send_signal(signal.SIGINT)
    return took, memory


def serving_of(url: str) -> "subprocess.Popen[bytes]":
    """Start a gateway on the journal at that URL, in a separate process."""
    environment = {**os.environ, "TOOLWRIGHT_DATABASE_URL": url}
    command = [sys.executable, "-m", "toolwright.cli", "serve", "--port", "0"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def address(server: "subprocess.Popen[bytes]") -> str:
    """Return the address of the server as soon as it listens."""
    assert server.stdout is not None
    shown = ""
    while (found := URL.search(shown)) is None:
        ready, _, _ = select.select([server.stdout], [], [], 60)
        assert ready, "the server does not start"
        shown += os.read(server.stdout.fileno(), 65_536).decode()
    return found[0]


def _history() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield rows, each with the name of its table."""
    at = SystemClock().now()
    for number in range(THREAD_COUNT):
        thread_id = f"th_{number}"
        yield (
            "threads",
            THREADS.params(
                Thread(
                    id=thread_id,
                    agent="a",
                    created_at=at,
                    seq=2 * RUN_COUNT,
                    ev=4 * RUN_COUNT,
                    posted=RUN_COUNT,
                )
            ),
        )
        for n in range(RUN_COUNT):
            run_id = f"run_{number}_{n}"
            done = Run(
                id=run_id,
                thread_id=thread_id,
                agent="a",
                status="completed",
                output="It is sunny.",
                created_at=at,
            )
            yield "runs", RUNS.params(done)
            asked = InboxEvent(
                thread_id=thread_id,
                event_id=f"msg_{number}_{n}",
                type="message",
                status="processed",
                content={"text": "What is it like?"},
                created_at=at,
            )
            yield "inbox", INBOX.params(asked, n=n + 1)
            for seq, role, text in (
                (2 * n + 1, "user", "What is it like?"),
                (2 * n + 2, "assistant", "Sunny."),
            ):
                said = Message(
                    id=f"m_{number}_{seq}",
                    role="user" if role == "user" else "assistant",
                    content=text,
                    run_id=run_id,
                    created_at=at,
                )
                yield "messages", MESSAGES.params(said, thread_id=thread_id, seq=seq)
            for n_event in range(4 * n + 1, 4 * n + 5):
                event = Event(
                    thread_id=thread_id,
                    run_id=run_id,
                    agent="a",
                    type="message",
                    payload={"text": "It is sunny, 21 C."},
                    at=at,
                    n=n_event,
                )
                yield "events", EVENTS.params(event)


def _tables() -> dict[str, tuple[list[str], list[tuple[Any, ...]]]]:
    """Return the columns and rows of each table."""
    made: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {
        table.name: ([column.name for column in table.columns], [])
        for table in (threads, runs, inbox, messages, events)
    }
    for name, params in _history():
        columns, lines = made[name]
        lines.append(tuple([params[column] for column in columns]))
    return made


def _fill_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for name, (columns, lines) in _tables().items():
            places = ", ".join("?" for _ in columns)
            connection.executemany(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({places})", lines)
        connection.commit()


async def _fill_postgres(url: str) -> None:
    connection: Any = await connect(url, None)  # asyncpg has no types
    for name, (columns, lines) in _tables().items():
        await connection.copy_records_to_table(name, records=lines, columns=columns)
    await connection.close()
