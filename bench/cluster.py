"""Nodes of a cluster compared with one process: wake-ups, the time from a commit to its processing, and runs.

Runs on Postgres with synchronous commits. A drain reads the wake-up and releases the thread. All nodes share this
process, so the figures are those of one core; their floor is the embedded motor on the same database. Runs of two steps
are executed by separate processes (`python -m bench.cluster URL FILES` is one of them); their floor is one such
process.
"""

import asyncio
import signal
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from tests.motor.rig import NatsServer, Rig, bus_of, leased
from tests.postgres_server import fresh_database

import toolwright as tw
from bench.row import Row
from toolwright.adapters.bus.cluster import REFRESH, ClusterBus, Relay
from toolwright.adapters.bus.nats import NatsRelay
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.store.opening import open_postgres
from toolwright.adapters.store.postgres.connection import Connection, PostgresRelay, connect
from toolwright.adapters.store.postgres.leases import TTL
from toolwright.adapters.store.postgres.locks import PostgresLock
from toolwright.adapters.system import SystemClock
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.message import Message
from toolwright.runtime.runtime import Runtime
from toolwright.testing import FunctionModel

WAKES, ALONE = 4_000, 100
RUNS = 1_000
KILLS = 3
CONNECTIONS = 10  # per node; Postgres accepts 100


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    return asyncio.run(_all())


async def _all() -> list[Row]:
    floor_rate, floor_cpu, floor_way = await _measured(0)
    rows: list[Row] = []
    for nodes in (4, 8):
        rate, cpu, _ = await _measured(nodes)
        rows += [
            Row(f"{nodes} nodes: wake-ups drained", rate, "/s", floor_rate, None, better="more"),
            Row(f"{nodes} nodes: CPU of a wake-up", cpu, "µs", floor_cpu, None),
        ]
    _, _, way = await _measured(1)
    return [
        *rows,
        Row("from a commit at a node to its drain, p50", way, "ms", floor_way, None),
        *[row for each in ("Postgres", "NATS") for row in await _between(each, floor_way)],
        *await _posted(),
        Row("a killed node: until its runs are free, the longest", await _freed(), "s", TTL, TTL + 1),
        *await _processes(),
    ]


async def _posted() -> list[Row]:
    """Return the ms from a message to the end of its run of two steps, sent at a node and at a process without runs."""
    rows: list[Row] = []
    async with AsyncExitStack() as stack:
        files = stack.enter_context(tempfile.TemporaryDirectory())
        url, server = await stack.enter_async_context(fresh_database(synced=True)), NatsServer()
        stack.callback(server.kill)
        alone = tw.Settings(database_url=url, files_url=files)
        async with _app().runtime(alone) as rt:
            floor = await _answered(rt, rt)
        for by, bus in (("Postgres", "postgres"), ("NATS", server.url)):
            async with (
                _app().runtime(_settings(url, files, bus=bus)) as node,
                _app().runtime(_settings(url, files, work=False, bus=bus)) as outside,
            ):
                await asyncio.sleep(3 * REFRESH)  # until the nodes have discovered each other
                here, there = await _answered(node, node), await _answered(outside, outside)
            name = f"a run of two steps, by {by}, posted"
            rows += [
                Row(f"{name} at its node, p50", here, "ms", floor, floor * 1.3),
                Row(f"{name} elsewhere, p50", there, "ms", floor, floor * 1.3),
            ]
    return rows


async def _answered(sending: Runtime, waiting: Runtime) -> float:
    times: list[float] = []
    for _ in range(ALONE):
        thread = await sending.threads.create("worker")
        began = time.perf_counter()
        run = await sending.threads.send(thread.id, "Go")
        await waiting.runs.wait(run.id, 30)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1_000


async def _freed() -> float:
    """Return the seconds from a SIGKILL of a process until its node owns no thread."""
    longest = 0.0
    for _ in range(KILLS):
        async with fresh_database(synced=True) as url, AsyncExitStack() as stack:
            files = stack.enter_context(tempfile.TemporaryDirectory())
            rt = await stack.enter_async_context(_app().runtime(_settings(url, files, work=False)))
            threads = [await rt.threads.create("worker") for _ in range(RUNS)]
            connection = await connect(url)
            stack.push_async_callback(connection.close)
            first = await _node(url, files)
            name = await connection.fetchval("SELECT id FROM nodes")
            second = await _node(url, files)
            # Sent now: the first node could otherwise have executed them all before the second is ready.
            async with asyncio.TaskGroup() as sending:
                for thread in threads:
                    sending.create_task(rt.threads.send(thread.id, "Go"))
                await _until(connection, name, is_working=True)
                began = time.perf_counter()
                await _killed(first)
                await _until(connection, name, is_working=False)
            longest = max(longest, time.perf_counter() - began)
            await _killed(second)
    return longest


async def _node(url: str, files: str) -> Process:
    """Start a process that executes runs."""
    command = (sys.executable, "-m", "bench.cluster", url, files)
    node = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    assert node.stdout is not None and await node.stdout.readline() == b"ready\n"
    return node


async def _until(connection: Connection, node: str, *, is_working: bool) -> None:
    """Wait until the node leases threads, or until it leases none."""
    leased = "SELECT count(*) FROM wakes WHERE node = $1"
    while True:  # the database sends no notification of it
        if bool(await connection.fetchval(leased, node)) == is_working:
            break
        await asyncio.sleep(0.01)


async def _killed(node: Process) -> None:
    node.kill()
    await node.wait()


async def _processes() -> list[Row]:
    """Measure the execution of queued runs by one, two and three processes."""
    alone = await _executed(1)
    rows: list[Row] = []
    for count in (2, 3):
        rate, cpu = await _executed(count)
        rows += [
            Row(f"{count} processes: runs executed", rate, "/s", alone[0], None, better="more"),
            Row(f"{count} processes: CPU of a run in them", cpu, "ms", alone[1], alone[1] * 1.15),
        ]
    return rows


async def _executed(count: int) -> tuple[float, float]:
    """Return runs per second, and CPU ms per run, for that number of processes."""
    async with fresh_database(synced=True) as url:
        with tempfile.TemporaryDirectory() as files:
            async with _app().runtime(_settings(url, files, work=False)) as rt:
                for _ in range(RUNS):
                    await rt.threads.send((await rt.threads.create("worker")).id, "Go")
                nodes = await asyncio.gather(*[_node(url, files) for _ in range(count)])
                began, before = time.perf_counter(), await _completed(url)
                done = before
                while True:
                    done = await _completed(url)
                    if done >= RUNS:
                        break
                    await asyncio.sleep(0.02)
                rate = (done - before) / (time.perf_counter() - began)
                for node in nodes:
                    node.send_signal(signal.SIGTERM)
                used = [float((await node.communicate())[0]) for node in nodes]
    return rate, sum(used) / RUNS * 1_000


async def _completed(url: str) -> int:
    connection = await connect(url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM runs WHERE status = 'completed'"))
    finally:
        await connection.close()


def _app() -> tw.App:
    @tw.tool(read_only=True)
    async def look(place: str) -> str:
        """Look at a place."""
        return f"There is nothing at {place}."

    def answer(messages: Sequence[Message]) -> dict[str, object]:
        if messages[-1].role == "user":
            return {"calls": [{"name": "look", "args": {"place": "the door"}}]}
        return {"text": "All done."}

    return tw.App(
        agents=[tw.Agent("worker", instructions="Work.", model=FunctionModel(answer), tools=[look])]
    )


def _settings(url: str, files: str, *, work: bool = True, bus: str = "postgres") -> tw.Settings:
    return tw.Settings(database_url=url, cluster=bus, files_url=files, work=work)


async def _be_node(url: str, files: str) -> None:
    """Execute runs until SIGTERM, then print the CPU seconds used since the process was ready."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with _app().runtime(_settings(url, files)):
        print("ready", flush=True)
        began = time.process_time()
        await ended.wait()
    print(time.process_time() - began, flush=True)


async def _between(by: str, floor_way: float) -> list[Row]:
    """Measure messages from one process to another, over Postgres and over NATS."""
    async with AsyncExitStack() as stack:
        url, server = await stack.enter_async_context(fresh_database(synced=True)), NatsServer()
        stack.callback(server.kill)
        cluster = "postgres" if by == "Postgres" else server.url
        outside = await stack.enter_async_context(bus_of(url, cluster, works=False))
        bus = await stack.enter_async_context(bus_of(url, cluster, works=True))
        rig = await stack.enter_async_context(leased(url, sweep=0.25, bus=bus))
        await asyncio.sleep(3 * REFRESH)  # until the processes have discovered each other
        way = await _way(rig, outside.wake)
        delta = await _delta(outside, bus)
        least, most = await _sent(url, cluster), 5.0 if by == "NATS" else 50.0
    return [
        Row(f"from a commit elsewhere to its drain, by {by}, p50", way, "ms", floor_way, most),
        Row(f"live text that is followed elsewhere, by {by}, p50", delta, "ms", least, 5.0),
    ]


async def _delta(sender: ClusterBus, reader: ClusterBus) -> float:
    times: list[float] = []
    now = datetime.now(UTC)
    with reader.subscribe(Topic(kind="thread", id="th_1")) as follower:
        await asyncio.sleep(0.1)
        for number in range(ALONE):
            payload: JSONObject = {"streamId": "s", "delta": "some words", "text": "some words " * 50}
            event = Event(
                thread_id="th_1", run_id="r", agent="a", type="message.delta", payload=payload, at=now
            )
            began = time.perf_counter()
            sender.publish([event])
            await follower.next(5.0)
            times.append(time.perf_counter() - began)
            await asyncio.sleep(0.01 + number % 3 / 1_000)
    return statistics.median(times) * 1_000


async def _sent(url: str, cluster: str) -> float:
    """Return the ms of a plain text from one relay to another."""
    relays: list[Relay] = [
        PostgresRelay(url) if cluster == "postgres" else NatsRelay([cluster], "floor") for _ in range(2)
    ]
    heard, connected = asyncio.Event(), asyncio.Semaphore(0)

    async def listen(relay: Relay, hear: Callable[[str], None]) -> None:
        await relay.listen(hear, connected.release)

    running = [
        asyncio.create_task(listen(relays[0], lambda _: None)),
        asyncio.create_task(listen(relays[1], lambda _: heard.set())),
    ]
    for _ in relays:
        await connected.acquire()
    times: list[float] = []
    for number in range(ALONE):
        heard.clear()
        began = time.perf_counter()
        await relays[0].send([f"{number}" + "x" * 1_000])
        await heard.wait()
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.01)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return statistics.median(times) * 1_000


async def _measured(nodes: int) -> tuple[float, float, float]:
    """Return wake-ups per second, the CPU µs of each in a backlog, and the ms until a single wake-up is processed."""
    async with fresh_database(synced=True) as url, AsyncExitStack() as stack:
        opened = [leased(url, sweep=0.25, connections=CONNECTIONS) for _ in range(nodes)] or [_embedded(url)]
        await _fill(url)
        began, cpu = time.perf_counter(), time.process_time()
        rigs = [await stack.enter_async_context(each) for each in opened]
        while True:
            if sum(len(rig.drained) for rig in rigs) >= WAKES:
                break
            await asyncio.sleep(0.005)
        seconds, used = time.perf_counter() - began, time.process_time() - cpu
        return (
            WAKES / seconds,
            used / WAKES * 1e6,
            await _way(rigs[0], rigs[0].motor.wake) if nodes < 2 else 0.0,
        )


async def _way(rig: Rig, wake: Callable[[str], None]) -> float:
    times: list[float] = []
    for number in range(ALONE):
        name, count = await rig.thread(f"alone{number}"), len(rig.drained)
        await rig.post(name)
        began = time.perf_counter()
        wake(name)
        await rig.until_more_than(count)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1_000


async def _fill(url: str) -> None:
    connection = await connect(url)
    await connection.execute(
        "INSERT INTO wakes (thread_id, due, gen) SELECT 'thr_' || n, n, 1 FROM generate_series(1, $1::int) AS n",
        WAKES,
    )
    await connection.close()


@asynccontextmanager
async def _embedded(url: str) -> AsyncGenerator[Rig]:
    store, clock = await open_postgres(url, lambda _: None), SystemClock()
    motor = EmbeddedMotor(store, clock, PostgresLock(url), concurrency=100)
    rig = Rig(store, motor, clock)
    await motor.start(rig.drain, rig.nudge)
    try:
        yield rig
    finally:
        await motor.stop(0.0)
        await store.close()


if __name__ == "__main__":
    asyncio.run(_be_node(*sys.argv[1:]))
