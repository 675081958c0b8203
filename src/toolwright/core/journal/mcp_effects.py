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
    """The task of a call is over; nothing happens if there is none."""

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
    """The definition that waits is the tool's from now on; the guard `mcp_tool` fails if it is not the one `held`."""

    held: str


@value
class UnholdMcpTool(McpToolEffect):
    """A tool has its old definition again: none waits any more. Nothing happens if none did."""


@value
class AskBelow:
    """A call that waits for an answer is made from outside of any run, below another call of its thread.

    That one is its `parent_id`; the thread's followers are told the `events`. The guard `call` fails if a call with
    this id is there already, or if the parent is not there, is another thread's, or is over; the guard `thread` fails
    if there is no such thread.
    """

    call: Call
    events: tuple[EventDraft, ...] = ()


McpEffect: TypeAlias = (
    SetMcpTask | DropMcpTask | PinMcpTool | HoldMcpTool | AcceptMcpTool | UnholdMcpTool | AskBelow
)
