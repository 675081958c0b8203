"""MCP servers of an agent on the wire: their shapes, and their JSON."""

from typing import Literal

from pydantic import Field

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp import listing
from toolwright.core.mcp.servers import McpServerState
from toolwright.core.tools.mcp import McpCall
from toolwright.core.tools.tool import Tool
from toolwright.wire.shape import Absent, JsonObject, Shape


class McpTool(Shape, title="McpToolShape"):
    """A tool that the agent has of a server: the name that it calls it by, and the one that it has there."""

    name: str
    tool: str
    description: str
    visible: bool = False


class McpFault(Shape, title="McpFaultShape"):
    """Something that is wrong with a server, or with one of its tools."""

    tool: Absent[str] = None
    message: str


class McpHeld(Shape, title="McpHeldShape"):
    """A tool whose definition has changed since it was called first: the agent has it again once that is accepted."""

    tool: str
    definition: Absent[JsonObject] = Field(None, description="What the server says of it now.")


class McpPromptArgument(Shape, title="McpPromptArgumentShape"):
    """An argument of a prompt: a text."""

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
    protocol: Absent[str] = Field(None, description="The revision that is spoken.")
    instructions: Absent[str] = Field(None, description="What the server says to the model.")
    tools: list[McpTool] = Field(default_factory=list[McpTool])
    faults: list[McpFault] = Field(default_factory=list[McpFault])
    held: list[McpHeld] = Field(default_factory=list[McpHeld])
    prompts: list[McpPrompt] = Field(default_factory=list[McpPrompt])


def mcp_server_json(state: McpServerState) -> JSONObject:
    """`{name, transport, status, protocol?, instructions?, tools, faults, held, prompts}`."""
    told: list[JSON] = [_tool(each) for each in state.tools]
    wrong: list[JSON] = [tool_fault_json(each.tool, each.message) for each in state.faults]
    waiting: list[JSON] = [
        _without_none({"tool": each.tool, "definition": each.definition}) for each in state.held
    ]
    fields: JSONObject = {
        "name": state.name,
        "transport": state.transport,
        "status": state.status,
        "tools": told,
        "faults": wrong,
        "held": waiting,
        "prompts": [_prompt(each) for each in state.prompts],
    }
    return {**fields, **_without_none({"protocol": state.protocol, "instructions": state.instructions})}


def tool_fault_json(tool: str | None, message: str) -> JSONObject:
    """`{message, tool?}`."""
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
    there = tool.relation.tool if isinstance(tool.relation, McpCall) else tool.name
    return {"name": tool.name, "tool": there, "description": tool.description, "visible": tool.visible}
