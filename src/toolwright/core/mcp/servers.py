"""The port to MCP servers: their lists, and the tasks that they execute for calls."""

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.listing import McpFault, McpListing, McpPrompt, McpPrompts, Status
from toolwright.core.mcp.records import McpDefinition
from toolwright.core.results.content import Attachment
from toolwright.core.results.result import ToolResult
from toolwright.core.tools.mcp import McpTarget
from toolwright.core.tools.tool import Tool
from toolwright.core.value import value

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]


@value
class McpServerState:
    """An MCP server of an agent, as a service sees it: the tools that the agent has, those that wait to be accepted."""

    name: str
    transport: str
    status: Status
    protocol: str | None
    tools: tuple[Tool, ...]
    faults: tuple[McpFault, ...]
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
    """The server has refused the request; the words are its own."""


class McpUnavailable(Exception):
    """The server cannot be asked now; the words say why."""


class McpTaskGone(Exception):
    """The server knows of no such task; the words are its own."""


@value
class McpTaskState:
    """What a server says of a task: `result` once it is over, `questions` by their keys while it waits for answers.

    `poll` is how many seconds from now it wants to be asked again.
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
