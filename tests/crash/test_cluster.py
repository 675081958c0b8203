"""Three processes execute the runs of one database, while some of them die, stall or are replaced."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from tests.crash.node_child import CALLS, worker
from tests.crash.processes import INTERRUPTED
from tests.motor.rig import NatsServer, free_ports
from tests.postgres_server import MortalServer, fresh_database
from tests.runtime.rig import assert_valid
from tests.store.pg_proxy import Proxy
from tests.store.pgbouncer import MISSING, PgBouncer
from toolwright.adapters.store.opening import open_postgres
from toolwright.core.agents.catalog import Catalog
from toolwright.core.results import ToolResult
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualClock, ManualMotor, MemoryBus
from toolwright.wire.result import model_text
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.outage]

NODES, THREADS = 3, 30
# The result of an interrupted call, as the model reads it.
LOST = model_text(ToolResult.fail(INTERRUPTED, error_code="interrupted"))
NEVER = 600.0  # seconds without a heartbeat after which a node is dead; never reached


@dataclass
class Cluster:
    """The nodes, and a runtime in addition to them that only writes and reads."""

    url: str
    path: Path
    rt: Runtime
    ttl: float
    nodes: list[Process] = field(default_factory=list[Process])

    async def start(self, *options: str, url: str | None = None) -> Process:
        """Start one more node, with options of `node_child`. Returns when it is ready."""
        url, path = url or self.url, str(self.path)
        command = (sys.executable, "-m", "tests.crash.node_child", url, path, str(self.ttl), *options)
        node = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
        assert node.stdout is not None
        assert await node.stdout.readline() == b"ready\n"
        self.nodes.append(node)
        return node

    async def end(self, node: Process, number: int) -> None:
        """Terminate a node with that signal."""
        node.send_signal(number)
        await node.wait()
        self.nodes.remove(node)

    def effects(self) -> list[list[str]]:
        """Return the records of the tools: the process, the tool, the call."""
        if not self.path.exists():
            return []
        return [line.split() for line in self.path.read_text(encoding="utf-8").splitlines()]

    async def effects_of(self, process: Process) -> None:
        """Wait until that node has started a call."""
        while True:
            if any(line[0] == str(process.pid) for line in self.effects()):
                return
            await asyncio.sleep(0.02)

    async def send(self, count: int = THREADS) -> list[tuple[str, str]]:
        """Send a message to new threads. Return the threads, each with its run."""
        sent: list[tuple[str, str]] = []
        for _ in range(count):
            thread = await self.rt.threads.create("worker")
            sent.append((thread.id, (await self.rt.threads.send(thread.id, "Go")).id))
        return sent

    async def check(self, sent: list[tuple[str, str]]) -> list[str]:
        """Wait until all runs end.

        Check that transcripts are complete and each effect began once. Return the results.
        """
        results: list[str] = []
        for thread_id, run_id in sent:
            run = await self.rt.runs.wait(run_id, 60)
            assert (run.status, run.output) == ("completed", "All done."), run.error
            messages = await self.rt.threads.messages(thread_id, 100)
            assert_valid(messages)
            results += [message.content for message in messages if message.role == "tool"]
        assert len(results) == CALLS * len(sent)
        begun = Counter(call for _, tool, call in self.effects() if tool == "effect")
        assert [call for call, times in begun.items() if times > 1] == []
        return results


@asynccontextmanager
async def cluster(
    folder: Path,
    ttl: float = 5.0,
    url: str | None = None,
    *,
    options: Sequence[Sequence[str]] = ((),) * NODES,
    seconds: float = 100,
) -> AsyncGenerator[Cluster]:
    """Nodes with these options, three by default; each is dead after that many seconds without a heartbeat."""
    if url is None:
        async with (
            fresh_database() as made,
            cluster(folder, ttl, made, options=options, seconds=seconds) as here,
        ):
            yield here
        return
    async with asyncio.timeout(seconds):
        store, clock = await open_postgres(url, lambda _: None), ManualClock()
        path = folder / "effects"
        parts = DefaultParts(store=store, motor=ManualMotor(store, clock), bus=MemoryBus())
        rt = Runtime(Catalog(agents=[worker(str(path))]), parts, Settings(database_url=url), 0.0)
        await rt.start()
        here = Cluster(url, path, rt, ttl)
        try:
            await asyncio.gather(*[here.start(*each) for each in options])
            yield here
        finally:
            for node in here.nodes:
                node.send_signal(signal.SIGCONT)
                node.kill()
            await asyncio.gather(*[node.wait() for node in here.nodes])
            await rt.stop()


async def test_runs_are_executed_by_all_nodes_each_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, NEVER) as here:
        sent = await here.send()
        for node in here.nodes:
            while not any(line[0] == str(node.pid) for line in here.effects()):
                sent += await here.send(5)
        results = await here.check(sent)
        assert set(results) == {"worked"}
        assert len(here.effects()) == CALLS * len(sent)  # none was executed twice


@pytest.mark.parametrize(
    "kills", [3, pytest.param(20, marks=[pytest.mark.exhaustive, pytest.mark.timeout(400)])]
)
async def test_killed_nodes_lose_no_run(kills: int, tmp_path: Path) -> None:
    async with cluster(tmp_path, seconds=100 if kills == NODES else 380) as here:
        sent = await here.send()
        for _ in range(kills):
            sent += await here.send(10)
            node = here.nodes[0]
            await here.effects_of(node)
            await here.end(node, signal.SIGKILL)
            await here.start()
        results = await here.check(sent)
        assert set(results) <= {"worked", LOST}


async def test_a_node_that_stands_still_loses_its_runs_and_takes_none_back(tmp_path: Path) -> None:
    async with cluster(tmp_path) as here:
        sent = await here.send()
        frozen = here.nodes[0]
        await here.effects_of(frozen)
        frozen.send_signal(signal.SIGSTOP)
        await here.check(sent)  # while it is stalled
        frozen.send_signal(signal.SIGCONT)
        later = await here.send(10)
        await here.check([*sent, *later])


async def test_a_node_that_is_cut_off_from_the_database_loses_its_runs_and_takes_none_back(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, options=[(), ()]) as here, Proxy(here.url) as proxy:
        cut_off = await here.start(url=proxy.url)
        sent = await here.send()
        await here.effects_of(cut_off)
        proxy.freeze()
        await here.check(sent)  # while no packets pass
        proxy.thaw()
        later = await here.send(10)
        await here.check([*sent, *later])
        assert cut_off.returncode is None


async def test_a_node_whose_event_loop_is_blocked_for_a_moment_keeps_its_runs(tmp_path: Path) -> None:
    async with cluster(tmp_path, NEVER, options=[("blocks=3",), ("blocks=3",), ()]) as here:
        sent = await here.send()
        results = await here.check(sent)
        assert set(results) == {"worked"}
        assert len(here.effects()) == CALLS * len(sent)


async def test_a_node_whose_event_loop_is_blocked_for_long_loses_its_runs(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2.0, options=[("blocks=30", "hung=1"), (), ()]) as here:
        blocked = here.nodes[0]
        sent = await here.send()
        await here.effects_of(blocked)
        await here.check(sent)  # while it is stalled
        await here.end(blocked, signal.SIGKILL)


async def test_nodes_whose_clocks_are_wrong_go_by_the_clock_of_the_database(tmp_path: Path) -> None:
    async with cluster(tmp_path, NEVER, options=[("shift=3600",), ("shift=-3600",), ()]) as here:
        sent = await here.send()
        for node in here.nodes:
            await here.effects_of(node)
        results = await here.check(sent)
        assert set(results) == {"worked"}
        for thread_id, run_id in sent:
            run = await here.rt.runs.get(run_id)
            assert run.lives == 0
            messages = await here.rt.threads.messages(thread_id, 100)
            times = [run.created_at, *[each.created_at for each in messages]]
            assert max(times) - min(times) < timedelta(minutes=30)


async def test_a_broker_that_is_killed_and_comes_back_costs_no_run(tmp_path: Path) -> None:
    broker = await asyncio.to_thread(NatsServer)
    try:
        async with cluster(tmp_path, NEVER, options=[(f"bus={broker.url}",)] * NODES) as here:
            sent = await here.send()
            await here.effects_of(here.nodes[0])
            await asyncio.to_thread(broker.kill)
            sent += await here.send()
            assert set(await here.check(sent)) == {"worked"}
            await asyncio.to_thread(broker.start)
            sent += await here.send()
            assert set(await here.check(sent)) == {"worked"}
    finally:
        await asyncio.to_thread(broker.kill)


@pytest.mark.skipif(MISSING, reason="`make .venv/.pgbouncer` has fetched no PgBouncer")
async def test_nodes_behind_a_pooler_of_transactions_lose_no_run(tmp_path: Path) -> None:
    broker = await asyncio.to_thread(NatsServer)
    try:
        async with fresh_database() as direct:
            with PgBouncer(direct, *free_ports(1)) as pooler:
                options = [(f"bus={broker.url}",)] * NODES
                async with cluster(tmp_path, url=pooler.url, options=options) as here:
                    sent = await here.send()
                    node = here.nodes[0]
                    await here.effects_of(node)
                    await here.end(node, signal.SIGKILL)
                    assert set(await here.check(sent)) <= {"worked", LOST}
    finally:
        await asyncio.to_thread(broker.kill)


async def test_nodes_are_replaced_one_by_one_and_no_run_fails(tmp_path: Path) -> None:
    async with cluster(tmp_path, NEVER) as here:
        sent = await here.send()
        for node in [*here.nodes]:
            await here.start()
            await here.effects_of(node)
            await here.end(node, signal.SIGTERM)
            sent += await here.send(10)
        results = await here.check(sent)
        assert set(results) == {"worked"}
        runs = [await here.rt.runs.get(run_id) for _, run_id in sent]
        assert all(run.lives == 0 for run in runs)


async def test_a_database_that_is_killed_and_comes_back_costs_no_run(tmp_path: Path) -> None:
    server = await asyncio.to_thread(MortalServer)
    try:
        async with cluster(tmp_path, url=server.url) as here:
            sent = await here.send()
            await here.effects_of(here.nodes[0])
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)
            results = await here.check(sent)
            assert set(results) <= {"worked", LOST}
            assert all(node.returncode is None for node in here.nodes)
    finally:
        await asyncio.to_thread(server.end)
