"""The app's tools as an MCP host lists them: whole schemas, hints, pages."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ListToolsResult, ToolAnnotations, ToolExecution
from mcp_types import Tool as McpTool
from pydantic import TypeAdapter

from toolwright.core.arguments.faults import list_faults
from toolwright.core.arguments.judge import ResultJudge
from toolwright.core.arguments.schema import with_definitions
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.dependencies.hints import innermost
from toolwright.core.env.logs import logger
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.content import Attachment, AttachmentRef, ImageContent, TextContent
from toolwright.core.results.result import ToolResult
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
    output = output_of(tool)
    return McpTool(
        name=tool.name,
        title=None if tool.meta is None else tool.meta.title,
        description=tool.description or None,
        input_schema={"type": "object", **tool.offered},
        output_schema=None if output is None else output.schema,
        annotations=ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
        ),
        execution=ToolExecution(task_support="optional"),
    )


class Output:
    """The schema of a tool's structured results. `wraps`: a result is not an object and is sent as `{"result": …}`."""

    def __init__(self, schema: JSONObject, name: str) -> None:
        self.wraps = schema.get("type") != "object"
        self.schema = _wrapped(schema) if self.wraps else schema
        self._judge = ResultJudge(self.schema, name)

    def structured(self, result: JSON) -> JSON:
        """Return the structured content of a result."""
        return {"result": result} if self.wraps else result

    async def fault(self, structured: JSON) -> str | None:
        """Return why structured content is not valid, or None."""
        faults = await in_thread_if_large(structured, self._judge.faults, structured)
        return list_faults(faults) if faults else None


def output_of(tool: Tool) -> Output | None:
    """Return what the tool promises of its results: its `_output` if that is an object, or its function's return
    annotation; None where nothing is known."""
    if tool.result_judge is not None and tool.meta is not None and tool.meta.output is not None:
        if tool.meta.output.get("type") != "object":
            return None
        return Output(with_definitions(tool.meta.output, tool.meta.definitions), tool.name)
    if tool.carrier != "function" or tool.handler is None or tool.signature is None or tool.meta is not None:
        return None
    schema = _returned_schema(tool.handler)
    return None if schema is None else Output(schema, tool.name)


log = logger("toolwright.mcp")
_NOT_DATA: tuple[object, ...] = (ToolResult, TextContent, ImageContent, Attachment, AttachmentRef)


def _returned_schema(handler: Callable[..., object]) -> JSONObject | None:
    """Return the schema of a function's return annotation; None for none, and for results that are not plain data."""
    function = innermost(handler)
    try:
        hint = get_type_hints(function, include_extras=True).get("return")
        if hint in (None, NoneType, Any, object) or _holds_content(hint):
            return None
        return TypeAdapter(hint).json_schema(mode="serialization")
    except Exception:
        log.debug("The return annotation of %r has no schema.", function, exc_info=True)
        return None


def _holds_content(hint: object) -> bool:
    return hint in _NOT_DATA or any(_holds_content(each) for each in get_args(hint))


def _wrapped(schema: JSONObject) -> JSONObject:
    """Return the schema of an object with the value as `result`; definitions stay where they are referred to."""
    value: JSONObject = {key: each for key, each in schema.items() if key != "$defs"}
    whole: JSONObject = {"type": "object", "properties": {"result": value}, "required": ["result"]}
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


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
