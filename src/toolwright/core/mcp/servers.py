"""MCP servers: the port to their lists and tasks, and their records in the journal."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.listing import ListingError, McpListing, McpPrompt, McpPrompts, Status
from toolwright.core.results import Attachment, ToolResult
from toolwright.core.tools.mcp import McpTarget
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Record, Stored, Value, field

TASK = "mcp"
"""Kind of the timers that poll tasks; their names contain the call."""


def task_timer(call_id: str) -> str:
    """Return the name of the timer that polls the task of that call."""
    return f"{TASK}:{call_id}"


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


class McpDefinition(Record):
    """The definition of a server's tool at its first use by an agent, by its digest.

    `held` is the digest of a changed definition that waits to be accepted, and `definition` its content; both are None
    if no definition waits.
    """

    STORED = Stored(key=("agent_id", "server", "tool"), owner="agent_id")

    agent_id: str
    server: str
    tool: str
    digest: str
    held: str | None = None
    definition: JSONObject | None = None
    updated_at: datetime


TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]


class McpServerState(Value, gc=True):
    """An MCP server of an agent with the agent's tools, as shown to a service, and tools that are held back."""

    name: str
    transport: str
    status: Status
    protocol: str | None
    tools: tuple[Tool, ...]
    faults: tuple[ListingError, ...]
    held: tuple[McpDefinition, ...] = ()
    instructions: str | None = None
    prompts: tuple[McpPrompt, ...] = ()


class McpPromptMessage(Value):
    """A message of a prompt. Its files are attachments."""

    role: Literal["user", "assistant"]
    content: str
    attachments: tuple[Attachment, ...] = ()


class McpPromptText(Value):
    """A prompt that its server has filled with the arguments of a request."""

    messages: tuple[McpPromptMessage, ...]
    description: str | None = None


class McpRefused(Exception):
    """The server has rejected the request. The message is from the server."""


class McpUnavailable(Exception):
    """The server is unavailable. The message has the reason."""


class McpTaskUnknown(Exception):
    """The server does not know the task. The message is from the server."""


class McpTaskState(Value):
    """State of a task at a server: `result` once it has finished, `questions` by key while it waits for answers.

    `poll` is the number of seconds after which the server asks to be polled again.
    """

    status: TaskStatus
    poll: float | None = None
    result: ToolResult | None = None
    questions: Mapping[str, JSONObject] | None = None
    message: str | None = None


class McpServers(Protocol):
    """MCP servers. A connection is opened with the first request."""

    async def listing(self, target: McpTarget, seconds: float) -> McpListing:
        """Return the last listed tools of the server; wait up to that many seconds for the first list."""
        ...

    async def prompts(self, target: McpTarget, seconds: float) -> McpPrompts:
        """Return the prompts of the server; wait up to that many seconds."""
        ...

    async def prompt(self, target: McpTarget, name: str, arguments: Mapping[str, str]) -> McpPromptText:
        """Return a prompt with these arguments. Raises `McpUnavailable` and `McpRefused`."""
        ...

    async def task(
        self, target: McpTarget, task_id: str, output: JSONObject | None = None, session: str | None = None
    ) -> McpTaskState:
        """Return the state of a task, whose structured result must match the schema `output`.

        The request is sent in the HTTP `session` in which the task was created, if the server still has that session.
        Raises `McpUnavailable`, and `McpTaskUnknown` if the server does not know the task.
        """
        ...

    async def answer_task(
        self, target: McpTarget, task_id: str, answers: Mapping[str, JSON], session: str | None = None
    ) -> None:
        """Submit the answers to the questions of a task, by key. Raises the errors of `task`."""
        ...

    async def cancel_task(self, target: McpTarget, task_id: str, session: str | None = None) -> None:
        """Request the cancellation of a task. Raises the errors of `task`."""
        ...
