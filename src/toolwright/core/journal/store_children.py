"""What the runtime reads of the journal about families of threads, and of what lies below a call."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from toolwright.core.env.request import VariablesRequest
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread


class ChildReads(Protocol):
    """Readings about children and parents. Raises `StoreError` when the journal cannot be read."""

    async def lineage(self, thread_id: str) -> Sequence[Thread]:
        """The threads above that one, the nearest first."""
        ...

    async def children(self, thread_id: str, *, limit: int = 1000, offset: int = 0) -> Sequence[Thread]:
        """The threads that it has made, the oldest first."""
        ...

    async def living(self, thread_id: str) -> Mapping[str, int]:
        """How many of them are not terminated, by agent."""
        ...

    async def awaited(self, thread_id: str, call_id: str) -> bool:
        """Whether one of them is at work whose end is the end of that call."""
        ...

    async def nested(self, call_id: str) -> Sequence[Call]:
        """The calls that this call has made, in order."""
        ...

    async def within(self, call_id: str) -> Sequence[Message]:
        """What was said and called within this call of a prompt tool, in order."""
        ...

    async def request(self, request_id: str) -> VariablesRequest | None:
        """A request that is still open."""
        ...

    async def requests(self, thread_id: str) -> Sequence[VariablesRequest]:
        """The open requests of a thread, the oldest first."""
        ...

    async def expired(self, at: datetime, limit: int) -> Sequence[VariablesRequest]:
        """Requests whose time is over at that instant, those that ended first before others."""
        ...

    async def asked(self) -> Sequence[str]:
        """The names of values that parked runs wait for."""
        ...

    async def askers(self, name: str) -> Sequence[str]:
        """The ids of the threads whose runs wait for a value of that name."""
        ...

    async def value(self, thread_id: str, key: str) -> str | None:
        """A value of the thread's own, as JSON text."""
        ...
