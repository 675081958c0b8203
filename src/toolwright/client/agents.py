"""Agents, as a client sees them."""

from collections.abc import Sequence

from toolwright.client.http import Http, segment
from toolwright.core.json_value import JSON
from toolwright.wire.reading import read_field, read_list
from toolwright.wire.seen import Agent, Goal, Memory, Plan


class Agents:
    """What a client may ask about agents, which are named by name or id."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self, limit: int = 1_000, offset: int = 0) -> Sequence[Agent]:
        """Agents, in the order of their declaration."""
        return read_list(
            Agent, await self._http.get("/api/agents", {"limit": limit, "offset": offset}), "agents"
        )

    async def get(self, agent: str) -> Agent:
        """One agent. Raises `NotFound`."""
        return read_field(Agent, await self._http.get(f"/api/agents/{segment(agent)}"), "agent")

    async def goals(self, agent: str, limit: int = 1_000, offset: int = 0) -> Sequence[Goal]:
        """What the agent wants, the oldest first. Raises `NotFound`."""
        return read_list(Goal, await self._kept(agent, "goals", limit, offset), "goals")

    async def memories(self, agent: str, limit: int = 1_000, offset: int = 0) -> Sequence[Memory]:
        """What the agent remembers, by key. Raises `NotFound`."""
        return read_list(Memory, await self._kept(agent, "memories", limit, offset), "memories")

    async def plans(self, agent: str, limit: int = 1_000, offset: int = 0) -> Sequence[Plan]:
        """What the agent has planned, the next one first. Raises `NotFound`."""
        return read_list(Plan, await self._kept(agent, "plans", limit, offset), "plans")

    async def _kept(self, agent: str, noun: str, limit: int, offset: int) -> JSON:
        path = f"/api/agents/{segment(agent)}/{noun}"
        return await self._http.get(path, {"limit": limit, "offset": offset})
