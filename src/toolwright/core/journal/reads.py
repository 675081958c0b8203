"""What is read of configured agents and of what agents keep in mind: a part of the `Store` port."""

from collections.abc import Sequence
from typing import Protocol

from toolwright.core.agents.configured import ConfiguredAgent
from toolwright.core.agents.mind import Goal, Memory, Plan


class AgentReads(Protocol):
    """Agents configured as JSON, and every agent's mind. Raises `StoreError` when the journal cannot be read."""

    async def agent(self, agent_id: str, revision: int | None = None) -> ConfiguredAgent | None:
        """The agent as it is configured now, or in that revision, also after it was deleted."""
        ...

    async def named(self, name: str) -> ConfiguredAgent | None: ...

    async def agents(self, *, limit: int = 50, offset: int = 0) -> Sequence[ConfiguredAgent]:
        """The configured agents, the oldest first."""
        ...

    async def goals(self, agent_id: str) -> Sequence[Goal]:
        """An agent's goals, the oldest first."""
        ...

    async def memories(self, agent_id: str) -> Sequence[Memory]:
        """An agent's memories, by key."""
        ...

    async def plans(self, agent_id: str) -> Sequence[Plan]:
        """An agent's plans, the next one first."""
        ...

    async def plan(self, agent_id: str, plan_id: str) -> Plan | None: ...
