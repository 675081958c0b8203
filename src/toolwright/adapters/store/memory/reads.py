"""Reads of each noun in memory, on the rows of `memory/rows.py`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from toolwright.adapters.store.memory.rows import MemoryRows
from toolwright.core.agents.agent import agent_of_keeper, user_of_keeper
from toolwright.core.agents.config import AgentHead, AgentRevision, ConfiguredAgent
from toolwright.core.agents.memory import Block, BlockLink, Passage, PassageRow, PlacedVector, Query, is_match
from toolwright.core.journal.reads import ChildReads, Offer, SpaceReads
from toolwright.core.journal.retention import DroppedBytes
from toolwright.core.journal.rows import Among, LateCalls
from toolwright.core.spaces import Entity, Member
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.value import Record, changed, owned_by

R = TypeVar("R", bound=Record)


class MemoryAgents:
    """The `AgentReads` port in memory."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    async def agent(self, agent_id: str, revision: int | None = None) -> ConfiguredAgent | None:
        if revision is None:
            head = self._rows.of(AgentHead).get(agent_id)
            return None if head is None else self._current(head)
        row = self._rows.of(AgentRevision).get(agent_id, revision)
        return None if row is None else _configured(row, row.created_at)

    async def named(self, name: str) -> ConfiguredAgent | None:
        heads = self._rows.of(AgentHead).select({"name": name})
        return self._current(heads[0][1]) if heads else None

    async def agents(self, *, limit: int = 50, offset: int = 0) -> Sequence[ConfiguredAgent]:
        heads = sorted(self._rows.of(AgentHead).rows.values(), key=lambda one: (one.created_at, one.id))
        return [self._current(head) for head in heads[offset : offset + limit]]

    def _current(self, head: AgentHead) -> ConfiguredAgent:
        row = self._rows.of(AgentRevision).rows[head.id, head.revision]
        return _configured(row, head.created_at)

    async def orphans(self, *, limit: int = 100) -> Sequence[str]:
        gone = {key[0] for key in self._rows.of(AgentRevision).rows} - {
            key[0] for key in self._rows.of(AgentHead).rows
        }
        found = [self._rows.perform(LateCalls(agent_id=agent_id)) for agent_id in gone]
        return sorted({call.thread_id for calls in found for call in calls})[:limit]

    async def keepers_of_agent(self, agent_id: str, *, limit: int = 1_000) -> Sequence[str]:
        return [each for each in self._keepers() if agent_of_keeper(each) == agent_id][:limit]

    async def keepers_in_use(self, agent_id: str, *, limit: int = 1_000) -> Sequence[str]:
        return await self.keepers_of_agent(agent_id, limit=limit)

    async def keepers_of_user(self, user_id: str, *, limit: int = 1_000) -> Sequence[str]:
        return [each for each in self._keepers() if user_of_keeper(each) == user_id][:limit]

    def _keepers(self) -> list[str]:
        kinds = [*owned_by("agent_id"), Block, PassageRow]
        ids = {row.agent_id for kind in kinds for row in self._rows.of(cast("type[Any]", kind)).rows.values()}
        return sorted(agent_id for agent_id in ids if user_of_keeper(agent_id) is not None)

    async def blocks(self, agent_id: str) -> Sequence[Block]:
        links = self._rows.of(BlockLink).rows.values()
        linked = {(link.agent_id, link.label) for link in links if link.reader_id == agent_id}
        shared = {(link.agent_id, link.label) for link in links}
        stored = self._rows.of(Block).rows.items()
        rows = [
            changed(block, is_shared=key in shared)
            for key, block in stored
            if block.agent_id == agent_id or key in linked
        ]
        return sorted(rows, key=lambda one: (one.label, one.agent_id))

    async def passage(self, agent_id: str, passage_id: str) -> Passage | None:
        row = self._rows.of(PassageRow).get(agent_id, passage_id)
        return None if row is None else row.passage

    async def passages(self, agent_id: str, *, limit: int = 50, offset: int = 0) -> Sequence[Passage]:
        return [row.passage for row in self._newest(agent_id)[offset : offset + limit]]

    async def matches(self, agent_id: str, query: Query, *, limit: int) -> Sequence[Passage]:
        rows = [row.passage for row in self._newest(agent_id)]
        return [each for each in rows if is_match(each, query)][:limit]

    async def passages_of(self, agent_id: str, ids: Sequence[str]) -> Sequence[Passage]:
        return [row.passage for row in self._newest(agent_id) if row.id in ids]

    async def vectors(
        self, agent_id: str, *, before: int | None = None, limit: int
    ) -> Sequence[PlacedVector]:
        rows = [row for row in self._newest(agent_id) if before is None or row.place < before]
        return [
            PlacedVector(place=row.place, id=row.id, embedder=row.embedder, floats=row.floats)
            for row in rows[:limit]
        ]

    async def unembedded(self, embedder: str, *, after: int, limit: int) -> Sequence[tuple[int, Passage]]:
        rows = self._rows.of(PassageRow).rows.values()
        missing = [(row.place, row.passage) for row in rows if row.embedder != embedder and row.place > after]
        return sorted(missing, key=lambda each: each[0])[:limit]

    def _newest(self, agent_id: str) -> list[PassageRow]:
        rows = self._rows.of(PassageRow).of("agent_id", agent_id)
        return sorted(rows, key=lambda row: row.place, reverse=True)


def _configured(row: AgentRevision, created_at: datetime) -> ConfiguredAgent:
    return ConfiguredAgent(
        id=row.agent_id,
        name=row.name,
        description=row.description,
        config=row.config,
        revision=row.revision,
        created_at=created_at,
        updated_at=row.created_at,
    )


class MemorySpaces(SpaceReads):
    """The `SpaceReads` port in memory."""

    def __init__(self, rows: MemoryRows) -> None:
        super().__init__(rows)
        self._tables = rows

    async def company(self, entity_id: str, limit: int) -> Sequence[tuple[Member, str | None]]:
        its = Among(kind=Member, column="space_id", where={"entity_id": entity_id})
        order = ("space_id", "joined_at", "entity_id")
        rows = await self._rows.find(Member, {"space_id": its}, order, limit=limit)
        people = self._tables.of(Entity)
        return [(each, getattr(people.get(each.entity_id), "display_name", None)) for each in rows]

    async def caused(self, run_id: str, author: str) -> bool:
        run = self._tables.of(Run).get(run_id)
        events = [] if run is None else self._tables.of(InboxEvent).of("thread_id", run.thread_id)
        return any(event.author == author and run_id in (event.run_id, event.promised) for event in events)


class MemoryChildren(ChildReads):
    """The `ChildReads` port in memory."""

    def __init__(self, rows: MemoryRows) -> None:
        super().__init__(rows)
        self._tables = rows

    async def lineage(self, thread_id: str) -> Sequence[Thread]:
        return self._tables.lineage(thread_id)

    async def living(self, thread_id: str) -> Mapping[str, int]:
        return Counter([row.agent for row in self._tables.children(thread_id) if not row.is_over])

    async def within(self, call_id: str) -> Sequence[Message]:
        # They are found by the thread of the call, because messages have no index of calls.
        parent = self._tables.of(Call).get(call_id)
        messages = [] if parent is None else self._tables.of(Message).of("thread_id", parent.thread_id)
        return [message for message in messages if message.within == call_id]


class MemoryRetention:
    """The `RetentionReads` port in memory."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    async def open_runs(self, thread_id: str) -> Sequence[tuple[str, str]]:
        threads = self._rows.of(Thread)
        family = [threads.get(each) for each in (thread_id, *self._rows.descendants(thread_id))]
        return sorted((row.id, row.run_id) for row in family if row is not None and row.run_id is not None)

    async def idle(self, before: datetime, after: str, limit: int) -> Sequence[Thread]:
        runs = self._rows.of(Run).rows.values()
        young = {run.thread_id for run in runs if run.completed_at is None or run.completed_at >= before}
        rows = [
            row
            for row in self._rows.of(Thread).rows.values()
            if row.id > after
            and row.parent_id is None
            and row.run_id is None
            and row.created_at < before
            and row.id not in young
        ]
        return sorted(rows, key=lambda row: row.id)[:limit]

    async def has_rows_left(self) -> bool:
        return False  # they were deleted with the thread

    async def dropped_bytes(self, after: str, limit: int) -> Sequence[DroppedBytes]:
        needed = {digest for digests in self._rows.digests.values() for digest in digests}
        rows = [row for row in self._rows.of(DroppedBytes).rows.values() if row.digest > after]
        rows.sort(key=lambda row: row.digest)
        return [changed(row, needed=row.digest in needed) for row in rows[:limit]]


class MemoryOffers:
    """The `OfferReads` port in memory."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

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
            for call in self._rows.of(Call).rows.values()
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
            for call in self._rows.of(Call).rows.values()
            if call.leased_until is not None and since <= call.leased_until and self._free(call, at)
        ]
        rows.sort(key=lambda each: each[0])
        return [self._offer(call) for _, call in rows[:limit]]

    def _free(self, call: Call, at: datetime) -> bool:
        return call.kind == "external" and call.status in OPEN and call.free_for("", at)

    def _offer(self, call: Call) -> Offer:
        run = self._rows.of(Run).rows[call.run_id,]
        return Offer(call=call, agent=run.agent, traceparent=run.traceparent)
