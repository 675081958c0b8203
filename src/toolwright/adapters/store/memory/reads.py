"""What is read of configured agents and minds in memory."""

from collections.abc import Sequence
from dataclasses import replace

from toolwright.adapters.store.engine.instants import micros
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.agents.configured import ConfiguredAgent
from toolwright.core.agents.mind import Goal, Memory, Plan


class MemoryAgents:
    """The `AgentReads` port on the tables in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def agent(self, agent_id: str, revision: int | None = None) -> ConfiguredAgent | None:
        if revision is None:
            return self._tables.agents.get(agent_id)
        found = self._tables.revisions.get((agent_id, revision))
        return None if found is None else replace(found, created_at=found.updated_at)

    async def named(self, name: str) -> ConfiguredAgent | None:
        return next((one for one in self._tables.agents.values() if one.name == name), None)

    async def agents(self, *, limit: int = 50, offset: int = 0) -> Sequence[ConfiguredAgent]:
        found = sorted(self._tables.agents.values(), key=lambda one: (micros(one.created_at), one.id))
        return found[offset : offset + limit]

    async def goals(self, agent_id: str) -> Sequence[Goal]:
        found = [one for one in self._tables.goals.values() if one.agent_id == agent_id]
        return sorted(found, key=lambda one: (micros(one.created_at), one.id))

    async def memories(self, agent_id: str) -> Sequence[Memory]:
        found = [one for one in self._tables.memories.values() if one.agent_id == agent_id]
        return sorted(found, key=lambda one: one.key)

    async def plans(self, agent_id: str) -> Sequence[Plan]:
        found = [one for one in self._tables.plans.values() if one.agent_id == agent_id]
        return sorted(found, key=lambda one: (micros(one.next_run_at), one.id))

    async def plan(self, agent_id: str, plan_id: str) -> Plan | None:
        return self._tables.plans.get((agent_id, plan_id))
