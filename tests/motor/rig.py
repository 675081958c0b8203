"""A motor whose drain only releases its thread, and records it."""

import asyncio
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import uvicorn

from tests.prerequisites import missing
from toolwright.adapters.bus.cluster import ClusterBus
from toolwright.adapters.bus.nats import NatsRelay
from toolwright.adapters.motor.leases import LeaseMotor
from toolwright.adapters.store.opening import open_postgres
from toolwright.adapters.store.postgres.connection import PostgresRelay
from toolwright.adapters.store.postgres.leases import PostgresLeases
from toolwright.adapters.system import ClusterClock, SystemClock, new_id
from toolwright.core.journal.store import Outage, Store
from toolwright.core.journal.units import Committed, CreateThread, Leave, Leaving, PostMessage
from toolwright.core.ports import Clock, Motor, Verdict
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.testing import EmbeddedMotor, ManualClock, ManualMotor, MemoryStore, NoLock

Hook = Callable[[str], Awaitable[None]]


async def _nothing(_: str) -> None:
    """Do no work."""


@dataclass
class Rig:
    """Threads to wake, a motor that drains them, and a record of the drains."""

    store: Store
    motor: Motor
    clock: Clock
    drained: list[str] = field(default_factory=list[str])
    nudged: list[str] = field(default_factory=list[str])
    during: Hook = _nothing
    before_leaving: Hook = _nothing
    due_later: dict[str, datetime] = field(default_factory=dict[str, datetime])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    leases: PostgresLeases | None = None
    most: int = 10_000  # number of threads that it drains in a short time

    async def thread(self, name: str, user_id: str | None = None) -> str:
        thread = Thread(id=name, agent="agt_x", user_id=user_id, created_at=self.clock.now())
        await self.store.commit(CreateThread(token=new_id("unit"), at=self.clock.now(), thread=thread))
        return name

    async def post(self, name: str) -> None:
        """Wake a thread in the journal without a notification, as by a process that dies before it."""
        now = self.clock.now()
        run = Run(id=new_id("run"), thread_id=name, agent="agt_x", created_at=now)
        event = InboxEvent(thread_id=name, event_id=new_id("msg"), type="message", content={}, created_at=now)
        queued = EventDraft("run.queued", {})
        answer = await self.store.commit(
            PostMessage(token=new_id("unit"), at=now, event=event, run=run, queued=queued)
        )
        assert isinstance(answer, Committed)

    async def send(self, name: str) -> None:
        await self.post(name)
        self.motor.wake(name)

    async def drain(
        self, thread_id: str, *, alone: bool = False, suspects: int = 1, node: str | None = None
    ) -> Verdict:
        wake = await self.store.wake(thread_id)
        if wake is None or wake.due > self.clock.now():  # a motor may drain a thread once too often
            return "done"
        await self.during(thread_id)
        await self.before_leaving(thread_id)
        due = self.due_later.pop(thread_id, None)
        leave = Leave(
            token=new_id("unit"),
            at=self.clock.now(),
            thread_id=thread_id,
            leaving=Leaving(gen=wake.gen, due=due),
        )
        answer = await self.store.commit(leave)
        self.drained.append(thread_id)
        self.changed.set()
        return "done" if isinstance(answer, Committed) and answer.left else "again"

    def nudge(self, thread_id: str) -> None:
        self.nudged.append(thread_id)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Run the motor until the condition holds."""
        async with asyncio.timeout(20):
            while not condition():
                if isinstance(self.motor, ManualMotor):
                    if not await self.motor.run_until_idle() and not condition():
                        await self.motor.run_timers()
                else:
                    await self.changed.wait()
                    self.changed.clear()

    async def until_more_than(self, count: int) -> None:
        """Run the motor until there were more drains than that."""
        await self.until(lambda: len(self.drained) > count)

    async def idle(self) -> None:
        """Check that nothing is due any more."""
        while True:
            if await self.store.due(self.clock.now() + timedelta(days=1), 1):
                await self.until_more_than(len(self.drained))
            elif self.leases is not None and await self.leases.leased():
                await asyncio.sleep(0.01)  # the motor releases drained threads in its next iteration
            else:
                return


@asynccontextmanager
async def embedded(
    store: Store | None = None,
    *,
    concurrency: int = 100,
    sweep: float = 0.02,
    outage: Outage | None = None,
) -> AsyncGenerator[Rig]:
    clock = SystemClock()
    store = store or MemoryStore(lambda _: None)
    motor = EmbeddedMotor(
        store,
        clock,
        NoLock(),
        concurrency=concurrency,
        sweep=sweep,
        outage=outage,
    )
    rig = Rig(store, motor, clock)
    await motor.start(rig.drain, rig.nudge)
    try:
        yield rig
    finally:
        await motor.stop(0.0)


@asynccontextmanager
async def manual(store: Store | None = None) -> AsyncGenerator[Rig]:
    clock = ManualClock()
    store = store or MemoryStore(lambda _: None)
    rig = Rig(store, ManualMotor(store, clock), clock)
    await rig.motor.start(rig.drain, rig.nudge)
    yield rig
    await rig.motor.stop(0.0)


@asynccontextmanager
async def leased(
    url: str,
    *,
    concurrency: int = 100,
    sweep: float = 0.02,
    ttl: float = 5.0,
    bus: ClusterBus | None = None,
    connections: int = 20,
) -> AsyncGenerator[Rig]:
    """A node of a cluster on a Postgres database, with notifications from the others if it has a bus."""
    store = await open_postgres(url, lambda _: None, connections=connections)
    clock = ClusterClock()
    leases = PostgresLeases(url, ttl=ttl, slots=concurrency, clock_moved=clock.moved)
    tell = None if bus is None else bus.wake
    motor = LeaseMotor(store, clock, leases, concurrency=concurrency, sweep=sweep, tell=tell)
    if bus is not None:
        bus.woken = motor.woken_elsewhere
    rig = Rig(store, motor, clock, leases=leases)
    await motor.start(rig.drain, rig.nudge)
    try:
        yield rig
    finally:
        await motor.stop(0.0)
        await store.close()


@asynccontextmanager
async def by_restate() -> AsyncGenerator[Rig]:
    """The motor of `examples/engines`, on a separate Restate server."""
    from examples.engines.restate_motor import RestateMotor  # noqa: PLC0415 - the same

    folder, clock = Path(tempfile.mkdtemp(prefix="restate-")), SystemClock()
    ingress, admin, fabric, own = free_ports(4)
    settings = _restate_settings(folder, ingress, admin, fabric)
    server = await asyncio.create_subprocess_exec(
        restate_program(), "--no-logo", env=settings, stdout=DEVNULL, stderr=DEVNULL
    )
    store = MemoryStore(lambda _: None)
    motor = RestateMotor(store, clock, ingress=f"http://127.0.0.1:{ingress}", sweep=0.02)
    rig = Rig(store, motor, clock, most=300)
    serving = uvicorn.Server(
        uvicorn.Config(motor.app, host="127.0.0.1", port=own, log_level="warning", lifespan="off")
    )
    task = asyncio.create_task(serving.serve())
    try:
        async with (
            asyncio.timeout(60),
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{admin}", trust_env=False) as http,
        ):
            await _registered(http, f"http://127.0.0.1:{own}")
        await motor.start(rig.drain, rig.nudge)
        yield rig
    finally:
        await motor.stop(0.0)
        serving.should_exit = True
        await task
        server.kill()
        await server.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def _registered(http: httpx2.AsyncClient, app: str) -> None:
    """Wait for the server, and register the URL of the motor's app."""
    while True:
        with suppress(httpx2.TransportError):
            if (await http.get("/health")).is_success:
                answer = await http.post("/deployments", json={"uri": app, "use_http_11": True})
                assert answer.is_success, answer.text
                return
        await asyncio.sleep(0.05)


def restate_program() -> str:
    """Return the Restate server that `make test-rest` has installed."""
    package = Path(sys.prefix) / "engines/node_modules/@restatedev/restate-server-linux-x64"
    if not package.exists():
        missing("There is no Restate server: `make .venv/.engines` brings it.")
    return str(package / "bin/restate-server")


def _restate_settings(folder: Path, ingress: int, admin: int, fabric: int) -> dict[str, str]:
    """Return its environment: only this machine, and no telemetry."""
    here = "127.0.0.1"
    return {
        "DO_NOT_TRACK": "1",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BASE_DIR": str(folder),
        "RESTATE_BIND_ADDRESS": f"{here}:{fabric}",
        "RESTATE_ADVERTISED_HOST": here,
        "RESTATE_INGRESS__BIND_ADDRESS": f"{here}:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"{here}:{admin}",
        "RESTATE_ADMIN__DISABLE_WEB_UI": "true",
        "RESTATE_DEFAULT_NUM_PARTITIONS": "2",
        "RESTATE_LOG_FILTER": "warn",
    }


def free_ports(count: int) -> list[int]:
    """Return ports of this machine on which nothing listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class NatsServer:
    """A real NATS server, which can be killed and restarted on the same port."""

    def __init__(self, *options: str) -> None:
        self._options = options
        [self._port] = free_ports(1)
        self.url = f"nats://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        program = str(Path(sys.executable).with_name("nats-server"))
        self._process = subprocess.Popen(
            [program, "-a", "127.0.0.1", "-p", str(self._port), *self._options], stderr=subprocess.DEVNULL
        )

        deadline = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
            return True
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@asynccontextmanager
async def bus_of(url: str, cluster: str, *, works: bool) -> AsyncGenerator[ClusterBus]:
    """Yield the bus of a process in that cluster."""
    relay = PostgresRelay(url) if cluster == "postgres" else NatsRelay([cluster], urlsplit(url).path)
    bus = ClusterBus(relay, works=works)
    await bus.start()
    try:
        yield bus
    finally:
        await bus.close()
