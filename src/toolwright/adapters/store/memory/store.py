"""The journal in memory: the `Store` port on dictionaries, for tests and for runs that need not be durable.

Values are stored without copying: changing a list or dict inside a stored value changes the journal.
"""

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from itertools import chain, islice
from operator import attrgetter
from typing import TypeVar

from toolwright.adapters.store.engine.codecs import micros_or_none
from toolwright.adapters.store.engine.outcome import NO_EVENTS, GuardFailed, Publish
from toolwright.adapters.store.memory.agents import MemoryAgents, MemoryMcp, MemoryRecords
from toolwright.adapters.store.memory.children import MemoryChildren
from toolwright.adapters.store.memory.retention import MemoryRetention
from toolwright.adapters.store.memory.spaces import MemorySpaces
from toolwright.adapters.store.memory.tables import Tables, ThreadRow
from toolwright.adapters.store.memory.undo import Undo
from toolwright.adapters.store.memory.units import advance, apply
from toolwright.core.env.env import EnvRow
from toolwright.core.errors import StoreError
from toolwright.core.files import File
from toolwright.core.journal.reads import Depths, Offer
from toolwright.core.journal.store import CallScope, CallVisibility, KnownMessages, Order, ThreadView
from toolwright.core.journal.units import Advance, Committed, Conflict, Node, Unit, Wake
from toolwright.core.limits import ALL_ROWS
from toolwright.core.spaces import Entity
from toolwright.core.threads.call import OPEN, Call, CallStatus
from toolwright.core.threads.compaction import Compaction, SentText, in_force, messages_in_view
from toolwright.core.threads.event import Event, RunEvents, Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message, MessageVersion
from toolwright.core.threads.run import Run, RunStatus, Step
from toolwright.core.threads.thread import Thread
from toolwright.wire.call import call_message_id

T = TypeVar("T")


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


_LAST = attrgetter("last")


class MemoryStore:
    """The `Store` port in memory. A commit never awaits, so commits cannot interleave."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._tables = Tables()
        self._undo = Undo(self._tables)
        self._closed = False
        self.spaces = MemorySpaces(self._tables)
        self.agents = MemoryAgents(self._tables)
        self.sessions = MemorySessions(self._tables)
        self.records = MemoryRecords(self._tables)
        self.mcp = MemoryMcp(self._tables)
        self.retention = MemoryRetention(self._tables)
        self.offers = MemoryOffers(self._tables)
        self.children = MemoryChildren(self._tables)

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if self._closed:
            raise StoreError("The journal is closed.")
        try:
            if getattr(unit, "effects", ()):
                written = self._undo.apply(unit)
            else:
                written = (
                    advance(unit, self._tables) if isinstance(unit, Advance) else apply(unit, self._tables)
                )
        except GuardFailed as failed:
            return Conflict(guard=failed.guard)
        if written.events is not NO_EVENTS:
            self._publish(written.events)
        return written.answer

    async def thread(self, thread_id: str) -> Thread | None:
        row = self._tables.threads.get(thread_id)
        return None if row is None else row.value()

    async def threads(
        self,
        *,
        users: Sequence[str] | None = None,
        agent: str | None = None,
        order: Order = "oldest_first",
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Thread]:
        chosen = [
            row
            for row in self._tables.threads.values()
            if (users is None or row.born.user_id in users) and agent in (None, row.born.agent)
        ]
        chosen.sort(key=lambda row: (row.born.created_at, row.born.id), reverse=order == "newest_first")
        return [row.value() for row in _page(chosen, limit, offset)]

    async def view(self, thread_id: str, known: KnownMessages | None = None) -> ThreadView | None:
        row = self._tables.threads.get(thread_id)
        if row is None:
            return None
        run = None if row.run_id is None else self._tables.runs.get(row.run_id)
        compactions = in_force(self._tables.compactions_of(thread_id, "")) if row.compacted else ()
        return ThreadView(
            thread=row.value(),
            run=run,
            messages=tuple(messages_in_view(row.messages, compactions, row.cut, row.run_id)),
            calls=() if run is None else self._step_calls(run.id, run.step_count),
            inbox=tuple(row.unread.values()),
            wake=self._tables.wakes.get(thread_id),
            env=tuple(self._env(row)),
            reading=tuple(row.reading.values()),
            compactions=compactions,
        )

    def _env(self, row: ThreadRow) -> list[EnvRow]:
        if not self._tables.env:
            return []
        user_id = row.born.user_id
        entity = None if user_id is None else self._tables.entities.get(user_id)
        person = entity or (None if user_id is None else self._tables.entity_by_external_id(user_id))
        above = [each.born.id for each in self._tables.lineage(row.born.id)]
        return self._tables.env_of(row.born.id, *above, None if person is None else person.id)

    async def message(self, thread_id: str, message_id: str) -> Message | None:
        row = self._tables.threads.get(thread_id)
        messages = () if row is None else row.messages
        return next((each for each in messages if each.id == message_id and each.within is None), None)

    async def pinned_messages(self, thread_id: str) -> Sequence[Message]:
        row = self._tables.threads.get(thread_id)
        return [] if row is None else [each for each in row.messages if each.pinned and each.kept]

    async def compactions(
        self, thread_id: str, within: str | None = None, limit: int = ALL_ROWS, offset: int = 0
    ) -> Sequence[Compaction]:
        rows = self._tables.compactions_of(thread_id, within)
        return rows[offset : offset + limit] if within is None else in_force(rows)

    async def message_versions(self, thread_id: str) -> Sequence[MessageVersion]:
        row = self._tables.threads.get(thread_id)
        return () if row is None else row.versions

    async def sent_texts(self, thread_id: str, digests: Sequence[str]) -> Sequence[SentText]:
        texts = self._tables.sent_texts
        return [texts[whose, each] for each in digests for whose in ("", thread_id) if (whose, each) in texts]

    async def env(self, thread_id: str) -> Sequence[EnvRow]:
        row = self._tables.threads.get(thread_id)
        return [] if row is None else self._env(row)

    async def env_of(self, owner: str) -> Sequence[EnvRow]:
        return self._tables.env_of(owner)

    async def now(self) -> datetime:
        return datetime.now(UTC)

    async def nodes(self) -> Sequence[Node]:
        return ()

    async def sealed_otherwise(self, key: str, limit: int) -> Sequence[EnvRow]:
        others = [row for row in self._tables.env.values() if row.key not in (None, key)]
        return others[:limit]

    async def files(self, thread_id: str) -> Sequence[File]:
        row = self._tables.threads.get(thread_id)
        return [] if row is None else sorted(row.files.values(), key=lambda file: file.path)

    async def file(self, thread_id: str, folded: str) -> File | None:
        row = self._tables.threads.get(thread_id)
        return None if row is None else row.files.get(folded)

    async def files_at(self, thread_id: str, folded: Sequence[str]) -> Set[str]:
        row = self._tables.threads.get(thread_id)
        return frozenset() if row is None else row.files.keys() & set(folded)

    def _step_calls(self, run_id: str, step: int) -> tuple[Call, ...]:
        calls = [self._tables.calls[call_id] for call_id in self._tables.calls_of.get((run_id, step), ())]
        return tuple(sorted([c for c in calls if c.parent_id is None], key=lambda call: call.position))

    async def unread(self, thread_id: str) -> Sequence[InboxEvent]:
        row = self._tables.threads.get(thread_id)
        return [] if row is None else list(row.unread.values())

    async def inbox(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[InboxEvent]:
        row = self._tables.threads.get(thread_id)
        return [] if row is None else _page(row.inbox.values(), limit, offset)

    async def inbox_event(self, thread_id: str, event_id: str) -> InboxEvent | None:
        row = self._tables.threads.get(thread_id)
        return None if row is None else row.inbox.get(event_id)

    async def messages(
        self, thread_id: str, limit: int = 100, offset: int = 0, *, run_id: str | None = None
    ) -> Sequence[Message]:
        row = self._tables.threads.get(thread_id)
        visible = [] if row is None else [m for m in row.messages if m.within is None]
        return _page([m for m in visible if run_id in (None, m.run_id)], limit, offset)

    async def messages_before(self, thread_id: str, seq: int | None, limit: int) -> Sequence[Message]:
        row = self._tables.threads.get(thread_id)
        messages = [] if row is None else [m for m in row.messages if m.within is None]
        earlier = [m for m in messages if seq is None or (m.seq or 0) < seq]
        return earlier[-limit:] if limit else []

    async def run_messages(self, run_id: str, limit: int = ALL_ROWS) -> Sequence[Message]:
        run = self._tables.runs.get(run_id)
        messages = [] if run is None else self._tables.threads[run.thread_id].messages
        return [message for message in messages if message.run_id == run_id][:limit]

    async def run(self, run_id: str) -> Run | None:
        return self._tables.runs.get(run_id)

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Run]:
        chosen = [
            run
            for run in self._tables.runs.values()
            if status in (None, run.status)
            and agent in (None, run.agent)
            and thread_id in (None, run.thread_id)
        ]
        chosen.sort(key=lambda run: (run.created_at, run.id), reverse=True)
        return _page(chosen, limit, offset)

    async def steps(self, run_id: str, limit: int = ALL_ROWS) -> Sequence[Step]:
        return sorted(self._tables.steps.get(run_id, ()), key=lambda step: step.number)[:limit]

    async def call(self, call_id: str) -> Call | None:
        return self._tables.calls.get(call_id)

    async def call_scope(self, call_id: str) -> CallScope | None:
        call = self._tables.calls.get(call_id)
        return (
            None
            if call is None
            else CallScope(
                call=call,
                thread=await self.thread(call.thread_id),
                run=await self.run(call.run_id),
                env=tuple(await self.env(call.thread_id)),
            )
        )

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
        chosen = [
            call
            for call in self._tables.calls.values()
            if (not status or call.status in status)
            and run_id in (None, call.run_id)
            and space_id in (None, call.space_id)
            and agent in (None, call.agent)
            and (sees is None or self._sees(sees, call))
        ]
        chosen.sort(key=lambda call: (call.created_at, call.id))
        return _page(chosen, limit, offset)

    def _sees(self, sees: CallVisibility, call: Call) -> bool:
        if self._tables.threads[call.thread_id].born.user_id in sees.users:
            return True
        is_in_space = call.visible and call_message_id(call.id) in self._tables.space_messages
        return is_in_space and (call.space_id, sees.entity_id) in self._tables.members

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
        run = self._tables.runs.get(topic.id) if topic.kind == "run" else None
        row = self._tables.threads.get(topic.id if run is None else run.thread_id)
        if row is None:
            return []
        later = row.events[bisect_right(row.events, after, key=_LAST) :]
        return later if run is None else [unit for unit in later if unit.run_id == run.id]

    async def entity(self, entity_id: str) -> Entity | None:
        return self._tables.entities.get(entity_id)

    async def entity_by_external_id(self, external_id: str) -> Entity | None:
        return self._tables.entity_by_external_id(external_id)

    async def entities(self, *, limit: int = 50, offset: int = 0) -> Sequence[Entity]:
        rows = sorted(
            self._tables.entities.values(), key=lambda one: (micros_or_none(one.created_at), one.id)
        )
        return _page(rows, limit, offset)

    async def wake(self, thread_id: str) -> Wake | None:
        return self._tables.wakes.get(thread_id)

    async def due(self, now: datetime, limit: int) -> Sequence[Wake]:
        ripe = [wake for wake in self._tables.wakes.values() if wake.due <= now]
        return heapq.nsmallest(limit, ripe, key=lambda wake: (wake.due, wake.thread_id))

    async def owners(self, thread_ids: Sequence[str]) -> Mapping[str, str]:
        rows = [row.born for each in thread_ids if (row := self._tables.threads.get(each)) is not None]
        return {thread.id: thread.user_id or thread.agent for thread in rows}

    async def next_due(self, after: datetime) -> datetime | None:
        return min((wake.due for wake in self._tables.wakes.values() if wake.due > after), default=None)

    async def depths(self) -> Depths:
        statuses = Counter(run.status for run in self._tables.runs.values())
        unread = [event.created_at for row in self._tables.threads.values() for event in row.unread.values()]
        return Depths(
            pending_calls=sum(call.status in OPEN for call in self._tables.calls.values()),
            inbox_events=len(unread),
            oldest_event=min(unread, default=None),
            queued_runs=statuses["queued"],
            active_runs=statuses["running"],
            waiting_runs=statuses["waiting"],
            oldest_wake=min((wake.due for wake in self._tables.wakes.values()), default=None),
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
