"""What is read of calls on offer in memory."""

from collections.abc import Sequence
from datetime import datetime

from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.journal.store_offers import Offer
from toolwright.core.threads.call import OPEN, Call


class MemoryOffers:
    """The `OfferReads` port on the tables in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def begun(
        self,
        at: datetime,
        *,
        after: tuple[datetime, str],
        before: datetime,
        names: Sequence[str] | None = None,
        limit: int = 100,
    ) -> Sequence[Offer]:
        found = [
            (call.started_at, call.id, call)
            for call in self._tables.calls.values()
            if call.started_at is not None
            and after < (call.started_at, call.id)
            and call.started_at < before
            and (not names or call.name in names)
            and self._free(call, at)
        ]
        found.sort(key=lambda each: each[:2])
        return [self._offer(call) for _, _, call in found[:limit]]

    async def lapsed(self, at: datetime, *, since: datetime, limit: int = 100) -> Sequence[Offer]:
        found = [
            (call.leased_until, call)
            for call in self._tables.calls.values()
            if call.leased_until is not None and since <= call.leased_until and self._free(call, at)
        ]
        found.sort(key=lambda each: each[0])
        return [self._offer(call) for _, call in found[:limit]]

    def _free(self, call: Call, at: datetime) -> bool:
        return call.kind == "external" and call.status in OPEN and call.free_for("", at)

    def _offer(self, call: Call) -> Offer:
        return Offer(call=call, agent=self._tables.runs[call.run_id].agent)
