"""Reads of the journal, by noun: parts of the `Store` port."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.agents.memory import Block, Passage, PlacedVector, Query
from toolwright.core.env.env import Asked, VariablesRequest
from toolwright.core.journal.retention import DroppedBytes
from toolwright.core.journal.rows import Above, Among, Below, Not, OneOf, UpTo, Where
from toolwright.core.journal.units import SignedOut
from toolwright.core.limits import ALL_ROWS, Page, ended_early
from toolwright.core.mcp.servers import McpDefinition
from toolwright.core.spaces import Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.call import Call
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread, ThreadValue
from toolwright.core.value import Record, Value

R = TypeVar("R", bound=Record)
BY_TIME = ("created_at", "id")


class RowReads(Protocol):
    """Reads of rows of any class by conditions, as those of row operations. Each store interprets them once.

    `order` names fields to sort by, with a minus in front of each for the descending order. Raises `StoreError` when
    the journal cannot be read, and `RowBroken` for a broken row.
    """

    async def one(self, kind: type[R], *key: object) -> R | None:
        """Return the row with that key."""
        ...

    async def first(self, kind: type[R], where: Where) -> R | None:
        """Return a row that meets the conditions."""
        ...

    async def find(
        self,
        kind: type[R],
        where: Where,
        order: tuple[str, ...] = (),
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> Sequence[R]:
        """Return the rows that meet the conditions, or a page of them."""
        ...

    async def readable(
        self, kind: type[R], where: Where, order: tuple[str, ...] = (), *, limit: int | None = None
    ) -> list[R]:
        """Return the rows that meet the conditions without the broken ones, which must not stop work on the others."""
        ...

    async def distinct(self, kind: type[R], columns: tuple[str, ...], where: Where) -> Sequence[R]:
        """Return rows of which only these fields can be read, each combination of their values at least once."""
        ...


class RecordReads:
    """Records of all classes: goals, memories, plans, client registrations, MCP tasks."""

    def __init__(self, rows: RowReads) -> None:
        self._rows = rows

    async def one(self, kind: type[R], *key: str) -> R | None:
        """Return the record with that key."""
        return await self._rows.one(kind, *key)

    async def list(
        self, kind: type[R], owner: str | None = None, *, limit: int = ALL_ROWS, offset: int = 0
    ) -> Sequence[R]:
        """Return the records of an owner, or of all owners, in the order of their class."""
        stored = kind.STORED
        where = {} if owner is None else {stored.owner: owner}
        return await self._rows.find(kind, where, stored.order, limit=limit, offset=offset)


class AgentReads(Protocol):
    """Agents configured as JSON, and every agent's memory.

    Raises `StoreError` when the journal cannot be read.
    """

    async def agent(self, agent_id: str, revision: int | None = None) -> ConfiguredAgent | None:
        """Return the agent's current configuration, or that revision, also after the agent was deleted."""
        ...

    async def named(self, name: str) -> ConfiguredAgent | None: ...

    async def agents(self, *, limit: int = 50, offset: int = 0) -> Sequence[ConfiguredAgent]:
        """Return the configured agents, oldest first."""
        ...

    async def orphans(self, *, limit: int = 100) -> Sequence[str]:
        """Return the ids of threads with pending calls whose agent was deleted."""
        ...

    async def keepers_of_agent(self, agent_id: str, *, limit: int = 1_000) -> Sequence[str]:
        """Return the ids under which the agent stores data for people (`core.agents.agent.keeper_of`), in order."""
        ...

    async def keepers_in_use(self, agent_id: str, *, limit: int = 1_000) -> Sequence[str]:
        """Return the ids of `keepers_of_agent` that still have data."""
        ...

    async def keepers_of_user(self, user_id: str, *, limit: int = 1_000) -> Sequence[str]:
        """Return the ids under which any agent stores data for the user, in order."""
        ...

    async def blocks(self, agent_id: str) -> Sequence[Block]:
        """Return the memory blocks that an agent reads, its own and linked ones, by label, then by owner."""
        ...

    async def passage(self, agent_id: str, passage_id: str) -> Passage | None: ...

    async def passages(self, agent_id: str, *, limit: int = 50, offset: int = 0) -> Sequence[Passage]:
        """Return an agent's passages, newest first."""
        ...

    async def matches(self, agent_id: str, query: Query, *, limit: int) -> Sequence[Passage]:
        """Return an agent's passages that match the query by the rule of `core.agents.memory`, newest first."""
        ...

    async def passages_of(self, agent_id: str, ids: Sequence[str]) -> Sequence[Passage]:
        """Return an agent's passages with these ids, in any order."""
        ...

    async def vectors(
        self, agent_id: str, *, before: int | None = None, limit: int
    ) -> Sequence[PlacedVector]:
        """Return vectors of an agent's passages, newest passage first; only those at positions lower than `before`."""
        ...

    async def unembedded(self, embedder: str, *, after: int, limit: int) -> Sequence[tuple[int, Passage]]:
        """Return passages of all agents without a vector of the embedder.

        Each is returned with its position, in the order of positions, starting after `after`.
        """
        ...


class ChildReads(ABC):
    """Reads of children and parents. A store adds those that are left out here."""

    def __init__(self, rows: RowReads) -> None:
        self._rows = rows

    @abstractmethod
    async def lineage(self, thread_id: str) -> Sequence[Thread]:
        """Return the ancestors of the thread, nearest first."""

    async def children(self, thread_id: str, *, limit: int = 1000, offset: int = 0) -> Sequence[Thread]:
        """Return the thread's children, oldest first."""
        where = {"parent_id": thread_id}
        return await self._rows.find(Thread, where, BY_TIME, limit=limit, offset=offset)

    @abstractmethod
    async def living(self, thread_id: str) -> Mapping[str, int]:
        """Return the numbers of unterminated children, by agent."""

    async def awaited(self, thread_id: str, call_id: str) -> bool:
        """Return whether a child in progress will settle that call when it ends."""
        where = {"parent_id": thread_id, "run_id": Not(value=None), "report": call_id}
        return bool(await self._rows.distinct(Thread, ("id",), where))

    async def nested(self, call_id: str) -> Sequence[Call]:
        """Return the calls made by a call, in order."""
        return await self._rows.find(Call, {"parent_id": call_id}, ("step", "position"))

    async def within(self, call_id: str) -> Sequence[Message]:
        """Return the messages within this call of a prompt tool, in order."""
        return await self._rows.find(Message, {"within": call_id}, ("seq",))

    async def request(self, request_id: str) -> VariablesRequest | None:
        """Return a request that is still open."""
        return await self._rows.one(VariablesRequest, request_id)

    async def requests(self, thread_id: str) -> Sequence[VariablesRequest]:
        """Return the open requests of a thread, oldest first."""
        return await self._rows.find(VariablesRequest, {"thread_id": thread_id}, BY_TIME)

    async def expired(self, at: datetime, limit: int) -> Sequence[VariablesRequest]:
        """Return requests that have expired at that time, earliest deadline first."""
        where = {"expires_at": UpTo(value=at)}
        return await self._rows.find(VariablesRequest, where, ("expires_at", "id"), limit=limit)

    async def requested_variables(self) -> Sequence[str]:
        """Return the names of the variables for which suspended runs wait."""
        return sorted({row.name for row in await self._rows.distinct(Asked, ("name",), {})})

    async def waiting_threads(self, name: str) -> Sequence[str]:
        """Return the ids of the threads whose runs wait for the variable of that name."""
        rows = await self._rows.distinct(Asked, ("thread_id",), {"name": name})
        return sorted({row.thread_id for row in rows})

    async def value(self, thread_id: str, key: str) -> str | None:
        """Return a stored value of the thread, as JSON text."""
        row = await self._rows.one(ThreadValue, thread_id, key)
        return None if row is None else row.value

    async def values(self, thread_id: str) -> Mapping[str, str]:
        """Return all stored values of the thread by key, as JSON text."""
        return {row.key: row.value for row in await self._rows.find(ThreadValue, {"thread_id": thread_id})}


class McpReads:
    """Definitions of MCP servers' tools."""

    def __init__(self, rows: RowReads) -> None:
        self._rows = rows

    async def definitions(self, agent_id: str) -> Sequence[McpDefinition]:
        """Return the definitions of tools that an agent has used, by server, then by tool.

        They are sorted here: names are stored as JSON, which the databases would sort differently.
        """
        definitions = await self._rows.readable(McpDefinition, {"agent_id": agent_id})
        return sorted(definitions, key=lambda each: (each.server, each.tool))


class RetentionReads(Protocol):
    """Reads of deletable threads and of the remains of deleted threads. Raises `StoreError` if the journal fails."""

    async def open_runs(self, thread_id: str) -> Sequence[tuple[str, str]]:
        """Return the thread and its descendants that are in progress, each with its open run."""
        ...

    async def idle(self, before: datetime, after: str, limit: int) -> Sequence[Thread]:
        """Return threads without a parent whose last run ended before that time, by id, with ids above `after`."""
        ...

    async def has_rows_left(self) -> bool:
        """Return whether rows of deleted threads still exist."""
        ...

    async def dropped_bytes(self, after: str, limit: int) -> Sequence[DroppedBytes]:
        """Return file contents of deleted threads, by digest, after the digest `after`."""
        ...


class SessionReads:
    """Reads of signed-out sessions."""

    def __init__(self, rows: RowReads) -> None:
        self._rows = rows

    async def signed_out(self, session: str, caller: str) -> Mapping[str, datetime]:
        """Return when these sessions of the console were signed out, by key; see `SignOut`."""
        rows = await self._rows.find(SignedOut, {"key": OneOf(values=(session, caller))})
        return {row.key: row.at for row in rows}


class Offer(Value):
    """An open call of the kind `external` that workers can claim, with the id of its agent and the trace of its run."""

    call: Call
    agent: str
    traceparent: str | None = None


class Depths(Value):
    """Numbers of pending calls, unread inbox events and open runs.

    `oldest_event` is when the oldest unread event arrived. `connections` are the database connections in use in this
    process and their limit, or None for a journal without a limit. `oldest_wake` is the due time of the oldest wake-up
    that no node of a cluster has claimed.
    """

    pending_calls: int
    inbox_events: int
    oldest_event: datetime | None = None
    queued_runs: int = 0
    active_runs: int = 0
    waiting_runs: int = 0
    connections: tuple[int, int] | None = None
    oldest_wake: datetime | None = None


class OfferReads(Protocol):
    """Reads of calls that workers can claim. Raises `StoreError` when the journal cannot be read."""

    async def claimable(
        self,
        at: datetime,
        *,
        after: tuple[datetime, str],
        before: datetime,
        names: Sequence[str] | None = None,
        limit: int = 100,
    ) -> Sequence[Offer]:
        """Return calls available at `at`, ordered by start time, then by id.

        They follow `after` in that order and started before `before`. With `names`, only calls of these tools.
        """
        ...

    async def expired_leases(self, at: datetime, *, since: datetime, limit: int = 100) -> Sequence[Offer]:
        """Return calls that can be claimed at `at` because their lease expired at `since` or later; earliest first."""
        ...


class SpaceReads(ABC):
    """Reads of spaces, members and messages. A store adds those that are left out here."""

    def __init__(self, rows: RowReads) -> None:
        self._rows = rows

    async def space(self, space_id: str) -> Space | None:
        """Return the space with that id."""
        return await self._rows.one(Space, space_id)

    async def spaces(
        self, *, seen_by: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Space]:
        """Return spaces, oldest first; with `seen_by` only that entity's spaces and public spaces."""
        its = Among(kind=Member, column="space_id", where={"entity_id": seen_by})
        where: Where = {} if seen_by is None else ({"kind": "public"}, {"id": its})
        return await self._rows.find(Space, where, BY_TIME, limit=limit, offset=offset)

    async def memberships(self, entity_id: str) -> Sequence[Member]:
        """Return memberships of an entity, by space."""
        return await self._rows.find(Member, {"entity_id": entity_id}, ("space_id",))

    async def spaces_of(self, entity_id: str, limit: int, with_id: str | None = None) -> Sequence[Space]:
        """Return the spaces of an entity, oldest first. With `with_id` only those shared with that entity."""
        member: dict[str, object] = {"entity_id": entity_id}
        if with_id is not None:
            member["space_id"] = Among(kind=Member, column="space_id", where={"entity_id": with_id})
        its = Among(kind=Member, column="space_id", where=member)
        return await self._rows.find(Space, {"id": its}, BY_TIME, limit=limit)

    @abstractmethod
    async def company(self, entity_id: str, limit: int) -> Sequence[tuple[Member, str | None]]:
        """Return all members of the spaces, by space, in the order of joining; people with their display names."""

    async def members(self, space_id: str) -> Sequence[Member]:
        """Return the members of a space, in the order of joining."""
        return await self._rows.find(Member, {"space_id": space_id}, ("joined_at", "entity_id"))

    async def member(self, space_id: str, entity_id: str) -> Member | None:
        """Return the membership of an entity in a space."""
        return await self._rows.one(Member, space_id, entity_id)

    async def messages(
        self, space_id: str, *, after: int | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[SpaceMessage]:
        """Return messages in order: the first after `after`, the last before `before`, or the last ones."""
        if after is not None:
            where = {"space_id": space_id, "seq": Above(value=after)}
            return await self._rows.find(SpaceMessage, where, ("seq",), limit=limit)
        if before is None:
            return await self.newest(space_id, limit, 0)
        return await self._last({"space_id": space_id, "seq": Below(value=before)}, limit)

    async def newest(self, space_id: str, limit: int, offset: int) -> Sequence[SpaceMessage]:
        """Return a page of history in order, which ends `offset` messages before the newest."""
        return await self._last({"space_id": space_id}, limit, offset)

    async def answers(self, message_id: str, limit: int) -> Sequence[SpaceMessage]:
        """Return a message and its replies, the newest `limit` of them, in order."""
        return await self._last(({"id": message_id}, {"parent_id": message_id}), limit)

    async def _last(self, where: Where, limit: int, offset: int = 0) -> Sequence[SpaceMessage]:
        return turned(await self._rows.find(SpaceMessage, where, ("-seq",), limit=limit, offset=offset))

    async def message(self, message_id: str) -> SpaceMessage | None:
        """Return the message with that id."""
        return await self._rows.one(SpaceMessage, message_id)

    async def reactions(self, message_ids: Sequence[str]) -> Sequence[Reaction]:
        """Return the reactions to these messages, oldest first."""
        if not message_ids:
            return []
        order = ("created_at", "entity_id", "emoji")
        return await self._rows.find(
            Reaction, {"message_id": OneOf(values=tuple(dict.fromkeys(message_ids)))}, order
        )

    async def read_by(self, thread_id: str, run_id: str, limit: int) -> Sequence[InboxEvent]:
        """Return the inbox events of the thread that the run has read, in order."""
        where = {"thread_id": thread_id, "run_id": run_id}
        return await self._rows.find(InboxEvent, where, ("n",), limit=limit)

    @abstractmethod
    async def caused(self, run_id: str, author: str) -> bool:
        """Return whether the run has read messages of that entity, or was expected to read them."""


def turned(rows: Sequence[R]) -> Sequence[R]:
    """Return a page that was read from its end, in order."""
    return Page(rows[::-1], more=ended_early(rows))
