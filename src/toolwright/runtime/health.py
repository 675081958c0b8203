"""Whether the journal can be written, found out by writing."""

import asyncio

from toolwright.core.errors import StoreError
from toolwright.core.ports import Clock, NewId, Store
from toolwright.core.units import Committed, Conflict, Probe

PATIENCE = 3.0  # seconds


class Health:
    """Asks the journal to commit a row that means nothing, one at a time."""

    def __init__(self, store: Store, clock: Clock, new_id: NewId) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._probe: asyncio.Task[Committed | Conflict] | None = None

    async def check(self) -> None:
        """Raises `StoreError` if the journal cannot be written, or does not answer in time."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._commit(), name="health")
            self._probe.add_done_callback(_seen)
        done, _ = await asyncio.wait([self._probe], timeout=PATIENCE)
        if not done:
            raise StoreError(f"The journal has not answered for {PATIENCE:.0f} s.")
        await self._probe

    async def _commit(self) -> Committed | Conflict:
        return await self._store.commit(Probe(token=self._new_id("unit"), at=self._clock.now()))


def _seen(probe: "asyncio.Task[Committed | Conflict]") -> None:
    """Its fault is known, though whoever asked may have lost patience."""
    if not probe.cancelled():
        probe.exception()
