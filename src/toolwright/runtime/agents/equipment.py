"""Agents with the tools of their toolkits."""

from collections.abc import Mapping, Sequence

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.tools.tool import Tool

REMEMBERED = 1_000  # equipped agents


class Equipment:
    """The built-in tools by toolkit, and the agents that have them."""

    def __init__(self, kits: Mapping[str, Sequence[Tool]]) -> None:
        self._kits = kits
        self._ready: dict[int, tuple[ActiveAgent, ActiveAgent]] = {}

    def equip(self, agent: ActiveAgent) -> ActiveAgent:
        """The agent with its toolkits' tools behind its own; the same one for the same agent."""
        if not agent.agent.toolkits:
            return agent
        known = self._ready.get(id(agent))
        if known is not None and known[0] is agent:
            return known[1]
        made = agent.with_tools([tool for kit in agent.agent.toolkits for tool in self._kits.get(kit, ())])
        if len(self._ready) >= REMEMBERED:
            del self._ready[next(iter(self._ready))]
        self._ready[id(agent)] = agent, made
        return made
