"""Records, and the data of agents, on the in-memory tables: their effects and their reads."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from toolwright.adapters.store.engine.codecs import micros
from toolwright.adapters.store.engine.outcome import GuardFailed
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.agents.agent import agent_of_keeper, user_of_keeper
from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.agents.memory import Block, Passage, PlacedVector, Query, is_match
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.journal import effects
from toolwright.core.limits import ALL_ROWS
from toolwright.core.mcp.servers import McpDefinition
from toolwright.core.value import Record, changed, key_of

R = TypeVar("R", bound=Record)


def perform_record(effect: effects.RecordEffect, tables: Tables) -> None:
    """Perform one effect."""
    match effect:
        case effects.Put(record=record):
            tables.put(record)
        case effects.Add(record=record):
            rows = tables.records_of(type(record))
            if key_of(record) in rows:
                raise GuardFailed("duplicate")
            rows[key_of(record)] = record
        case effects.Delete(kind=kind, key=key, guard=guard):
            if tables.records_of(kind).pop(key, None) is None and guard is not None:
                raise GuardFailed(guard)


def perform_agent(effect: effects.AgentEffect, tables: Tables) -> None:
    """Perform one effect."""
    match effect:
        case effects.CheckMind():
            if not effect.holds(_mind(effect.agent_id, effect.kind, tables)):
                raise GuardFailed("mind")
        case effects.SetPlan(plan=plan):
            tables.set_plan(plan)
        case effects.DropPlan():
            tables.drop_plan(effect.agent_id, effect.id)
        case effects.DropMind(agent_id=agent_id):
            tables.drop_mind(agent_id)
        case effects.FirePlan(plan=plan, then=then):
            stored = tables.records_of(Plan).get(key_of(plan))
            if stored is None or stored.next_run_at != plan.next_run_at:
                raise GuardFailed("plan")
            if then is None:
                tables.drop_plan(plan.agent_id, plan.id)
            else:
                tables.move_plan(plan, then.next_run_at)
        case effects.MovePlans(by=by):
            for plan in [each for each in tables.records_of(Plan).values() if each.relative]:
                tables.move_plan(plan, plan.next_run_at + by)
        case effects.SetBlock(block=block):
            row = changed(block, is_shared=False)  # computed from its links when it is read
            tables.blocks[block.agent_id, block.label] = row
        case effects.DropBlock():
            if tables.blocks.pop((effect.agent_id, effect.label), None) is None:
                raise GuardFailed("block")
            for key in [key for key in tables.block_links if key[:2] == (effect.agent_id, effect.label)]:
                del tables.block_links[key]
        case effects.LinkBlock():
            if (effect.agent_id, effect.label) not in tables.blocks:
                raise GuardFailed("block")
            tables.block_links[effect.agent_id, effect.label, effect.reader_id] = None
        case effects.UnlinkBlock():
            tables.block_links.pop((effect.agent_id, effect.label, effect.reader_id), 0)
        case effects.AddPassage():
            _add(effect, tables)
        case effects.DropPassage():
            if tables.passages.pop((effect.agent_id, effect.id), None) is None:
                raise GuardFailed("passage")
            tables.places.pop((effect.agent_id, effect.id))
            tables.vectors.pop((effect.agent_id, effect.id), None)
        case effects.SetVector():
            if (effect.agent_id, effect.id) in tables.passages:
                tables.vectors[effect.agent_id, effect.id] = effect.vector
        case effects.PinMcpTool(definition=definition):
            key = (definition.agent_id, definition.server, definition.tool)
            tables.mcp_definitions.setdefault(key, definition)
        case _:
            _change_definition(effect, tables)


def _mind(agent_id: str, kind: effects.MindKind, tables: Tables) -> Mapping[str, object]:
    """Return the agent's rows of the given kind, by key."""
    match kind:
        case "links":
            links = [each[:2] for each in tables.block_links if each[2] == agent_id]
            return {effects.link_key(owner_id, label): None for owner_id, label in links}
        case "blocks":
            return {key: row for (owner_id, key), row in tables.blocks.items() if owner_id == agent_id}
        case _:
            rows = tables.records_of(_RECORDS[kind])
            return {key: row for (owner_id, key), row in rows.items() if owner_id == agent_id}


_RECORDS: Mapping[effects.MindKind, type[Record]] = {"goals": Goal, "memories": Memory, "plans": Plan}


def _add(effect: effects.AddPassage, tables: Tables) -> None:
    key = (effect.passage.agent_id, effect.passage.id)
    if key in tables.passages:
        raise GuardFailed("duplicate")
    tables.counters["passages"] = tables.counters.get("passages", 0) + 1
    tables.passages[key], tables.places[key] = effect.passage, tables.counters["passages"]
    if effect.vector is not None:
        tables.vectors[key] = effect.vector


def _change_definition(
    effect: effects.HoldMcpTool | effects.AcceptMcpTool | effects.UnholdMcpTool, tables: Tables
) -> None:
    key = (effect.agent_id, effect.server, effect.tool)
    stored = tables.mcp_definitions.get(key)
    if isinstance(effect, effects.AcceptMcpTool) and (stored is None or stored.held != effect.held):
        raise GuardFailed("mcp_tool")
    if stored is None:
        return
    new = changed(stored, held=None, definition=None, updated_at=effect.at)
    match effect:
        case effects.HoldMcpTool():
            if effect.held in (stored.digest, stored.held):
                return
            new = changed(new, held=effect.held, definition=effect.definition)
        case effects.AcceptMcpTool():
            new = changed(new, digest=effect.held)
        case effects.UnholdMcpTool():
            if stored.held is None:
                return
    tables.mcp_definitions[key] = new


class MemoryRecords:
    """The `RecordReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def one(self, kind: type[R], *key: str) -> R | None:
        return self._tables.records_of(kind).get(key)

    async def list(
        self, kind: type[R], owner: str | None = None, *, limit: int = ALL_ROWS, offset: int = 0
    ) -> Sequence[R]:
        stored = kind.STORED
        rows = self._tables.records_of(kind).values()
        chosen = [each for each in rows if owner in (None, getattr(each, stored.owner))]
        chosen.sort(key=lambda each: [getattr(each, name) for name in stored.order])
        return chosen[offset : offset + limit]


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
        by_keeper = (*tables.owned_by("agent_id"), tables.blocks, tables.passages)
        return sorted({key[0] for each in by_keeper for key in each if user_of_keeper(key[0]) is not None})

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


class MemoryMcp:
    """The `McpReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def definitions(self, agent_id: str) -> Sequence[McpDefinition]:
        rows = [one for one in self._tables.mcp_definitions.values() if one.agent_id == agent_id]
        return sorted(rows, key=lambda one: (one.server, one.tool))
