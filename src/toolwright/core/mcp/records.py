"""Records of MCP in the journal: tasks of servers, and definitions of tools that agents rely on."""

from dataclasses import field
from datetime import datetime

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.value import value

TASK = "mcp"
"""The kind of the timers that ask about tasks; what they name is the call."""


def task_timer(call_id: str) -> str:
    """Return the name of the timer that asks about the task of that call."""
    return f"{TASK}:{call_id}"


@value
class McpTask:
    """A task that an MCP server executes for a call.

    `agent_id` is the agent that made the call, `task_id` what the server calls the task. `questions` are those that the
    server has asked of it: the key of each, and the id of the call that asks it; they are shown in the space
    `space_id`, None where the run is seen in none. `output` is the schema that its structured result must fit, `place`
    the digest of where its server is; None for a task of before there were these. `session` is the id of the HTTP
    session in which the server has made it, None where the server has no sessions.
    """

    call_id: str
    thread_id: str
    agent_id: str
    server: str
    task_id: str
    questions: JSONObject = field(default_factory=dict[str, JSON])
    created_at: datetime
    output: JSONObject | None = None
    place: str | None = None
    space_id: str | None = None
    session: str | None = None


@value
class McpDefinition:
    """The definition of a server's tool that an agent has used first, by its digest.

    `held` is the digest of another one that waits to be accepted, and `definition` is what that one says; both are None
    where none waits.
    """

    agent_id: str
    server: str
    tool: str
    digest: str
    held: str | None = None
    definition: JSONObject | None = None
    updated_at: datetime
