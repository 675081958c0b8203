"""Gauges of pending work in the journal, measured regularly if telemetry is enabled."""

import asyncio
import logging
from datetime import datetime

from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError
from toolwright.core.journal.store import Store
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.ports import Clock

log = logger("toolwright.runtime")

INTERVAL = 5.0  # minimum seconds between two measurements


class Gauges:
    """Reports numbers to telemetry: pending calls, inbox events and their age, runs, connections in use, nodes."""

    def __init__(self, store: Store, telemetry: Telemetry, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
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
        """Measure once. Raises `StoreError`."""
        depths = await self._store.depths()
        self._telemetry.gauge("pending_calls", depths.pending_calls)
        self._telemetry.gauge("inbox_events", depths.inbox_events)
        self._telemetry.gauge("inbox_oldest_seconds", seconds_since(depths.oldest_event, self._clock.now()))
        self._telemetry.gauge("runs_queued", depths.queued_runs)
        self._telemetry.gauge("runs_active", depths.active_runs)
        self._telemetry.gauge("runs_waiting", depths.waiting_runs)
        if depths.connections is not None:
            used, limit = depths.connections
            self._telemetry.gauge("database_connections_used", used)
            self._telemetry.gauge("database_connections_limit", limit)
        now = self._clock.now()
        nodes = [each for each in await self._store.nodes() if each.is_alive(now)]
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
