"""Effects of a unit on tasks of MCP servers, on definitions of their tools, and calls that ask for a server."""

from datetime import datetime
from typing import TypeAlias

from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.records import McpDefinition, McpTask
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventDraft
from toolwright.core.value import value


@value
class SetMcpTask:
    """A task is new or has changed."""

    task: McpTask


@value
class DropMcpTask:
    """Delete the task of a call, if it exists."""

    call_id: str


@value
class PinMcpTool:
    """An agent uses a tool for the first time; nothing happens if it has used that tool before."""

    definition: McpDefinition


@value
class McpToolEffect:
    """The base of effects on the definition of a tool that an agent has used."""

    agent_id: str
    server: str
    tool: str
    at: datetime


@value
class HoldMcpTool(McpToolEffect):
    """A tool has another definition, whose digest is `held`: it waits to be accepted, instead of one that did.

    Nothing happens if the tool is not there, has this digest, or holds this one already.
    """

    held: str
    definition: JSONObject


@value
class AcceptMcpTool(McpToolEffect):
    """Accept the held definition of a tool. Conflict: `mcp_tool`, if it is not `held`."""

    held: str


@value
class UnholdMcpTool(McpToolEffect):
    """A tool has its old definition again: none waits any more. Nothing happens if none did."""


@value
class AskBelow:
    """Create a waiting call from outside any run, as a child of another call of its thread.

    That call is its `parent_id`; the thread's subscribers receive the `events`. Conflict: `call`, if a call with this
    id exists, or if the parent does not exist, belongs to another thread or has ended; `thread`, if the thread does not
    exist.
    """

    call: Call
    events: tuple[EventDraft, ...] = ()


McpEffect: TypeAlias = (
    SetMcpTask | DropMcpTask | PinMcpTool | HoldMcpTool | AcceptMcpTool | UnholdMcpTool | AskBelow
)
