"""What waits for one reader of calls on offer."""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta

from toolwright.core.threads.event import Event

BACKLOG = 2_000  # offers that may wait for one reader
MOST_BYTES = 1024 * 1024  # of offers that may wait for one reader, unless it is a single one
OVERLAP = timedelta(seconds=60)
"""How late a call may be seen in the journal after it began, and how far the clocks of processes may differ."""


class Desk:
    """One reader's queue; `tools` names what it takes, None for all.

    The reader looks through the journal for what began before it `opened`, and is told of what begins from then on.
    What began near that instant may come both ways: `meets` says whether it is the first time.
    """

    def __init__(self, tools: frozenset[str] | None, opened: datetime) -> None:
        self.tools = tools
        self._from, self.until = opened - OVERLAP, opened + OVERLAP
        self._met = set[str]()
        self._waiting = deque[Event]()
        self._bytes = 0
        self._came = asyncio.Event()
        self._overrun = asyncio.Event()

    def meets(self, call_id: str, began: datetime) -> bool:
        """Whether the reader has not been told of the call."""
        if not self._from <= began < self.until:
            return True
        if call_id in self._met:
            return False
        self._met.add(call_id)
        return True

    def put(self, event: Event, size: int) -> None:
        """Never blocks: a reader that lags too far is cut off, and finds what is on offer when it comes again."""
        if self._waiting and (len(self._waiting) >= BACKLOG or self._bytes + size > MOST_BYTES):
            self._waiting.clear()
            self._overrun.set()
        self._waiting.append(event)
        self._bytes += size
        self._came.set()

    def take(self) -> Sequence[Event]:
        """What has come."""
        self._came.clear()
        taken = tuple(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return taken

    async def next(self) -> Sequence[Event]:
        """The same, once something has."""
        await self._came.wait()
        return self.take()

    async def overrun(self) -> None:
        """Return once too much has waited."""
        await self._overrun.wait()
