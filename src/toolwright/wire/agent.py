"""Agents on the wire, with their state (goals, memories, plans), inboxes and MCP servers: shapes and JSON."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from toolwright.core.agents.agent import Agent as AgentRow
from toolwright.core.agents.agent import agent_of_keeper
from toolwright.core.agents.memory import Block as BlockRow
from toolwright.core.agents.memory import Passage as PassageRow
from toolwright.core.agents.mind import Goal as GoalRow
from toolwright.core.agents.mind import Memory as MemoryRow
from toolwright.core.agents.mind import Plan as PlanRow
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp import listing
from toolwright.core.mcp.servers import McpServerState
from toolwright.core.threads.inbox import InboxEvent as InboxEventRow
from toolwright.core.threads.inbox import InboxStatus, InboxType
from toolwright.core.tools.mcp import McpCall
from toolwright.core.tools.tool import Tool
from toolwright.wire.shape import Absent, Also, JsonObject, Shape, wire_name


class Agent(Shape, title="AgentShape"):
    """An agent."""

    id: Annotated[str, Also("agentId")]
    entity_id: str
    name: str
    description: str = ""
    type: str
    open_to: str | tuple[str, ...] = Field(
        description="Who may open threads with it: `everyone`, `members`, `nobody`, or people with one of these claims."
    )
    home_tools: str
    shared_memory: bool
    config: Absent[JsonObject] = Field(
        None, description="Of an agent that was configured as JSON, without any values."
    )


def agent_json(agent: AgentRow, config: JSONObject | None = None) -> JSONObject:
    """Render `{id, agentId, entityId, name, description, type, openTo, homeTools, sharedMemory, config?}`.

    `config` is present for an agent that was configured as JSON.
    """
    fields: JSONObject = {
        "id": agent.id,
        "agentId": agent.id,
        "entityId": agent.entity_id,
        "name": agent.name,
        "description": agent.description,
        "type": agent.type,
        "openTo": agent.open_to if isinstance(agent.open_to, str) else [*(agent.open_to or ())],
        "homeTools": agent.home_tools,
        "sharedMemory": agent.shared_memory,
    }
    return fields if config is None else {**fields, "config": config}


class Goal(Shape, title="GoalShape"):
    """A goal of an agent; `status` and `priority` are free text of the agent."""

    id: str
    description: str
    status: str
    priority: str


def goal_json(goal: GoalRow) -> JSONObject:
    """Render `{id, description, status, priority}`."""
    return {
        "id": goal.id,
        "description": goal.description,
        "status": goal.status,
        "priority": goal.priority,
    }


class Memory(Shape, title="MemoryShape"):
    """A memory of an agent: a text under a key."""

    key: str
    value: str


def memory_json(memory: MemoryRow) -> JSONObject:
    """Render `{key, value}`."""
    return {"key": memory.key, "value": memory.value}


class Plan(Shape, title="PlanShape"):
    """A plan: the agent receives the instruction at `next_run_at`. `cron`, in `timezone`, is set if it is repeated."""

    id: str
    name: str
    instruction: str
    next_run_at: datetime
    cron: Absent[str] = None
    timezone: Absent[str] = None


def plan_json(plan: PlanRow) -> JSONObject:
    """Render `{id, name, instruction, nextRunAt, cron?, timezone?}`."""
    fields: JSONObject = {
        "id": plan.id,
        "name": plan.name,
        "instruction": plan.instruction,
        "nextRunAt": plan.next_run_at.isoformat(),
    }
    optional: JSONObject = {"cron": plan.cron, "timezone": plan.timezone}
    return fields | {name: value for name, value in optional.items() if value is not None}


class Block(Shape, title="BlockShape"):
    """A core memory block that an agent reads: its own, or one that another agent, its owner, has linked it to.

    `owner_id` is the `id` of the owner, the only agent that can change it. `is_shared` is true if other agents read it
    too.
    """

    label: str
    content: str
    is_shared: bool
    owner_id: str
    updated_at: datetime


def block_json(block: BlockRow) -> JSONObject:
    """Render `{label, content, isShared, ownerId, updatedAt}`."""
    return {
        "label": block.label,
        "content": block.content,
        "isShared": block.is_shared,
        "ownerId": agent_of_keeper(block.agent_id),
        "updatedAt": block.updated_at.isoformat(),
    }


class Passage(Shape, title="PassageShape"):
    """An archival passage of an agent."""

    id: str
    content: str
    tags: tuple[str, ...]
    created_at: datetime


def passage_json(passage: PassageRow) -> JSONObject:
    """Render `{id, content, tags, createdAt}`."""
    return {
        "id": passage.id,
        "content": passage.content,
        "tags": [*passage.tags],
        "createdAt": passage.created_at.isoformat(),
    }


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


def inbox_json(event: InboxEventRow) -> JSONObject:
    """Render `{eventId, type, status, attempts, data, timestamp}`."""
    return {
        "eventId": event.event_id,
        "type": event.type,
        "status": event.status,
        "attempts": event.attempts,
        "data": event.content,
        "timestamp": event.created_at.isoformat(),
    }


class McpTool(Shape, title="McpToolShape"):
    """A tool of a server: `name` is the name for the agent, `tool` the name at the server."""

    name: str
    tool: str
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


def mcp_server_json(state: McpServerState) -> JSONObject:
    """Render `{name, transport, status, protocol?, instructions?, tools, faults, held, prompts}`."""
    tools: list[JSON] = [_tool(each) for each in state.tools]
    errors: list[JSON] = [tool_fault_json(each.tool, each.message) for each in state.faults]
    held: list[JSON] = [
        _without_none({"tool": each.tool, "definition": each.definition}) for each in state.held
    ]
    fields: JSONObject = {
        "name": state.name,
        "transport": state.transport,
        "status": state.status,
        "tools": tools,
        "faults": errors,
        "held": held,
        "prompts": [_prompt(each) for each in state.prompts],
    }
    return {**fields, **_without_none({"protocol": state.protocol, "instructions": state.instructions})}


def tool_fault_json(tool: str | None, message: str) -> JSONObject:
    """Render `{message, tool?}`."""
    return _without_none({"message": message, "tool": tool})


def _without_none(fields: JSONObject) -> JSONObject:
    return {name: each for name, each in fields.items() if each is not None}


def _prompt(prompt: listing.McpPrompt) -> JSONObject:
    arguments: list[JSON] = [
        {**_without_none({"name": each.name, "description": each.description}), "required": each.required}
        for each in prompt.arguments
    ]
    return {
        **_without_none({"name": prompt.name, "description": prompt.description}),
        "arguments": arguments,
    }


def _tool(tool: Tool) -> JSONObject:
    name_at_server = tool.relation.tool if isinstance(tool.relation, McpCall) else tool.name
    return {
        "name": tool.name,
        "tool": name_at_server,
        "description": tool.description,
        "visible": tool.visible,
    }
