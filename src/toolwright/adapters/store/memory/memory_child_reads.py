"""What is read of families of threads in memory."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.env.request import VariablesRequest
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread


class MemoryChildren:
    """The `ChildReads` port on dictionaries."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def lineage(self, thread_id: str) -> Sequence[Thread]:
        return [row.value() for row in self._tables.lineage(thread_id)]

    async def children(self, thread_id: str, *, limit: int = 1000, offset: int = 0) -> Sequence[Thread]:
        return [row.value() for row in self._tables.children(thread_id)[offset : offset + limit]]

    async def living(self, thread_id: str) -> Mapping[str, int]:
        return Counter([row.born.agent for row in self._tables.children(thread_id) if not row.is_over])

    async def awaited(self, thread_id: str, call_id: str) -> bool:
        rows = self._tables.children(thread_id)
        return any(row.report == call_id and row.run_id is not None for row in rows)

    async def nested(self, call_id: str) -> Sequence[Call]:
        found = [call for call in self._tables.calls.values() if call.parent_id == call_id]
        return sorted(found, key=lambda call: (call.step, call.position))

    async def within(self, call_id: str) -> Sequence[Message]:
        parent = self._tables.calls.get(call_id)
        said = [] if parent is None else self._tables.threads[parent.thread_id].messages
        return [message for message in said if message.within == call_id]

    async def request(self, request_id: str) -> VariablesRequest | None:
        return self._tables.requests.get(request_id)

    async def requests(self, thread_id: str) -> Sequence[VariablesRequest]:
        found = [each for each in self._tables.requests.values() if each.thread_id == thread_id]
        return sorted(found, key=lambda each: (each.created_at, each.id))

    async def expired(self, at: datetime, limit: int) -> Sequence[VariablesRequest]:
        timed = [(each.expires_at, each) for each in self._tables.requests.values() if each.expires_at]
        over = [(until, each) for until, each in timed if until <= at]
        return [each for _, each in sorted(over, key=lambda one: (one[0], one[1].id))[:limit]]

    async def asked(self) -> Sequence[str]:
        return sorted({each.name for request in self._parked() for each in request.required})

    async def askers(self, name: str) -> Sequence[str]:
        asking = [each for each in self._parked() if name in {one.name for one in each.required}]
        return sorted({each.thread_id for each in asking})

    def _parked(self) -> list[VariablesRequest]:
        return [each for each in self._tables.requests.values() if each.kind == "run"]

    async def value(self, thread_id: str, key: str) -> str | None:
        return self._tables.values.get((thread_id, key))
