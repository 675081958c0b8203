"""Submitted results: the time until the run continues, and the cost of 100,000 pending calls.

The floor of the first is one commit of the same journal. The floor of the others is the same process on an empty
journal.
"""

import asyncio
import contextlib
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

import toolwright as tw
from bench.many_threads import address, serving_of
from bench.row import Row
from bench.shop import SYSTEM, TOOLS
from toolwright.adapters.store.engine.codecs import micros
from toolwright.adapters.store.opening import open_sqlite
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.adapters.store.sql.messages import CALLS, calls
from toolwright.adapters.store.sql.threads import RUNS, THREADS, runs, threads, wakes
from toolwright.adapters.system import SystemClock
from toolwright.core.journal.units import Probe
from toolwright.core.threads.call import Call, timer_of
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.testing import ScriptedModel
from toolwright.wiring.gateway import settle_memory

TIMES, CALL_COUNT, STARTS = 100, 100_000, 3
IDLE = 5.0  # seconds for which the CPU time is measured
EACH = 10  # calls per run


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    with tempfile.TemporaryDirectory() as folder:
        return [*asyncio.run(_latency(Path(folder))), *_pending(Path(folder))]


async def _latency(folder: Path) -> list[Row]:
    """Time the submission of a result for which a run waits in memory, until the run's next event."""
    ask = tw.Tool(name="ask", description="Ask.", kind="external", timeout=60.0)
    turns: list[dict[str, object]] = [{"calls": [{"name": "ask", "args": {}}]}] * (TIMES + 1)
    model = ScriptedModel([*turns, {"text": "Done."}])
    prompt = tw.Prompt("bench", SYSTEM, model=model, tools=[ask, *TOOLS])
    app = tw.App(agents=[tw.Agent("bench", tw.Side(prompt, max_steps=TIMES + 10))])
    settings = tw.Settings(database_url=f"sqlite:///{folder / 'journal.db'}")
    took: list[float] = []
    async with app.runtime(settings) as rt:
        thread = await rt.threads.create("bench")
        sent = await rt.threads.send(thread.id, "Go")
        topic = Topic(kind="run", id=sent.id)
        async with (
            rt.events.following(topic, 0) as following,
            contextlib.aclosing(following.events) as events,
        ):
            for _ in range(TIMES):
                opened = await _until(events, "tool.started")
                start = time.perf_counter()
                await rt.calls.submit(sent.id, str(opened.payload["toolCallId"]), {"answer": 42})
                await _until(events, "step.done")
                took.append(time.perf_counter() - start)
    floor = await commit_floor(folder / "journal.db")
    worst = f"p95 {sorted(took)[int(TIMES * 0.95)] * 1_000:.2f} ms"
    return [
        Row(
            "SQLite: submission to the run going on, p50",
            statistics.median(took) * 1_000,
            "ms",
            floor,
            5.0,
            note=worst,
        )
    ]


async def _until(events: AsyncGenerator[Event], type_: str) -> Event:
    async for event in events:
        if event.type == type_:
            return event
    raise AssertionError("the events have an end")


async def commit_floor(path: Path) -> float:
    store = await open_sqlite(path, lambda _: None)
    clock, took = SystemClock(), list[float]()
    for n in range(TIMES):
        start = time.perf_counter()
        await store.commit(Probe(token=f"bench {n}", at=clock.now()))
        took.append(time.perf_counter() - start)
    await store.close()
    return statistics.median(took) * 1_000


def _pending(folder: Path) -> list[Row]:
    empty, full = folder / "empty.db", folder / "full.db"
    for path in (empty, full):
        upgrade_sqlite(path)
    _fill(full)
    base, found = [_start(empty) for _ in range(STARTS)], [_start(full) for _ in range(STARTS)]
    what = f"SQLite, {CALL_COUNT:,} pending calls"
    names = (
        "start to /health",
        "memory when idle",
        "CPU when idle",
        "CPU with a stream of offers read to its end",
    )
    units = ("s", "MiB", "% of a core", "% of a core")
    targets = (2.0, 120.0, 1.0, None)
    return [
        Row(f"{what}: {name}", _middle(found, n), unit, _middle(base, n), target)
        for n, (name, unit, target) in enumerate(zip(names, units, targets, strict=True))
    ]


def _middle(measured: list[tuple[float, ...]], n: int) -> float:
    return statistics.median(each[n] for each in measured)


def _start(path: Path) -> tuple[float, ...]:
    """Return seconds to health, resident MiB, and percent of a core when idle: without and with a reader of offers."""
    start = time.perf_counter()
    with serving_of(f"sqlite:///{path}") as server:
        url = address(server)
        with urlopen(f"{url}/health") as answer:
            assert answer.status == 200
        took = time.perf_counter() - start
        time.sleep(1.0)
        process = psutil.Process(server.pid)
        memory, idle = process.memory_info().rss / 2**20, _cpu(process)
        reader = subprocess.Popen(
            [sys.executable, "-c", _READER, f"{url}/api/tools/stream"], stdout=subprocess.PIPE
        )
        with reader:
            assert reader.stdout is not None
            reader.stdout.readline()
            read = _cpu(process)
            reader.kill()
        server.send_signal(signal.SIGINT)
    return took, memory, idle, read


_READER = """
import sys, time, urllib.request
stream = urllib.request.urlopen(sys.argv[1])
stream.fp.raw._sock.settimeout(1.0)
try:
    while stream.readline():
        pass
except TimeoutError:
    print("quiet", flush=True)
time.sleep(60)
"""


def _cpu(process: psutil.Process) -> float:
    before = sum(process.cpu_times()[:2])
    time.sleep(IDLE)
    return (sum(process.cpu_times()[:2]) - before) / IDLE * 100


def _fill(path: Path) -> None:
    at = SystemClock().now()
    made: dict[str, list[dict[str, Any]]] = {"threads": [], "runs": [], "calls": [], "wakes": []}
    later = at.replace(year=at.year + 1)
    for number in range(CALL_COUNT // EACH):
        thread_id, run_id = f"th_{number}", f"run_{number}"
        thread = Thread(id=thread_id, agent="a", created_at=at)
        done = Run(id=run_id, thread_id=thread_id, agent="a", status="completed", created_at=at)
        made["threads"].append(THREADS.params(thread))
        made["runs"].append(RUNS.params(done))
        for position in range(EACH):
            call = Call(
                id=f"call_{number}_{position}",
                thread_id=thread_id,
                run_id=run_id,
                step=1,
                position=position,
                name="ask",
                kind="external",
                arguments='{"question": "How long?"}',
                model_call_id="c",
                status="pending",
                created_at=at,
                started_at=at,
                expires_at=later,
            )
            made["calls"].append(CALLS.params(call))
            wake = {"thread_id": timer_of(call.id), "due": micros(later), "gen": 1}
            made["wakes"].append(wake)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for table in (threads, runs, calls, wakes):
            columns = [column.name for column in table.columns]
            places = ", ".join("?" for _ in columns)
            lines = [tuple(params.get(column) for column in columns) for params in made[table.name]]
            connection.executemany(
                f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({places})", lines
            )
        connection.commit()
