"""Changed definitions of MCP tools: held back from agents that used the previous one, until they are accepted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from toolwright.core.journal.effects import Effect, HoldMcpTool, PinMcpTool, Put, SetTimer, UnholdMcpTool
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.listing import McpListing
from toolwright.core.mcp.servers import McpDefinition, McpTask, task_timer
from toolwright.core.results import RemoteTask
from toolwright.core.threads.call import Call
from toolwright.core.tools.mcp import McpCall
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed


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


LEAST, MOST = 0.2, 60.0
"""Minimum and maximum seconds between two polls of a task, whatever its server requests."""
USUAL = 1.0  # if the server does not request an interval


def next_check(now: datetime, seconds: float | None) -> datetime:
    """Return the time of the next poll, after the seconds that the server requests, within limits."""
    return now + timedelta(seconds=min(max(USUAL if seconds is None else seconds, LEAST), MOST))


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
