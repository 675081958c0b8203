"""Housekeeping: old rows are deleted or renewed, in small batches, by the process that drives the journal."""

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.errors import ToolwrightError
from toolwright.core.journal.retention import DropThread, Prune
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import CancelOrphans, Committed
from toolwright.core.ports import Clock, FileStore, Motor, NewId
from toolwright.core.text import quantity
from toolwright.core.value import Value
from toolwright.runtime.children.requests import drop_expired
from toolwright.runtime.env import Keys
from toolwright.runtime.threads.deletion import Deletion

if TYPE_CHECKING:
    from toolwright.runtime.agents.semantics import Semantics  # not loaded by most apps

log = logging.getLogger("toolwright.runtime")

EVENTS_KEPT = timedelta(days=7)
TOKENS_KEPT = timedelta(days=7)  # much longer than any retry of a lost commit
LEFTOVERS_KEPT = timedelta(days=1)  # much longer than any write of one file
INTERVAL = 3600.0  # seconds
BATCH = 500


class RetentionPeriods(Value):
    """Retention periods of events and of idle threads; None keeps them without end."""

    events: timedelta | None = EVENTS_KEPT
    runs: timedelta | None = None


class Housekeeper:
    """Deletes rows older than their retention period. A follower that resumes from a deleted event gets `reset`.

    - Events are deleted, except those of threads with an open run.
    - Threads are deleted with all their data once their last run ended long enough ago and nothing in them is waited
      for; home threads of agents are kept.
    - Rows and bytes of files that earlier deletions have left are deleted.
    - Expired requests for variables are deleted with the values already provided for them.
    - Calls that an older version left pending when it deleted their agent are cancelled, once.
    - Secrets encrypted with an older key are encrypted with the newest one.
    - Partial files of killed processes are deleted after a day without writes.
    - Passages that are missing a vector get one.

    Each sweep logs one line with the numbers of deleted rows. Then the database releases free space, in pieces.
    """

    def __init__(
        self,
        store: Store,
        motor: Motor,
        keys: Keys,
        files: FileStore,
        clock: Clock,
        new_id: NewId,
        deletion: Deletion,
        kept: RetentionPeriods | None = None,
        semantics: "Semantics | None" = None,
    ) -> None:
        self._store = store
        self._motor = motor
        self._keys = keys
        self._files = files
        self._clock = clock
        self._new_id = new_id
        self._deletion = deletion
        self._periods = kept or RetentionPeriods()
        self._semantics = semantics

    async def run(self) -> None:
        """Run retention now and every hour. Secrets are re-encrypted with the newest key at each start."""
        orphans = True  # as long as there can be some
        has_begun = False
        while True:
            if await self._motor.on_duty("housekeeping", INTERVAL):
                try:
                    await self.sweep()
                    if orphans:
                        await self.cancel_orphans()
                        orphans = False
                    await drop_expired(self._store, self._clock, self._new_id)
                    await self._keys.renew()
                    await self._files.tidy(self._clock.now() - LEFTOVERS_KEPT)
                    if self._semantics is not None:
                        await self._semantics.fill()
                except ToolwrightError as error:
                    log.warning("Retention failed and is retried: %s", error)
            elif not has_begun:
                await self._renew()
            has_begun = True
            await asyncio.sleep(INTERVAL)  # real time, independent of a test's clock

    async def _renew(self) -> None:
        """Encrypt secrets with the newest key, even if another process does the housekeeping: its key can be older."""
        try:
            if self._motor.driving:
                await self._keys.renew()
        except ToolwrightError as error:
            log.warning("Secrets could not be encrypted with the newest key: %s", error)

    async def cancel_orphans(self) -> int:
        """Cancel the pending calls of agents that an older version deleted. Return the number of threads."""
        total = 0
        while orphans := await self._store.agents.orphans():
            unit = CancelOrphans(token=self._new_id("unit"), at=self._clock.now(), thread_ids=tuple(orphans))
            answer = await self._store.commit(unit)
            if not isinstance(answer, Committed) or not answer.count:
                break
            total += answer.count
        return total

    async def sweep(self) -> None:
        """Delete expired rows and files, and log the numbers."""
        counts = {
            "old event": await self.tidy(),
            "thread": await self.retire(),
            "row": await self._deletion.sweep(),
            "file": await self._deletion.remove_bytes(),
        }
        while await self._store.shrink():
            pass  # other units commit between two pieces
        if any(counts.values()):
            log.info(
                "Retention deleted %s, %s, %s of deleted threads and %s.",
                *[quantity(count, noun) for noun, count in counts.items()],
            )

    async def tidy(self) -> int:
        """Delete old events and commit tokens. Return the number of rows."""
        total, kept = 0, self._periods.events
        while True:
            now = self._clock.now()
            unit = Prune(
                token=self._new_id("unit"),
                at=now,
                before=None if kept is None else now - kept,
                tokens_before=now - TOKENS_KEPT,
                limit=BATCH,
            )
            answer = await self._store.commit(unit)
            count = answer.count if isinstance(answer, Committed) else 0
            total += count
            if count < BATCH:
                return total

    async def retire(self) -> int:
        """Delete threads whose last run ended long ago. Return their number, including child threads."""
        if self._periods.runs is None:
            return 0
        total, after = 0, ""
        before = self._clock.now() - self._periods.runs
        while page := await self._store.retention.idle(before, after, BATCH):
            after = page[-1].id
            for thread in page:
                if thread.id == home_thread_id_of(thread.agent):
                    continue
                unit = DropThread(
                    token=self._new_id("unit"),
                    at=self._clock.now(),
                    thread_id=thread.id,
                    idle_since=before,
                )
                # a conflict means that it is running again, or waited for
                answer = await self._store.commit(unit)
                total += answer.count if isinstance(answer, Committed) else 0
        return total
