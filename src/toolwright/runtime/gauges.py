"""Gauges of the journal: how much waits there, read now and then where there is telemetry."""

import asyncio
import logging

from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError
from toolwright.core.journal.store import Store
from toolwright.core.journal.telemetry import Telemetry

log = logger("toolwright.runtime")

INTERVAL = 5.0  # seconds between two looks, however often the figures are asked for


class Gauges:
    """Tells the telemetry how many calls are pending, and how many inbox events nobody has read."""

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry

    async def run(self) -> None:
        """Look again and again, for ever."""
        away = False
        while True:
            try:
                await self.look()
                away = False
            except StoreError as error:
                level, away = logging.DEBUG if away else logging.WARNING, True
                log.log(level, "What waits in the journal cannot be counted: %s", error)
            await asyncio.sleep(INTERVAL)  # real time: a clock that a test turns shall not turn this

    async def look(self) -> None:
        """Look once. Raises `StoreError`."""
        depths = await self._store.depths()
        self._telemetry.gauge("pending_calls", depths.pending_calls)
        self._telemetry.gauge("inbox_events", depths.inbox_events)
