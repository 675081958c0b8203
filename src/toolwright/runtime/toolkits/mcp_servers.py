"""Status of an agent's MCP servers, for services: connection, tools, errors, and changed tools that are held back."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.checks import misfit
from toolwright.core.errors import InvalidRequest, NotFound, ToolwrightError, Unreachable
from toolwright.core.journal.agent_effects import AcceptMcpTool
from toolwright.core.journal.units import Apply, Conflict
from toolwright.core.mcp.listing import ListingError, McpPrompts
from toolwright.core.mcp.servers import McpPromptText, McpRefused, McpServerState, McpUnavailable
from toolwright.core.ports import Models
from toolwright.core.schemas.provider_forms import ToolError
from toolwright.core.text import sentence
from toolwright.core.tools.mcp import McpCall
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.carried import Carried
from toolwright.runtime.env import ThreadEnv
from toolwright.runtime.journal import Services, by_id
from toolwright.runtime.mcp import McpOffer, McpOffers, env_of_agent
from toolwright.runtime.threads.thread_tree import Lineages


class AgentServers(Carried):
    """Reads the MCP servers of agents, accepts changed tools, and creates the agents' toolkits."""

    def __init__(
        self,
        services: Services,
        agents: Agents,
        with_builtins: Callable[[ActiveAgent], ActiveAgent],
        lineages: Lineages,
        offers: McpOffers,
        models: Models,
        default_model: str | None,
    ) -> None:
        self._models = models
        self._default_model = default_model
        self._store = services.store
        self._agents = agents
        self._equip = with_builtins
        self._lineages = lineages
        self._offers = offers
        self._clock = services.clock
        self._new_id = services.new_id

    async def of(self, agent: str, thread_id: str | None = None) -> Sequence[McpServerState]:
        """Return the servers of the agent, with the env of one of its threads, or without one with the agent's own.

        Raises `NotFound` for an unknown agent or thread.
        """
        active = self._equip(await self._agents.active(agent))
        env = await self._env(active, thread_id)
        offer = await self._offers.tools_for(active, env)
        states = await asyncio.gather(
            *[self._state(offer, number, env) for number in range(len(offer.listings))]
        )
        if not offer.tools:
            return states
        withheld = await self._withheld(active, offer.tools)
        return [changed(each, faults=(*each.faults, *_of_tools(each, withheld))) for each in states]

    async def withheld(self, agent: str) -> Sequence[ToolError]:
        """Return the tools of the agent and of its servers that are not offered to its models, with the reasons.

        These are tools in a form that the provider does not accept, and tools that it has rejected in this process.
        Raises `NotFound` for an unknown agent.
        """
        active = self._equip(await self._agents.active(agent))
        offer = await self._offers.tools_for(active, env_of_agent(active))
        return await self._withheld(active, [*active.tools, *offer.tools])

    async def _withheld(self, active: ActiveAgent, tools: Iterable[Tool]) -> Sequence[ToolError]:
        chosen_model = active.model if active.model is not None else self._default_model
        if chosen_model is None:
            return ()
        try:
            model = await self._models(chosen_model)
        except ToolwrightError:
            return ()  # a model that cannot be created is offered nothing: its runs report the reason
        errors = getattr(model, "tool_faults", None)
        if errors is None:
            return ()
        return await asyncio.to_thread(errors, tuple([tool.definition for tool in tools]))

    async def prompt(
        self,
        agent: str,
        server: str,
        name: str,
        arguments: Mapping[str, str] | None = None,
        thread_id: str | None = None,
    ) -> McpPromptText:
        """Fetch a prompt of one of the agent's servers, with these arguments, as texts that can be sent to a thread.

        The request uses the env of one of the agent's threads, or the agent's own. Raises `NotFound` for an unknown
        agent, server or thread, `InvalidRequest` if the server rejects the prompt, and `Unreachable` if the server
        cannot be reached.
        """
        by_id("server", server)
        texts = _texts(arguments)
        active = self._equip(await self._agents.active(agent))
        server_config = next((each for each in active.mcp if each.name == server), None)
        if server_config is None:
            raise NotFound(f"The agent has no MCP server {server!r}.")
        try:
            return await self._offers.prompt(server_config, await self._env(active, thread_id), name, texts)
        except McpRefused as error:
            raise InvalidRequest(
                sentence(f"The MCP server {server!r} refused the prompt {name!r}: {error}")
            ) from error
        except McpUnavailable as error:
            raise Unreachable(sentence(f"The MCP server {server!r} cannot be used: {error}")) from error

    async def accept(self, agent: str, server: str, tool: str) -> None:
        """Accept the current definition of a tool that its server has changed, so that the agent can use it again.

        Raises `NotFound` if there is no changed definition to accept.
        """
        by_id("server", server)
        by_id("tool", tool)
        active = self._equip(await self._agents.active(agent))
        while True:  # retry if the definition has changed since it was read
            offer = await self._offers.tools_for(active, env_of_agent(active))
            held = await self._held(active.agent_id, offer, server, tool)
            changes = [each for each in offer.news if (each.server, each.tool) == (server, tool)]
            accepted = AcceptMcpTool(
                agent_id=active.agent_id, server=server, tool=tool, held=held, at=self._clock.now()
            )
            unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=(*changes, accepted))
            if not isinstance(await self._store.commit(unit), Conflict):
                return

    async def _held(self, agent_id: str, offer: McpOffer, server: str, tool: str) -> str:
        """Return the digest to be accepted: of the server's current definition, or of the last listed one."""
        for each in (*offer.held, *await self._store.mcp.definitions(agent_id)):
            if (each.server, each.tool) == (server, tool) and each.held is not None:
                return each.held
        raise NotFound(f"The tool {tool!r} of the MCP server {server!r} has no changed definition to accept.")

    async def _env(self, active: ActiveAgent, thread_id: str | None) -> ThreadEnv:
        if thread_id is None:
            return env_of_agent(active)
        thread = await self._store.thread(by_id("thread", thread_id))
        if thread is None or active.agent_id not in (thread.agent, thread.answering):
            raise NotFound(f"There is no thread {thread_id!r} of this agent.")
        return await self._lineages.env(thread, active)

    async def _state(self, offer: McpOffer, number: int, env: ThreadEnv) -> McpServerState:
        listing = offer.listings[number]
        name = listing.server.name
        tools = [tool for tool in offer.tools if _server(tool) == name]
        clashes = [error for server, error in offer.faults if server == name]
        is_ready = listing.status == "ready"
        offered = await self._offers.prompts(listing.server, env) if is_ready else McpPrompts()
        return McpServerState(
            name=name,
            transport=listing.server.transport,
            status=listing.status,
            protocol=listing.protocol,
            tools=tuple(tools),
            faults=(*listing.faults, *clashes, *offered.faults),
            held=tuple([each for each in offer.held if each.server == name]),
            instructions=listing.instructions,
            prompts=offered.prompts,
        )


def _texts(arguments: object) -> Mapping[str, str]:
    """Return the arguments of a prompt. Raises `InvalidRequest`."""
    if arguments is None:
        return {}
    if isinstance(arguments, Mapping):
        # isinstance does not narrow the type of its items
        mapping = cast("Mapping[object, object]", arguments)
        if misfit([*mapping, *mapping.values()], str) is None:
            return cast("Mapping[str, str]", mapping)
    raise InvalidRequest("The arguments of a prompt must be texts by name.")


def _of_tools(state: McpServerState, withheld: Sequence[ToolError]) -> list[ListingError]:
    names = {tool.name for tool in state.tools}
    return [ListingError(message=each.message, tool=each.tool) for each in withheld if each.tool in names]


def _server(tool: Tool) -> str | None:
    return tool.relation.server.name if isinstance(tool.relation, McpCall) else None
