"""The journal in memory: the `Store` port on dictionaries, for tests and for runs that need not be durable.

Values are stored without copying: changing a list or dict inside a stored value changes the journal.
"""

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from operator import attrgetter
from typing import TypeVar

from toolwright.adapters.store.engine.outcome import NO_EVENTS, Publish
from toolwright.adapters.store.memory.reads import (
    MemoryAgents,
    MemoryChildren,
    MemoryOffers,
    MemoryRetention,
    MemorySpaces,
)
from toolwright.adapters.store.memory.rows import MemoryRows
from toolwright.adapters.store.memory.units import advance, apply
from toolwright.core.env.env import EnvRow
from toolwright.core.errors import StoreError
from toolwright.core.journal.reads import BY_TIME, Depths, McpReads, RecordReads, SessionReads
from toolwright.core.journal.rows import GuardFailed, OneOf
from toolwright.core.journal.store import CallScope, CallVisibility, KnownMessages, Store, ThreadView
from toolwright.core.journal.units import Advance, Committed, Conflict, Unit
from toolwright.core.limits import ALL_ROWS
from toolwright.core.spaces import Entity, Member, SpaceMessage
from toolwright.core.threads.call import OPEN, Call, CallStatus
from toolwright.core.threads.compaction import Compaction, in_force, messages_in_view
from toolwright.core.threads.event import Event, RunEvents, Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread, Wake
from toolwright.core.value import key_of
from toolwright.wire.call import call_message_id

T = TypeVar("T")


_LAST = attrgetter("last")


class MemoryStore(Store):
    """The `Store` port in memory. A commit never awaits, so commits cannot interleave."""

    def __init__(self, publish: Publish) -> None:
        self._tables = rows = MemoryRows()
        super().__init__(rows)
        self._publish = publish
        self._closed = False
        self.spaces = MemorySpaces(self._tables)
        self.agents = MemoryAgents(self._tables)
        self.sessions = SessionReads(self._tables)
        self.records = RecordReads(self._tables)
        self.mcp = McpReads(self._tables)
        self.retention = MemoryRetention(self._tables)
        self.offers = MemoryOffers(self._tables)
        self.children = MemoryChildren(self._tables)

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if self._closed:
            raise StoreError("The journal is closed.")
        rows = self._tables
        rows.log.clear()
        try:
            written = advance(unit, rows) if isinstance(unit, Advance) else apply(unit, rows)
        except GuardFailed as failed:
            rows.undo()
            return Conflict(guard=failed.guard)
        except BaseException:  # also for an interrupt, which would leave half a unit
            rows.undo()
            raise
        if written.events is not NO_EVENTS:
            self._publish(written.events)
        return written.answer

    async def view(self, thread_id: str, known: KnownMessages | None = None) -> ThreadView | None:
        thread = self._tables.of(Thread).get(thread_id)
        if thread is None:
            return None
        run = None if thread.run_id is None else self._tables.of(Run).get(thread.run_id)
        compactions = in_force(self._compactions(thread_id, "")) if thread.compacted else ()
        opened = self._open_inbox(thread_id)
        return ThreadView(
            thread=thread,
            run=run,
            messages=tuple(messages_in_view(self._said(thread_id), compactions, thread.cut, thread.run_id)),
            calls=() if run is None else self._step_calls(run.id, run.step_count),
            inbox=tuple([event for event in opened if event.status == "pending"]),
            wake=self._tables.of(Wake).get(thread_id),
            env=tuple(self._env(thread)),
            reading=tuple([event for event in opened if event.status == "processing"]),
            compactions=compactions,
        )

    def _said(self, thread_id: str) -> list[Message]:
        return self._tables.of(Message).of("thread_id", thread_id)

    def _open_inbox(self, thread_id: str) -> list[InboxEvent]:
        return sorted(self._tables.of(InboxEvent).of("open_in", thread_id), key=lambda event: event.n or 0)

    def _compactions(self, thread_id: str, within: str | None) -> list[Compaction]:
        rows = self._tables.of(Compaction).of("thread_id", thread_id)
        return sorted([row for row in rows if within in (None, row.within)], key=lambda row: row.number)

    def _env(self, thread: Thread) -> list[EnvRow]:
        env = self._tables.of(EnvRow)
        if not env.rows:
            return []
        owners = [thread.id, *[each.id for each in self._tables.lineage(thread.id)]]
        if thread.user_id is not None:
            people = self._tables.of(Entity)
            person = people.get(thread.user_id) or self._by_external_id(thread.user_id)
            owners += [] if person is None else [person.id]
        rows = [row for owner in {*owners} for row in env.of("owner", owner)]
        return sorted(rows, key=key_of)

    def _by_external_id(self, external_id: str) -> Entity | None:
        rows = self._tables.of(Entity).select({"external_id": external_id})
        return rows[0][1] if rows else None

    async def compactions(
        self, thread_id: str, within: str | None = None, limit: int = ALL_ROWS, offset: int = 0
    ) -> Sequence[Compaction]:
        rows = self._compactions(thread_id, within)
        return rows[offset : offset + limit] if within is None else in_force(rows)

    async def env(self, thread_id: str) -> Sequence[EnvRow]:
        thread = await self.thread(thread_id)
        return [] if thread is None else self._env(thread)

    async def now(self) -> datetime:
        return datetime.now(UTC)

    def _step_calls(self, run_id: str, step: int) -> tuple[Call, ...]:
        calls = [call for call in self._tables.of(Call).of("run_id", run_id) if call.step == step]
        return tuple(sorted([c for c in calls if c.parent_id is None], key=lambda call: call.position))

    async def run_messages(self, run_id: str, limit: int = ALL_ROWS) -> Sequence[Message]:
        run = self._tables.of(Run).get(run_id)
        messages = [] if run is None else self._said(run.thread_id)
        return [message for message in messages if message.run_id == run_id][:limit]

    async def call_scope(self, call_id: str) -> CallScope | None:
        call = await self.call(call_id)
        if call is None:
            return None
        thread, run = await self.thread(call.thread_id), await self.run(call.run_id)
        return CallScope(call=call, thread=thread, run=run, env=tuple(await self.env(call.thread_id)))

    async def calls(
        self,
        *,
        status: Sequence[CallStatus] | None = None,
        run_id: str | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        sees: CallVisibility | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Call]:
        conditions = {"run_id": run_id, "agent": agent, "space_id": space_id}
        where: dict[str, object] = {name: each for name, each in conditions.items() if each is not None}
        if status:
            where["status"] = OneOf(values=status)
        rows = await self.rows.find(Call, where, BY_TIME)
        return _page([call for call in rows if sees is None or self._sees(sees, call)], limit, offset)

    def _sees(self, sees: CallVisibility, call: Call) -> bool:
        if self._tables.of(Thread).rows[call.thread_id,].user_id in sees.users:
            return True
        shows = (call_message_id(call.id),)
        is_in_space = call.visible and shows in self._tables.of(SpaceMessage).rows
        return is_in_space and (call.space_id, sees.entity_id) in self._tables.of(Member).rows

    async def events(
        self, topic: Topic, after: int = 0, limit: int = 500, offset: int = 0
    ) -> Sequence[Event]:
        return _page((event for event in self._events(topic, after) if _number(event) > after), limit, offset)

    async def bounds(self, topic: Topic) -> tuple[int, int]:
        if topic.kind in ("space", "spaces"):
            numbers = [_number(event) for event in self._events_after(topic)]
            return (numbers[0], numbers[-1]) if numbers else (0, 0)
        units = self._units(topic)
        return (units[0].first, units[-1].last) if units else (0, 0)

    def _events(self, topic: Topic, after: int) -> Iterator[Event]:
        """Return the events of the topic in order, including all with a number above `after`."""
        if topic.kind in ("space", "spaces"):
            return self._events_after(topic, after)
        return chain.from_iterable(self._units(topic, after))

    def _events_after(self, topic: Topic, after: int = 0) -> Iterator[Event]:
        events = self._tables.space_events
        later = islice(events, bisect_right(events, after, key=_number), None)
        return (event for event in later if topic.kind == "spaces" or event.space_id == topic.id)

    def _units(self, topic: Topic, after: int = 0) -> list[RunEvents]:
        """Return the events of a thread or a run, by unit of work. Units that end at or before `after` are left out."""
        run = self._tables.of(Run).get(topic.id) if topic.kind == "run" else None
        events = self._tables.events.get(topic.id if run is None else run.thread_id, [])
        later = events[bisect_right(events, after, key=_LAST) :]
        return later if run is None else [unit for unit in later if unit.run_id == run.id]

    async def due(self, now: datetime, limit: int) -> Sequence[Wake]:
        ripe = [wake for wake in self._tables.of(Wake).rows.values() if wake.due <= now]
        return heapq.nsmallest(limit, ripe, key=lambda wake: (wake.due, wake.thread_id))

    async def next_due(self, after: datetime) -> datetime | None:
        return min(
            (wake.due for wake in self._tables.of(Wake).rows.values() if wake.due > after), default=None
        )

    async def depths(self) -> Depths:
        statuses = Counter(run.status for run in self._tables.of(Run).rows.values())
        inbox = self._tables.of(InboxEvent).rows.values()
        unread = [event.created_at for event in inbox if event.status == "pending"]
        return Depths(
            pending_calls=sum(call.status in OPEN for call in self._tables.of(Call).rows.values()),
            inbox_events=len(unread),
            oldest_event=min(unread, default=None),
            queued_runs=statuses["queued"],
            active_runs=statuses["running"],
            waiting_runs=statuses["waiting"],
            oldest_wake=min((wake.due for wake in self._tables.of(Wake).rows.values()), default=None),
        )

    async def shrink(self) -> bool:
        return False

    def reopen(self) -> None:
        """Reopen a closed journal with its contents."""
        self._closed = False

    async def close(self) -> None:
        self._closed = True


def _number(event: Event) -> int:
    return event.n or 0


def _page(rows: Iterable[T], limit: int, offset: int) -> list[T]:
    return list(islice(rows, offset, offset + limit))
