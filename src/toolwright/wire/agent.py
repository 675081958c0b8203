"""Agents on the wire, with their state (goals, memories, plans), inboxes and MCP servers: shapes and JSON."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from toolwright.core.agents.agent import agent_of_keeper
from toolwright.core.json_value import JSON
from toolwright.core.threads.inbox import InboxStatus, InboxType
from toolwright.core.tools.mcp import McpCall
from toolwright.core.tools.tool import Tool
from toolwright.wire.rendering import GIVEN, Absent, Also, From, WrittenBy
from toolwright.wire.shape import JsonObject, Shape, wire_name


def _open_to_json(open_to: str | Iterable[str] | None) -> JSON:
    return open_to if isinstance(open_to, str) else [*(open_to or ())]


class Agent(Shape, title="AgentShape"):
    """An agent."""

    id: Annotated[str, Also("agentId")]
    entity_id: str
    name: str
    description: str = ""
    type: str
    open_to: Annotated[str | tuple[str, ...], WrittenBy(_open_to_json)] = Field(
        description="Who may open threads with it: `everyone`, `members`, `nobody`, or people with one of these claims."
    )
    home_tools: str
    shared_memory: bool
    config: Annotated[Absent[JsonObject], GIVEN] = Field(
        None, description="Of an agent that was configured as JSON, without any values."
    )


class Goal(Shape, title="GoalShape"):
    """A goal of an agent; `status` and `priority` are free text of the agent."""

    id: str
    description: str
    status: str
    priority: str


class Memory(Shape, title="MemoryShape"):
    """A memory of an agent: a text under a key."""

    key: str
    value: str


class Plan(Shape, title="PlanShape"):
    """A plan: the agent receives the instruction at `next_run_at`. `cron`, in `timezone`, is set if it is repeated."""

    id: str
    name: str
    instruction: str
    next_run_at: datetime
    cron: Absent[str] = None
    timezone: Absent[str] = None


class Block(Shape, title="BlockShape"):
    """A core memory block that an agent reads: its own, or one that another agent, its owner, has linked it to.

    `owner_id` is the `id` of the owner, the only agent that can change it. `is_shared` is true if other agents read it
    too.
    """

    label: str
    content: str
    is_shared: bool
    owner_id: Annotated[str, From("agent_id"), WrittenBy(agent_of_keeper)]
    updated_at: datetime


class Passage(Shape, title="PassageShape"):
    """An archival passage of an agent."""

    id: str
    content: str
    tags: tuple[str, ...]
    created_at: datetime


class PromptSection(Shape):
    """A part of a prompt."""

    name: str
    text: str


class SystemPrompt(Shape, title="PromptShape"):
    """The system prompt of an agent, as one text and by section."""

    prompt: str
    sections: tuple[PromptSection, ...]


class InboxEvent(Shape, title="InboxEventShape"):
    """An event of an inbox: `processing` while the run that reads it is open, `failed` after its last attempt."""

    event_id: str
    type: InboxType
    status: InboxStatus
    attempts: int
    content: Annotated[
        JsonObject, wire_name("data"), Field(description="The event's content. Its form depends on the type.")
    ]
    created_at: Annotated[datetime, wire_name("timestamp")]


def _name_at_server(tool: Tool) -> str:
    return tool.relation.tool if isinstance(tool.relation, McpCall) else tool.name


class McpTool(Shape, title="McpToolShape"):
    """A tool of a server: `name` is the name for the agent, `tool` the name at the server."""

    name: str
    tool: Annotated[str, From(_name_at_server)]
    description: str
    visible: bool = False


class McpServerError(Shape, title="McpFaultShape"):
    """An error of a server, or of one of its tools."""

    tool: Absent[str] = None
    message: str


class HeldBackTool(Shape, title="McpHeldShape"):
    """A tool whose definition has changed since its first call. It is unavailable until the change is accepted."""

    tool: str
    definition: Absent[JsonObject] = Field(None, description="The server's current definition.")


class McpPromptArgument(Shape, title="McpPromptArgumentShape"):
    """An argument of a prompt, which is text."""

    name: str
    description: Absent[str] = None
    required: bool = False


class McpPrompt(Shape, title="McpPromptShape"):
    """A prompt that a server offers to people."""

    name: str
    description: Absent[str] = None
    arguments: list[McpPromptArgument] = Field(default_factory=list[McpPromptArgument])


class McpServer(Shape, title="McpServerShape"):
    """An MCP server of an agent."""

    name: str
    transport: Literal["http", "sse", "stdio"]
    status: Literal["connecting", "ready", "down"]
    protocol: Absent[str] = Field(None, description="The revision of MCP in use.")
    instructions: Absent[str] = Field(None, description="The server's instructions for the model.")
    tools: list[McpTool] = Field(default_factory=list[McpTool])
    faults: list[McpServerError] = Field(default_factory=list[McpServerError])
    held: list[HeldBackTool] = Field(default_factory=list[HeldBackTool])
    prompts: list[McpPrompt] = Field(default_factory=list[McpPrompt])
