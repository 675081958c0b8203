"""The app's tools as an MCP host lists them: whole schemas, hints, pages."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ListToolsResult, ToolAnnotations, ToolExecution
from mcp_types import Tool as McpTool

from toolwright.core.arguments.schema import with_definitions
from toolwright.core.json_value import JSONObject
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset

PAGE = 200  # tools in one answer
FRESH = 60_000  # milliseconds that a host may take a list for fresh


class ToolPages:
    """A toolset in pages, each rendered once. A cursor is the place of the page's first tool, opaque to hosts."""

    def __init__(self, tools: Toolset) -> None:
        self.tools = tools
        self._listed = list(tools)
        self._rendered: dict[int, ListToolsResult] = {}

    def page(self, cursor: str | None) -> ListToolsResult:
        """One page. Raises `MCPError` for a cursor that is none of ours."""
        first = 0 if cursor is None else _place(cursor, len(self._listed))
        if first not in self._rendered:
            last = first + PAGE
            self._rendered[first] = ListToolsResult(
                tools=[told(tool) for tool in self._listed[first:last]],
                next_cursor=_cursor(last) if last < len(self._listed) else None,
                ttl_ms=FRESH,
                cache_scope="private",
            )
        return self._rendered[first]

    def find(self, name: str) -> Tool:
        """The tool of that name. Raises the protocol's error for one that there is not."""
        tool = self.named(name)
        if tool is None:
            raise unknown(name)
        return tool

    def named(self, name: str) -> Tool | None:
        """The tool of that name, None where there is none."""
        if name not in self.tools:
            return None
        return self.tools[name]

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """The schema by which the headers of a call are judged, None for a tool that there is not."""
        tool = self.named(name)
        return None if tool is None else tool.offered


def unknown(name: str) -> MCPError:
    """Return the protocol's error for a tool that is not there."""
    return MCPError(INVALID_PARAMS, f"Unknown tool: {name[:200]}")


def told(tool: Tool) -> McpTool:
    """The tool as hosts are told of it."""
    return McpTool(
        name=tool.name,
        title=None if tool.meta is None else tool.meta.title,
        description=tool.description or None,
        input_schema={"type": "object", **tool.offered},
        output_schema=output_of(tool),
        annotations=ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
        ),
        execution=ToolExecution(task_support="optional"),
    )


def output_of(tool: Tool) -> JSONObject | None:
    """The schema of the tool's results, where they are objects and judged by it; None where nobody knows."""
    if tool.result_judge is None or tool.meta is None or tool.meta.output is None:
        return None
    if tool.meta.output.get("type") != "object":
        return None
    return with_definitions(tool.meta.output, tool.meta.definitions)


def _cursor(place: int) -> str:
    return urlsafe_b64encode(str(place).encode()).decode()


def _place(cursor: str, count: int) -> int:
    try:
        place = int(urlsafe_b64decode(cursor.encode()).decode())
    except (binascii.Error, ValueError):
        place = -1
    if not (0 < place < count and place % PAGE == 0):
        raise MCPError(INVALID_PARAMS, "Invalid cursor")
    return place
