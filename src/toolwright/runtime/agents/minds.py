"""Minds: what agents keep as goals, memories and plans, read from outside their runs."""

from collections.abc import Sequence

from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.broken_rows import sliced
from toolwright.core.journal.store import Store
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.checks import page


class Minds:
    """Goals, memories and plans of an agent, by its name or id. Raises `NotFound` for an agent that is not there."""

    def __init__(self, store: Store, agents: Agents) -> None:
        self._minds = store.agents
        self._agents = agents

    async def goals(self, agent: str, limit: int = 1_000, offset: int = 0) -> Sequence[Goal]:
        """Its goals, the oldest first."""
        page(limit, offset)
        return sliced(await self._minds.goals(await self._id(agent)), limit, offset)

    async def memories(self, agent: str, limit: int = 1_000, offset: int = 0) -> Sequence[Memory]:
        """Its memories, by key."""
        page(limit, offset)
        return sliced(await self._minds.memories(await self._id(agent)), limit, offset)

    async def plans(self, agent: str, limit: int = 1_000, offset: int = 0) -> Sequence[Plan]:
        """Its plans, the next one first."""
        page(limit, offset)
        return sliced(await self._minds.plans(await self._id(agent)), limit, offset)

    async def _id(self, agent: str) -> str:
        return (await self._agents.get(agent)).id
