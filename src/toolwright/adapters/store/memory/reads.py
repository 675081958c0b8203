"""Reads of calls that workers can claim, and of signed-out sessions, on the in-memory tables."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.journal.reads import Offer
from toolwright.core.threads.call import OPEN, Call


class MemoryOffers:
    """The `OfferReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def claimable(
        self,
        at: datetime,
        *,
        after: tuple[datetime, str],
        before: datetime,
        names: Sequence[str] | None = None,
        limit: int = 100,
    ) -> Sequence[Offer]:
        rows = [
            (call.started_at, call.id, call)
            for call in self._tables.calls.values()
            if call.started_at is not None
            and after < (call.started_at, call.id)
            and call.started_at < before
            and (not names or call.name in names)
            and self._free(call, at)
        ]
        rows.sort(key=lambda each: each[:2])
        return [self._offer(call) for _, _, call in rows[:limit]]

    async def expired_leases(self, at: datetime, *, since: datetime, limit: int = 100) -> Sequence[Offer]:
        rows = [
            (call.leased_until, call)
            for call in self._tables.calls.values()
            if call.leased_until is not None and since <= call.leased_until and self._free(call, at)
        ]
        rows.sort(key=lambda each: each[0])
        return [self._offer(call) for _, call in rows[:limit]]

    def _free(self, call: Call, at: datetime) -> bool:
        return call.kind == "external" and call.status in OPEN and call.free_for("", at)

    def _offer(self, call: Call) -> Offer:
        run = self._tables.runs[call.run_id]
        return Offer(call=call, agent=run.agent, traceparent=run.traceparent)


class MemorySessions:
    """The `SessionReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def signed_out(self, session: str, caller: str) -> Mapping[str, datetime]:
        ended = self._tables.sign_outs
        return {key: ended[key][0] for key in (session, caller) if key in ended}
