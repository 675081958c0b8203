"""Reads of agents, children, client registrations, MCP, available calls and spaces on the in-memory tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from toolwright.adapters.store.engine.codecs import micros
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.agents.agent import agent_of_keeper, user_of_keeper
from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.agents.memory import Block, Passage, PlacedVector, Query, is_match
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.env.env import VariablesRequest
from toolwright.core.journal.reads import Offer
from toolwright.core.mcp.records import McpDefinition, McpTask
from toolwright.core.spaces.space import FrontEnd, Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed


class MemoryAgents:
    """The `AgentReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def agent(self, agent_id: str, revision: int | None = None) -> ConfiguredAgent | None:
        if revision is None:
            return self._tables.agents.get(agent_id)
        rows = self._tables.revisions.get((agent_id, revision))
        return None if rows is None else changed(rows, created_at=rows.updated_at)

    async def named(self, name: str) -> ConfiguredAgent | None:
        return next((one for one in self._tables.agents.values() if one.name == name), None)

    async def agents(self, *, limit: int = 50, offset: int = 0) -> Sequence[ConfiguredAgent]:
        rows = sorted(self._tables.agents.values(), key=lambda one: (micros(one.created_at), one.id))
        return rows[offset : offset + limit]

    async def orphans(self, *, limit: int = 100) -> Sequence[str]:
        gone = {agent_id for agent_id, _ in self._tables.revisions} - {*self._tables.agents}
        pending_threads = [
            row.born.id for agent_id in gone for row in self._tables.pending_threads_of(agent_id)
        ]
        return sorted(pending_threads)[:limit]

    async def keepers_of_agent(self, agent_id: str, *, limit: int = 1_000) -> Sequence[str]:
        return [each for each in self._keepers() if agent_of_keeper(each) == agent_id][:limit]

    async def keepers_in_use(self, agent_id: str, *, limit: int = 1_000) -> Sequence[str]:
        return await self.keepers_of_agent(agent_id, limit=limit)

    async def keepers_of_user(self, user_id: str, *, limit: int = 1_000) -> Sequence[str]:
        return [each for each in self._keepers() if user_of_keeper(each) == user_id][:limit]

    def _keepers(self) -> list[str]:
        tables = self._tables
        by_keeper = (tables.goals, tables.memories, tables.plans, tables.blocks, tables.passages)
        return sorted({key[0] for each in by_keeper for key in each if user_of_keeper(key[0]) is not None})

    async def goals(self, agent_id: str) -> Sequence[Goal]:
        rows = [one for one in self._tables.goals.values() if one.agent_id == agent_id]
        return sorted(rows, key=lambda one: (micros(one.created_at), one.id))

    async def memories(self, agent_id: str) -> Sequence[Memory]:
        rows = [one for one in self._tables.memories.values() if one.agent_id == agent_id]
        return sorted(rows, key=lambda one: one.key)

    async def plans(self, agent_id: str) -> Sequence[Plan]:
        rows = [one for one in self._tables.plans.values() if one.agent_id == agent_id]
        return sorted(rows, key=lambda one: (micros(one.next_run_at), one.id))

    async def plan(self, agent_id: str, plan_id: str) -> Plan | None:
        return self._tables.plans.get((agent_id, plan_id))

    async def blocks(self, agent_id: str) -> Sequence[Block]:
        links = [*self._tables.block_links]
        linked = {(owner_id, label) for owner_id, label, reader_id in links if reader_id == agent_id}
        shared = {(owner_id, label) for owner_id, label, _ in links}
        keys = [key for key in self._tables.blocks if key[0] == agent_id or key in linked]
        rows = [changed(self._tables.blocks[key], is_shared=key in shared) for key in keys]
        return sorted(rows, key=lambda one: (one.label, one.agent_id))

    async def passage(self, agent_id: str, passage_id: str) -> Passage | None:
        return next((one for one in self._newest(agent_id) if one.id == passage_id), None)

    async def passages(self, agent_id: str, *, limit: int = 50, offset: int = 0) -> Sequence[Passage]:
        return self._newest(agent_id)[offset : offset + limit]

    async def matches(self, agent_id: str, query: Query, *, limit: int) -> Sequence[Passage]:
        return [each for each in self._newest(agent_id) if is_match(each, query)][:limit]

    async def passages_of(self, agent_id: str, ids: Sequence[str]) -> Sequence[Passage]:
        return [each for each in self._newest(agent_id) if each.id in ids]

    async def vectors(
        self, agent_id: str, *, before: int | None = None, limit: int
    ) -> Sequence[PlacedVector]:
        places = self._tables.places
        newest = [(agent_id, each.id) for each in self._newest(agent_id)]
        keys = [key for key in newest if before is None or places[key] < before]
        return [self._placed_vector(key) for key in keys[:limit]]

    async def unembedded(self, embedder: str, *, after: int, limit: int) -> Sequence[tuple[int, Passage]]:
        vectors, places = self._tables.vectors, self._tables.places
        done = {key for key, vector in vectors.items() if vector.embedder == embedder}
        missing = [(places[key], each) for key, each in self._tables.passages.items() if key not in done]
        return [each for each in missing if each[0] > after][:limit]

    def _placed_vector(self, key: tuple[str, str]) -> PlacedVector:
        vector = self._tables.vectors.get(key)
        return PlacedVector(
            place=self._tables.places[key],
            id=key[1],
            embedder=None if vector is None else vector.embedder,
            floats=None if vector is None else vector.floats,
        )

    def _newest(self, agent_id: str) -> list[Passage]:
        return [one for one in self._tables.passages.values() if one.agent_id == agent_id][::-1]


class MemoryChildren:
    """The `ChildReads` port on the in-memory tables."""

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
        rows = [call for call in self._tables.calls.values() if call.parent_id == call_id]
        return sorted(rows, key=lambda call: (call.step, call.position))

    async def within(self, call_id: str) -> Sequence[Message]:
        parent = self._tables.calls.get(call_id)
        messages = [] if parent is None else self._tables.threads[parent.thread_id].messages
        return [message for message in messages if message.within == call_id]

    async def request(self, request_id: str) -> VariablesRequest | None:
        return self._tables.requests.get(request_id)

    async def requests(self, thread_id: str) -> Sequence[VariablesRequest]:
        rows = [each for each in self._tables.requests.values() if each.thread_id == thread_id]
        return sorted(rows, key=lambda each: (each.created_at, each.id))

    async def expired(self, at: datetime, limit: int) -> Sequence[VariablesRequest]:
        timed = [(each.expires_at, each) for each in self._tables.requests.values() if each.expires_at]
        over = [(until, each) for until, each in timed if until <= at]
        return [each for _, each in sorted(over, key=lambda one: (one[0], one[1].id))[:limit]]

    async def requested_variables(self) -> Sequence[str]:
        return sorted({each.name for request in self._parked() for each in request.required})

    async def waiting_threads(self, name: str) -> Sequence[str]:
        asking = [each for each in self._parked() if name in {one.name for one in each.required}]
        return sorted({each.thread_id for each in asking})

    def _parked(self) -> list[VariablesRequest]:
        return [each for each in self._tables.requests.values() if each.kind == "run"]

    async def value(self, thread_id: str, key: str) -> str | None:
        return self._tables.values.get((thread_id, key))

    async def values(self, thread_id: str) -> Mapping[str, str]:
        return {key: text for (owner, key), text in self._tables.values.items() if owner == thread_id}


class MemoryFrontEnds:
    """The `FrontEndReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def front_end(self, id: str) -> FrontEnd | None:
        return self._tables.front_ends.get(id)

    async def front_ends(
        self, *, entity_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[FrontEnd]:
        rows = [one for one in self._tables.front_ends.values() if entity_id in (None, one.entity_id)]
        return sorted(rows, key=lambda one: (micros(one.created_at), one.id))[offset : offset + limit]

    async def signed_out(self, session: str, caller: str) -> Mapping[str, datetime]:
        ended = self._tables.sign_outs
        return {key: ended[key][0] for key in (session, caller) if key in ended}


class MemoryMcp:
    """The `McpReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def task(self, call_id: str) -> McpTask | None:
        return self._tables.mcp_tasks.get(call_id)

    async def tasks(self, thread_id: str) -> Sequence[McpTask]:
        rows = [one for one in self._tables.mcp_tasks.values() if one.thread_id == thread_id]
        return sorted(rows, key=lambda one: (micros(one.created_at), one.call_id))

    async def definitions(self, agent_id: str) -> Sequence[McpDefinition]:
        rows = [one for one in self._tables.mcp_definitions.values() if one.agent_id == agent_id]
        return sorted(rows, key=lambda one: (one.server, one.tool))


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


class MemorySpaces:
    """The `SpaceReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def space(self, space_id: str) -> Space | None:
        return self._tables.spaces.get(space_id)

    async def spaces(
        self, *, seen_by: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Space]:
        rows = [
            space
            for space in self._tables.spaces.values()
            if seen_by is None or space.kind == "public" or (space.id, seen_by) in self._tables.members
        ]
        rows.sort(key=lambda space: (micros(space.created_at), space.id))
        return rows[offset : offset + limit]

    async def spaces_of(self, entity_id: str, limit: int, with_id: str | None = None) -> Sequence[Space]:
        both = {entity_id, entity_id if with_id is None else with_id}
        rows = [
            each
            for each in self._tables.spaces.values()
            if all((each.id, one) in self._tables.members for one in both)
        ]
        return sorted(rows, key=lambda space: (micros(space.created_at), space.id))[:limit]

    async def company(self, entity_id: str, limit: int) -> Sequence[tuple[Member, str | None]]:
        members = self._tables.members
        rows = [each for each in members.values() if (each.space_id, entity_id) in members]
        rows.sort(key=lambda each: (each.space_id, micros(each.joined_at), each.entity_id))
        people = self._tables.entities
        names = {each.entity_id: people.get(each.entity_id) for each in rows}
        return [(each, one.display_name if (one := names[each.entity_id]) else None) for each in rows[:limit]]

    async def memberships(self, entity_id: str) -> Sequence[Member]:
        rows = [member for member in self._tables.members.values() if member.entity_id == entity_id]
        return sorted(rows, key=lambda member: member.space_id)

    async def members(self, space_id: str) -> Sequence[Member]:
        rows = [member for member in self._tables.members.values() if member.space_id == space_id]
        return sorted(rows, key=lambda member: (micros(member.joined_at), member.entity_id))

    async def member(self, space_id: str, entity_id: str) -> Member | None:
        return self._tables.members.get((space_id, entity_id))

    async def messages(
        self, space_id: str, *, after: int | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[SpaceMessage]:
        rows = self._messages(space_id)
        if after is not None:
            return [each for each in rows if (each.seq or 0) > after][:limit]
        if before is not None:
            rows = [each for each in rows if (each.seq or 0) < before]
        return rows[-limit:] if limit else []

    async def newest(self, space_id: str, limit: int, offset: int) -> Sequence[SpaceMessage]:
        rows = self._messages(space_id)
        end = max(0, len(rows) - offset)
        return rows[max(0, end - limit) : end]

    async def answers(self, message_id: str, limit: int) -> Sequence[SpaceMessage]:
        rows = self._tables.space_messages.values()
        replies = [each for each in rows if message_id in (each.id, each.parent_id)]
        return sorted(replies, key=lambda each: each.seq or 0)[-limit:] if limit else []

    def _messages(self, space_id: str) -> list[SpaceMessage]:
        rows = [each for each in self._tables.space_messages.values() if each.space_id == space_id]
        return sorted(rows, key=lambda each: each.seq or 0)

    async def message(self, message_id: str) -> SpaceMessage | None:
        return self._tables.space_messages.get(message_id)

    async def reactions(self, message_ids: Sequence[str]) -> Sequence[Reaction]:
        rows = [each for each in self._tables.reactions.values() if each.message_id in message_ids]
        return sorted(rows, key=lambda each: (micros(each.created_at), each.entity_id, each.emoji))

    async def caused(self, run_id: str, author: str) -> bool:
        run = self._tables.runs.get(run_id)
        if run is None:
            return False
        events = self._tables.threads[run.thread_id].inbox.values()
        return any(event.author == author and run_id in (event.run_id, event.promised) for event in events)
