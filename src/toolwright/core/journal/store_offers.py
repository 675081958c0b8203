"""What is read of calls that outside workers may claim: a part of the `Store` port."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from toolwright.core.threads.call import Call
from toolwright.core.value import value


@value
class Offer:
    """An open call of the kind `external` that anyone may claim, and the id of the agent that made it."""

    call: Call
    agent: str


class OfferReads(Protocol):
    """Calls on offer. Raises `StoreError` when the journal cannot be read."""

    async def begun(
        self,
        at: datetime,
        *,
        after: tuple[datetime, str],
        before: datetime,
        names: Sequence[str] | None = None,
        limit: int = 100,
    ) -> Sequence[Offer]:
        """Calls on offer at `at`, in the order in which they began and, within an instant, of their ids.

        They are behind `after` in that order and began before `before`; with `names` only those tools' calls.
        """
        ...

    async def lapsed(self, at: datetime, *, since: datetime, limit: int = 100) -> Sequence[Offer]:
        """Calls on offer at `at` again, whose lease was over at `since` or later: the longest free first."""
        ...
