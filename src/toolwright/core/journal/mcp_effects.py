"""Effects of a unit of work on definitions of MCP servers' tools; and calls on behalf of a server."""

from datetime import datetime

from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.records import McpDefinition
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventDraft
from toolwright.core.value import value


@value
class PinMcpTool:
    """Record the definition of a tool at its first use by an agent. No effect at later uses."""

    definition: McpDefinition


@value
class McpToolEffect:
    """Base of effects on the recorded definition of a tool."""

    agent_id: str
    server: str
    tool: str
    at: datetime


@value
class HoldMcpTool(McpToolEffect):
    """Hold a tool back because its definition has changed: `held` is the digest to be accepted.

    No effect if the tool is not recorded, has this digest, or is already held back with it.
    """

    held: str
    definition: JSONObject


@value
class AcceptMcpTool(McpToolEffect):
    """Accept the held definition of a tool. Conflict: `mcp_tool`, if it is not `held`."""

    held: str


@value
class UnholdMcpTool(McpToolEffect):
    """Release a held-back tool whose old definition is in use again. No effect if it is not held back."""


@value
class AddNestedCall:
    """Create a waiting call from outside any run, as a child of another call of its thread.

    The other call is its `parent_id`. The thread's subscribers receive the `events`. Conflict: `call`, if a call with
    this id exists, or if the parent does not exist, belongs to another thread or has ended; `thread`, if the thread
    does not exist.
    """

    call: Call
    events: tuple[EventDraft, ...] = ()
