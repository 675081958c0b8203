"""Agents, as a client sees them."""

from collections.abc import Sequence

from toolwright.client.http import Http, segment
from toolwright.wire.reading import read_field, read_list
from toolwright.wire.seen import Agent


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
