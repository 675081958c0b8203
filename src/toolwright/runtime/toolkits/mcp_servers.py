"""The MCP servers of an agent as a service sees them: how they are, their tools, what is wrong, what is held back."""

from collections.abc import Callable, Sequence

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.errors import NotFound
from toolwright.core.journal.mcp_effects import AcceptMcpTool
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Conflict
from toolwright.core.mcp.servers import McpServerState
from toolwright.core.ports import Clock, NewId
from toolwright.core.tools.mcp import McpCall
from toolwright.core.tools.tool import Tool
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.checks import by_id
from toolwright.runtime.env.env import ThreadEnv
from toolwright.runtime.mcp.offer import McpOffer, McpOffers, env_of_agent
from toolwright.runtime.threads.lineages import Lineages


class AgentServers:
    """Looks at the servers of agents, and accepts what they have changed; `equip` gives agents their toolkits."""

    def __init__(
        self,
        store: Store,
        agents: Agents,
        equip: Callable[[ActiveAgent], ActiveAgent],
        lineages: Lineages,
        offers: McpOffers,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._store = store
        self._agents = agents
        self._equip = equip
        self._lineages = lineages
        self._offers = offers
        self._clock = clock
        self._new_id = new_id

    async def of(self, agent: str, thread_id: str | None = None) -> Sequence[McpServerState]:
        """The servers of that agent, with the values of one of its threads; without one, with its own.

        Raises `NotFound` for an agent or a thread that is not there.
        """
        active = self._equip(await self._agents.active(agent))
        offer = await self._offers.of(active, await self._env(active, thread_id))
        return [_state(offer, number) for number in range(len(offer.listings))]

    async def accept(self, agent: str, server: str, tool: str) -> None:
        """Let the agent have a tool again whose definition its server has changed, as it is defined now.

        Raises `NotFound` where nothing waits to be accepted.
        """
        by_id("server", server)
        by_id("tool", tool)
        active = self._equip(await self._agents.active(agent))
        while True:
            offer = await self._offers.of(active, env_of_agent(active))
            held = await self._held(active.agent_id, offer, server, tool)
            news = [each for each in offer.news if (each.server, each.tool) == (server, tool)]
            accepted = AcceptMcpTool(
                agent_id=active.agent_id, server=server, tool=tool, held=held, at=self._clock.now()
            )
            unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=(*news, accepted))
            if not isinstance(await self._store.commit(unit), Conflict):
                return

    async def _held(self, agent_id: str, offer: McpOffer, server: str, tool: str) -> str:
        """The digest that waits to be accepted: as the server lists the tool now, else as it was listed last."""
        for each in (*offer.held, *await self._store.mcp.definitions(agent_id)):
            if (each.server, each.tool) == (server, tool) and each.held is not None:
                return each.held
        raise NotFound(f"The tool {tool!r} of the MCP server {server!r} does not wait to be accepted.")

    async def _env(self, active: ActiveAgent, thread_id: str | None) -> ThreadEnv:
        if thread_id is None:
            return env_of_agent(active)
        thread = await self._store.thread(by_id("thread", thread_id))
        if thread is None or active.agent_id not in (thread.agent, thread.answering):
            raise NotFound(f"There is no thread {thread_id!r} of this agent.")
        return await self._lineages.env(thread, active)


def _state(offer: McpOffer, number: int) -> McpServerState:
    listing = offer.listings[number]
    name = listing.server.name
    tools = [tool for tool in offer.tools if _server(tool) == name]
    clashes = [fault for server, fault in offer.faults if server == name]
    return McpServerState(
        name=name,
        transport=listing.server.transport,
        status=listing.status,
        protocol=listing.protocol,
        tools=tuple(tools),
        faults=(*listing.faults, *clashes),
        held=tuple([each for each in offer.held if each.server == name]),
    )


def _server(tool: Tool) -> str | None:
    return tool.relation.server.name if isinstance(tool.relation, McpCall) else None
