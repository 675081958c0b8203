"""Tools of an agent's MCP servers: their definitions, those held back because they have changed, the next checks."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import LIFECYCLE, reserved
from toolwright.core.env.env import EnvVar
from toolwright.core.env.redact import NOTHING
from toolwright.core.errors import CannotUnseal
from toolwright.core.journal.agent_effects import HoldMcpTool, PinMcpTool, SetTimer, UnholdMcpTool
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.rows import Put
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.listing import ListingError, McpListing, McpPrompts, side_by_side, within_share
from toolwright.core.mcp.servers import (
    McpDefinition,
    McpPromptText,
    McpServers,
    McpTask,
    McpUnavailable,
    task_timer,
)
from toolwright.core.ports import Clock
from toolwright.core.results import RemoteTask
from toolwright.core.threads.call import Call
from toolwright.core.tools.http.url_template import Unfillable
from toolwright.core.tools.mcp import McpCall, McpServer, McpTarget, target_of
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.env import ThreadEnv

MIN_POLL_INTERVAL, MAX_POLL_INTERVAL = 0.2, 60.0
"""Minimum and maximum seconds between two polls of a task, whatever its server requests."""
USUAL = 1.0  # if the server does not request an interval
FIRST_WAIT = 5.0
"""Seconds that a run waits for the first listing of a server. After that it continues without the server's tools."""
MAX_SHARES = 100  # agents whose tools are known to fit or are shortened


@dataclass(frozen=True, slots=True)
class HeldBackTools:
    """The listings without the tools that are held back, these tools, and the changes to be recorded."""

    listings: Sequence[McpListing]
    tools: tuple[McpDefinition, ...]
    news: tuple[HoldMcpTool | UnholdMcpTool, ...]


def hold_back(
    agent_id: str, listings: Sequence[McpListing], definitions: Sequence[McpDefinition], at: datetime
) -> HeldBackTools:
    """Remove the tools of servers with `hold_changes` whose definition differs from the first used one."""
    first = {(each.server, each.tool): each for each in definitions}
    allowed: list[McpListing] = []
    held: list[McpDefinition] = []
    changes: list[HoldMcpTool | UnholdMcpTool] = []
    for listing in listings:
        if not listing.server.hold_changes:
            allowed.append(listing)
            continue
        tools: list[Tool] = []
        for tool in listing.tools:
            pinned = first.get((listing.server.name, tool.name))
            digest = _digest(tool)
            if pinned is None or pinned.digest == digest:
                tools.append(tool)
                if pinned is not None and pinned.held is not None:
                    changes.append(
                        UnholdMcpTool(agent_id=agent_id, server=pinned.server, tool=pinned.tool, at=at)
                    )
                continue
            definition: JSONObject = {"description": tool.description, "inputSchema": tool.parameters}
            held.append(changed(pinned, held=digest, definition=definition))
            if pinned.held != digest:
                hold = HoldMcpTool(
                    agent_id=agent_id,
                    server=pinned.server,
                    tool=pinned.tool,
                    held=digest,
                    definition=definition,
                    at=at,
                )
                changes.append(hold)
        allowed.append(changed(listing, tools=tuple(tools)))
    return HeldBackTools(allowed, tuple(held), tuple(changes))


def pin(agent_id: str | None, tool: Tool, at: datetime) -> tuple[PinMcpTool, ...]:
    """Return the effect that stores the definition of a called tool if its server has `hold_changes`."""
    call = tool.relation
    if agent_id is None or not isinstance(call, McpCall) or not call.server.hold_changes:
        return ()
    definition = McpDefinition(
        agent_id=agent_id, server=call.server.name, tool=call.tool, digest=call.digest, updated_at=at
    )
    return (PinMcpTool(definition=definition),)


def _digest(tool: Tool) -> str:
    return tool.relation.digest if isinstance(tool.relation, McpCall) else ""


def next_check(now: datetime, seconds: float | None) -> datetime:
    """Return the time of the next poll, after the seconds that the server requests, within limits."""
    wanted = USUAL if seconds is None else seconds
    return now + timedelta(seconds=min(max(wanted, MIN_POLL_INTERVAL), MAX_POLL_INTERVAL))


def follow(
    call: Call, agent_id: str, task: RemoteTask, space_id: str | None, now: datetime
) -> tuple[Effect, ...]:
    """Return the effects that start polling the task of a call. Its questions are shown in that space."""
    row = McpTask(
        call_id=call.id,
        thread_id=call.thread_id,
        agent_id=call.agent or agent_id,
        server=task.server,
        task_id=task.id,
        created_at=now,
        output=task.output,
        place=task.place,
        session=task.session,
        space_id=space_id,
    )
    return (Put(record=row), SetTimer(name=task_timer(call.id), due=next_check(now, task.poll)))


_Share: TypeAlias = tuple[Sequence[Tool], Sequence[tuple[str, ListingError]]]


@dataclass(frozen=True, slots=True)
class McpOffer:
    """The tools of all servers under the names that the agent calls them by. Equal offers have the same `key`.

    `held` are the tools held back since they changed; `news` are the changes to be recorded. `faults` are those of the
    offer, by server: names that clash, and definitions that exceed their share of a request to the agent's model.
    """

    tools: Sequence[Tool]
    key: tuple[object, ...]
    listings: Sequence[McpListing]
    faults: Sequence[tuple[str, ListingError]]
    held: tuple[McpDefinition, ...] = ()
    news: tuple[HoldMcpTool | UnholdMcpTool, ...] = ()

    @property
    def instructions(self) -> tuple[tuple[str, str], ...]:
        """The servers' instructions for the model, by server name."""
        instructions = [(each.server.name, each.instructions) for each in self.listings]
        return tuple([(name, text) for name, text in instructions if text])


NO_SERVERS = McpOffer((), (), (), ())


class McpOffers:
    """Requests the tools of the agents' servers. An unavailable server does not block the other tools of a run.

    `most_tokens` returns the maximum tokens of a request to an agent's model, or None if it is unknown.
    """

    def __init__(
        self,
        servers: McpServers,
        store: Store,
        clock: Clock,
        most_tokens: Callable[[ActiveAgent], Awaitable[int | None]],
        first_wait: float = FIRST_WAIT,
    ) -> None:
        self._servers = servers
        self._most_tokens = most_tokens
        self._shares: OrderedDict[object, tuple[ActiveAgent, _Share]] = OrderedDict()
        self._store = store
        self._clock = clock
        self._first_wait = first_wait

    async def tools_for(self, active: ActiveAgent, env: ThreadEnv) -> McpOffer:
        """Return the tools that the agent has in a thread with that env."""
        if not active.mcp:
            return NO_SERVERS
        listings: Sequence[McpListing] = await asyncio.gather(
            *[self._listing(server, env) for server in active.mcp]
        )
        held = HeldBackTools(listings, (), ())
        if any(server.hold_changes for server in active.mcp):
            known = await self._store.mcp.definitions(active.agent_id)
            held = hold_back(active.agent_id, listings, known, self._clock.now())
        own = {tool.name for tool in active.tools}
        built_in = {*reserved(active.agent.toolkits), *LIFECYCLE}
        tools, errors = side_by_side(held.listings, own - built_in, built_in)
        key = (*[(each.server.name, each.number) for each in listings], *[each.tool for each in held.tools])
        offered, cut = await self._within_share(active, key, tools)
        if cut:
            key = (*key, *cut)
        return McpOffer(offered, key, listings, (*errors, *cut), held.tools, held.news)

    async def _within_share(
        self, active: ActiveAgent, key: tuple[object, ...], tools: Sequence[Tool]
    ) -> _Share:
        """Return the tools within their share of a request, and the errors. The same object while nothing changes."""
        tokens = await self._most_tokens(active) if tools else None
        if tokens is None:
            return tools, ()
        known = self._shares.get((id(active), tokens, key))
        if known is None or known[0] is not active:
            known = active, await asyncio.to_thread(within_share, tools, tokens)
            self._shares[id(active), tokens, key] = known
            if len(self._shares) > MAX_SHARES:
                self._shares.popitem(last=False)
        return known[1]

    async def prompts(self, server: McpServer, env: ThreadEnv) -> McpPrompts:
        """Return the prompts that a server offers in a thread with that env. No run waits for them."""
        target = target_in(server, env)
        return (
            McpPrompts()
            if isinstance(target, ListingError)
            else await self._servers.prompts(target, self._first_wait)
        )

    async def prompt(
        self, server: McpServer, env: ThreadEnv, name: str, arguments: Mapping[str, str]
    ) -> McpPromptText:
        """Return a prompt of a server with these arguments. Raises `McpUnavailable` and `McpRefused`."""
        target = target_in(server, env)
        if isinstance(target, ListingError):
            raise McpUnavailable(target.message)
        return await self._servers.prompt(target, name, arguments)

    async def _listing(self, server: McpServer, env: ThreadEnv) -> McpListing:
        target = target_in(server, env)
        if isinstance(target, ListingError):
            return McpListing(server=server, status="down", faults=(target,))
        return await self._servers.listing(target, self._first_wait)


def env_of_agent(active: ActiveAgent) -> ThreadEnv:
    """Return the env of the agent alone, without a thread."""
    return ThreadEnv([({}, active.scoped)], ({}, *active.env), active.tenvs, NOTHING, active.tool_env)


def target_in(server: McpServer, env: ThreadEnv) -> McpTarget | ListingError:
    """Return the server with the thread's variables filled in, or the error if that is impossible."""
    values: dict[str, str] = {}
    secret: set[str] = set()
    for name in server.variables:
        var = _value(env, name)
        if var is None:
            return ListingError(message=f"The server needs the variable {name!r}, which is not set.")
        values[name] = var.value
        if var.type == "secret":
            secret.add(name)
    try:
        return target_of(server, values, secret)
    except Unfillable as error:
        return ListingError(message=str(error))


def _value(env: ThreadEnv, name: str) -> EnvVar | None:
    try:
        return env.get(name)
    except CannotUnseal:
        return None
