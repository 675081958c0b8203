"""The port to MCP servers: their lists, and the tasks that they execute for calls."""

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.listing import ListingError, McpListing, McpPrompt, McpPrompts, Status
from toolwright.core.mcp.records import McpDefinition
from toolwright.core.results.content import Attachment
from toolwright.core.results.result import ToolResult
from toolwright.core.tools.mcp import McpTarget
from toolwright.core.tools.tool import Tool
from toolwright.core.value import value

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]


@value
class McpServerState:
    """An MCP server of an agent, as a service sees it: the agent's tools, and changed ones that wait to be accepted."""

    name: str
    transport: str
    status: Status
    protocol: str | None
    tools: tuple[Tool, ...]
    faults: tuple[ListingError, ...]
    held: tuple[McpDefinition, ...] = ()
    instructions: str | None = None
    prompts: tuple[McpPrompt, ...] = ()


@value
class McpPromptMessage:
    """A message of a prompt, whose files are attachments."""

    role: Literal["user", "assistant"]
    content: str
    attachments: tuple[Attachment, ...] = ()


@value
class McpPromptText:
    """A prompt as its server has written it with the arguments of a request."""

    messages: tuple[McpPromptMessage, ...]
    description: str | None = None


class McpRefused(Exception):
    """The server has rejected the request; the message is its own."""


class McpUnavailable(Exception):
    """The server is unavailable now; the message has the reason."""


class McpTaskGone(Exception):
    """The server does not know the task; the message is its own."""


@value
class McpTaskState:
    """State of a task at a server: `result` once it has finished, `questions` by their keys while it waits for answers.

    `poll` is the number of seconds after which the server asks to be polled again.
    """

    status: TaskStatus
    poll: float | None = None
    result: ToolResult | None = None
    questions: Mapping[str, JSONObject] | None = None
    message: str | None = None


class McpServers(Protocol):
    """MCP servers, connected to when they are first asked for something."""

    async def listing(self, target: McpTarget, seconds: float) -> McpListing:
        """Return the tools that the server listed last; one that never did is waited for so long, in seconds."""
        ...

    async def prompts(self, target: McpTarget, seconds: float) -> McpPrompts:
        """Return the prompts that the server offers, asked for so long, in seconds."""
        ...

    async def prompt(self, target: McpTarget, name: str, arguments: Mapping[str, str]) -> McpPromptText:
        """Return a prompt with these arguments. Raises `McpUnavailable` and `McpRefused`."""
        ...

    async def task(
        self, target: McpTarget, task_id: str, output: JSONObject | None = None, session: str | None = None
    ) -> McpTaskState:
        """Return the state of a task, whose structured result must fit the schema `output`.

        It is asked in the HTTP `session` in which it was made, if the server still has that. Raises `McpUnavailable`,
        and `McpTaskGone` where the server knows of none.
        """
        ...

    async def answer_task(
        self, target: McpTarget, task_id: str, answers: Mapping[str, JSON], session: str | None = None
    ) -> None:
        """Hand in the answers to its questions, by their keys. Raises what `task` does."""
        ...

    async def cancel_task(self, target: McpTarget, task_id: str, session: str | None = None) -> None:
        """Ask the server to stop. Raises what `task` does."""
        ...
