"""Housekeeping: old rows are deleted or renewed, in small batches, by the process that drives the journal."""

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from toolwright.core.errors import ToolwrightError
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import CancelOrphans, Committed, Prune
from toolwright.core.ports import Clock, Files, Motor, NewId
from toolwright.runtime.children.requests import drop_expired
from toolwright.runtime.env.redaction import Keys

if TYPE_CHECKING:
    from toolwright.runtime.agents.semantics import Semantics  # which most apps never load

log = logging.getLogger("toolwright.runtime")

EVENTS_KEPT = timedelta(days=7)
LEFTOVERS_KEPT = timedelta(days=1)  # far longer than anybody writes to one file
INTERVAL = 3600.0  # seconds
BATCH = 500


class Housekeeper:
    """Deletes events that are older than `kept`; a follower that comes back later than that gets a `reset`.

    Requests for values that have expired go with what was given to them in part. Calls that an older version left
    pending when it deleted their agent are cancelled, once.
    Secrets that an older key has sealed are sealed by the newest. What killed processes left half-written among the
    files is taken away when nobody has written to it for a day. Passages that lack a vector get one.
    """

    def __init__(
        self,
        store: Store,
        motor: Motor,
        keys: Keys,
        files: Files,
        clock: Clock,
        new_id: NewId,
        kept: timedelta = EVENTS_KEPT,
        semantics: "Semantics | None" = None,
    ) -> None:
        self._store = store
        self._motor = motor
        self._keys = keys
        self._files = files
        self._clock = clock
        self._new_id = new_id
        self._retention = kept
        self._semantics = semantics

    async def run(self) -> None:
        """Tidy up now and every hour, for ever."""
        orphans = True  # as long as there may be some
        while True:
            if self._motor.driving:
                try:
                    await self.tidy()
                    if orphans:
                        await self.cancel_orphans()
                        orphans = False
                    await drop_expired(self._store, self._clock, self._new_id)
                    await self._keys.renew()
                    await self._files.tidy(self._clock.now() - LEFTOVERS_KEPT)
                    if self._semantics is not None:
                        await self._semantics.fill()
                except ToolwrightError as error:
                    log.warning("What is old could not be tidied up: %s", error)
            await asyncio.sleep(INTERVAL)  # real time: a clock that a test turns shall not turn this

    async def cancel_orphans(self) -> int:
        """Cancel the pending calls of agents that were deleted before deletion did so; in how many threads."""
        total = 0
        while orphans := await self._store.agents.orphans():
            unit = CancelOrphans(token=self._new_id("unit"), at=self._clock.now(), thread_ids=tuple(orphans))
            answer = await self._store.commit(unit)
            if not isinstance(answer, Committed) or not answer.count:
                break
            total += answer.count
        return total

    async def tidy(self) -> int:
        """Delete what is old; how many rows that were."""
        total = 0
        while True:
            unit = Prune(
                token=self._new_id("unit"),
                at=self._clock.now(),
                before=self._clock.now() - self._retention,
                limit=BATCH,
            )
            answer = await self._store.commit(unit)
            count = answer.count if isinstance(answer, Committed) else 0
            total += count
            if count < BATCH:
                return total
