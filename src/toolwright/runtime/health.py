"""Health of the journal: whether it and the files can be written, and gauges of the pending work in it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import datetime
from typing import TypeAlias, get_args

from toolwright.core.concurrency import start_task
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError
from toolwright.core.journal.store import Store
from toolwright.core.journal.telemetry import Gauge, Telemetry
from toolwright.core.journal.units import Probe
from toolwright.core.ports import Clock, FileStore, NewId
from toolwright.runtime.carried import Carried

PATIENCE = 3.0  # seconds
FRESH = 1.0  # seconds for which a result is shared by all callers
# Seconds between two checks for a process that executes runs.
SELDOM = 5.0
STOPPING = "This process is stopping."

Trial: TypeAlias = Callable[[], Coroutine[None, None, None]]
INTERVAL = 5.0  # minimum seconds between two measurements


class Health(Carried):
    """Checks the journal with an empty commit, and the files by storing bytes temporarily.

    Callers during a check, or within a second after it, get the same result: many callers cause one write.
    """

    def __init__(
        self,
        store: Store,
        files: FileStore,
        clock: Clock,
        new_id: NewId,
        *,
        unready: Callable[[], str | None] = lambda: None,
        look_for_worker: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        self._unready = unready
        self._stopping = False
        self._idle: str | None = None

        async def journal() -> None:
            await store.commit(Probe(token=new_id("unit"), at=clock.now()))

        async def worker() -> None:
            self._idle = None if look_for_worker is None else await look_for_worker()

        self._journal = _Shared("The journal", journal, clock)
        self._files = _Shared("The file store", files.probe, clock)
        self._worker = None if look_for_worker is None else _Shared("The journal", worker, clock, SELDOM)

    async def check(self) -> None:
        """Raise `StoreError` if either of them cannot be written, or does not answer in time."""
        errors = [
            error for error in await asyncio.gather(*map(_fault, (self._journal, self._files))) if error
        ]
        if errors:
            raise StoreError(" ".join(errors))

    async def check_ready(self) -> None:
        """Raise `StoreError` also if this process stops, or is a node of a cluster that executes no runs.

        Requests are then sent to other processes.
        """
        if self._stopping:
            raise StoreError(STOPPING)
        await self.check()
        reason = self._unready()
        if reason is not None:
            raise StoreError(reason)

    def stop(self) -> None:
        """Report from now on that this process is not ready, because it stops."""
        self._stopping = True

    async def warning(self) -> str | None:
        """Return a warning if no living process executes runs, or None. Requests are served nevertheless."""
        if self._worker is None:
            return None
        with suppress(StoreError):
            await self._worker.outcome()
        return self._idle


class _Shared:
    """Runs one check at a time and shares its result among all callers."""

    def __init__(self, subject: str, trial: Trial, clock: Clock, fresh: float = FRESH) -> None:
        self._fresh = fresh
        self._subject = subject
        self._trial = trial
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._until = 0.0  # when its result expires; only set once it has one

    async def outcome(self) -> None:
        """Run or join the check. Raises `StoreError`."""
        if self._task is None or (self._task.done() and self._clock.monotonic() >= self._until):
            self._task = start_task(self._trial(), "health")
            self._task.add_done_callback(self._end)
        done, _ = await asyncio.wait([self._task], timeout=PATIENCE)
        if not done:
            raise StoreError(f"{self._subject} did not answer for {PATIENCE:.0f} s.")
        await self._task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._until = self._clock.monotonic() + self._fresh
        if not task.cancelled():
            task.exception()  # retrieved, although the caller can have stopped waiting


async def _fault(shared: _Shared) -> str | None:
    try:
        await shared.outcome()
    except StoreError as error:
        return error.message
    return None


log = logger("toolwright.runtime")


class Gauges:
    """Reports numbers to telemetry: readiness, pending calls, inbox events and their age, runs, connections, nodes."""

    def __init__(
        self, store: Store, telemetry: Telemetry, clock: Clock, check_ready: Callable[[], Awaitable[None]]
    ) -> None:
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._check_ready = check_ready
        self._in_cluster = False

    async def run(self) -> None:
        """Measure repeatedly, without end."""
        away = False
        while True:
            try:
                await self.measure()
                away = False
            except StoreError as error:
                level, away = logging.DEBUG if away else logging.WARNING, True
                log.log(level, "Pending work in the journal cannot be counted: %s", error)
            await asyncio.sleep(INTERVAL)  # real time, independent of a test's clock

    async def measure(self) -> None:
        """Measure once. Raises `StoreError` if the journal cannot be read: then the gauges have no samples."""
        try:
            await self._check_ready()
        except StoreError:
            self._telemetry.gauge("ready", 0)
        else:
            self._telemetry.gauge("ready", 1)
        try:
            await self._count()
        except StoreError:
            for name in get_args(Gauge):
                if name != "ready":
                    self._telemetry.gauge(name, None)
            raise

    async def _count(self) -> None:
        depths = await self._store.depths()
        nodes = await self._store.nodes()
        now = self._clock.now()
        self._telemetry.gauge("pending_calls", depths.pending_calls)
        self._telemetry.gauge("inbox_events", depths.inbox_events)
        self._telemetry.gauge("inbox_oldest_seconds", seconds_since(depths.oldest_event, now))
        self._telemetry.gauge("runs_queued", depths.queued_runs)
        self._telemetry.gauge("runs_active", depths.active_runs)
        self._telemetry.gauge("runs_waiting", depths.waiting_runs)
        if depths.connections is not None:
            used, limit = depths.connections
            self._telemetry.gauge("database_connections_used", used)
            self._telemetry.gauge("database_connections_limit", limit)
        nodes = [each for each in nodes if each.is_alive(now)]
        self._in_cluster = self._in_cluster or bool(nodes)
        if self._in_cluster:
            self._telemetry.gauge("nodes", len(nodes))
            self._telemetry.gauge("node_slots", sum([each.slots for each in nodes]))
            self._telemetry.gauge("node_slots_busy", sum([each.busy for each in nodes]))
            self._telemetry.gauge(
                "node_clock_skew_seconds", max([abs(each.skew) / 1e6 for each in nodes], default=0)
            )
            self._telemetry.gauge("wakes_oldest_due_seconds", seconds_since(depths.oldest_wake, now))


def seconds_since(then: datetime | None, now: datetime) -> float:
    """Return the seconds since then, or 0 for None or a later time."""
    return 0.0 if then is None else max(0.0, (now - then).total_seconds())
