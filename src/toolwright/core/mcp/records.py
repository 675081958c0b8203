"""Records of MCP in the journal: tasks of servers, and definitions of tools that agents have used."""

from dataclasses import field
from datetime import datetime

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.value import Record, Stored, value

TASK = "mcp"
"""Kind of the timers that poll tasks; their names contain the call."""


def task_timer(call_id: str) -> str:
    """Return the name of the timer that polls the task of that call."""
    return f"{TASK}:{call_id}"


@value
class McpTask(Record):
    """A task that an MCP server executes for a call.

    `agent_id` is the agent that made the call, `task_id` the server's id of the task. `questions` are the server's
    questions about it: the key of each, and the id of its call. They are shown in the space `space_id`, or None if the
    run is not shown in a space. `output` is the schema of its structured result, `place` the digest of its server's
    location, or None for a task of an earlier version. `session` is the id of the HTTP session in which the server
    created it, or None if the server has no sessions.
    """

    STORED = Stored(key=("call_id",), owner="thread_id", order=("created_at", "call_id"))

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
    """The definition of a server's tool at its first use by an agent, by its digest.

    `held` is the digest of a changed definition that waits to be accepted, and `definition` its content; both are None
    if no definition waits.
    """

    agent_id: str
    server: str
    tool: str
    digest: str
    held: str | None = None
    definition: JSONObject | None = None
    updated_at: datetime
