"""The tools that hosts can call, and the permissions of each caller."""

import asyncio
import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, TypeAlias, get_args, get_type_hints

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import Tool as McpTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from toolwright.core.arguments.errors import join_errors
from toolwright.core.arguments.schema import with_definitions
from toolwright.core.arguments.validator import ResultValidator
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.dependencies.depends import innermost
from toolwright.core.env.logs import logger
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.offered import McpPermissions
from toolwright.core.results import Attachment, AttachmentRef, ImageContent, TextContent, ToolResult
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import Caller
from toolwright.web.auth.permits import Permits

Context: TypeAlias = ServerRequestContext[Any, Any]  # the SDK's type parameters are not needed here
BEAT = 10.0
"""Seconds between two progress notifications about a waiting call."""
TASKS = "io.modelcontextprotocol/tasks"
"""The extension with which hosts of revision 2026-07-28 support tasks."""
PAGE = 200  # tools in one answer
FRESH = 60_000  # milliseconds for which a host can cache a list


@dataclass(slots=True, kw_only=True)
class McpParts:
    """Parts of one server.

    `caller` returns the sender of a request. `levels` are the log levels requested by sessions. `permissions` decide
    which tools exist for a caller."""

    opened: Callable[[], Runtime]
    caller: Callable[[Context], Caller]
    patience: float = 0.5  # seconds within which a call is answered directly even if the host supports tasks
    beat: float = BEAT
    permissions: McpPermissions = field(default_factory=McpPermissions)
    levels: dict[str | None, types.LoggingLevel] = field(default_factory=dict[str | None, types.LoggingLevel])
    _pages: "ToolPages | None" = None
    _behind: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def runtime(self) -> Runtime:
        """The runtime. Raises `StoreError` if it is unavailable."""
        return self.opened()

    @property
    def pages(self) -> "ToolPages":
        """The tools as listed for hosts."""
        tools = self.runtime.app_calls.tools
        if self._pages is None or self._pages.tools is not tools:
            self._pages = ToolPages(tools)
        return self._pages

    async def allows(self, context: Context, tool: Tool, delegate: object = None) -> bool:
        """Return whether the tool exists for the caller of the request, with the delegate that a call chooses."""
        if not self.permits(context, tool.name):
            return False
        return await Permits(self.runtime).tool(self.caller(context), tool, delegate)

    def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a task that outlives the request."""
        task = asyncio.create_task(work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        return task

    async def aclose(self) -> None:
        """Wait for the tasks started with `begin`."""
        while self._behind:
            await asyncio.wait(self._behind)

    def permits(self, context: Context, name: str) -> bool:
        """Return whether the caller of the request has permission to use the named tool."""
        tool = self.pages.find(name)
        read_only = tool is not None and tool.read_only
        return self.permissions.allow(self.caller(context).kind, name, read_only=read_only)

    def offers(self, context: Context, name: str) -> bool:
        """Return whether the caller of the request has permission to use the named prompt or resource."""
        return self.permissions.allow(self.caller(context).kind, name, read_only=True)


def is_modern(context: Context) -> bool:
    """Return whether the host uses revision 2026-07-28, which has no handshake."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def capabilities_of(context: Context) -> types.ClientCapabilities:
    """Return the capabilities that the host has declared, for this request or its session."""
    return context.session.client_capabilities or types.ClientCapabilities()


def knows_tasks(context: Context) -> bool:
    """Return whether the host accepts a task as the answer to a call."""
    return is_modern(context) and TASKS in (capabilities_of(context).extensions or {})


class ToolPages:
    """A toolset in pages, each rendered once. A cursor is the index of the page's first tool, opaque to hosts."""

    def __init__(self, tools: Toolset) -> None:
        self.tools = tools
        self._listed = list(tools)
        self._rendered: dict[int, types.ListToolsResult] = {}

    def page(self, cursor: str | None) -> types.ListToolsResult:
        """Return one page. Raises `MCPError` for an unknown cursor."""
        first = 0 if cursor is None else _place(cursor, len(self._listed))
        if first not in self._rendered:
            last = first + PAGE
            self._rendered[first] = types.ListToolsResult(
                tools=[listed_tool(tool) for tool in self._listed[first:last]],
                next_cursor=_cursor(last) if last < len(self._listed) else None,
                ttl_ms=FRESH,
                cache_scope="private",
            )
        return self._rendered[first]

    def require(self, name: str) -> Tool:
        """Return the named tool. Raises the protocol's error if it does not exist."""
        tool = self.find(name)
        if tool is None:
            raise unknown(name)
        return tool

    def find(self, name: str) -> Tool | None:
        """Return the named tool, or None."""
        if name not in self.tools:
            return None
        return self.tools[name]

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema that validates a call's headers, or None for an unknown tool."""
        tool = self.find(name)
        return None if tool is None else tool.offered


def unknown(name: str) -> MCPError:
    """Return the protocol's error for an unknown tool."""
    return MCPError(types.INVALID_PARAMS, f"Unknown tool: {name[:200]}")


def listed_tool(tool: Tool) -> McpTool:
    """Return the tool as listed for hosts."""
    output = output_of(tool)
    return McpTool(
        name=tool.name,
        title=None if tool.meta is None else tool.meta.title,
        description=tool.description or None,
        input_schema={"type": "object", **tool.offered},
        output_schema=None if output is None else output.schema,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
        ),
        execution=types.ToolExecution(task_support="optional"),
    )


class OutputSchema:
    """Schema of a tool's structured results. With `wraps` results are not objects and are sent as `{"result": …}`."""

    def __init__(self, schema: JSONObject, name: str) -> None:
        self.wraps = schema.get("type") != "object"
        self.schema = _wrapped(schema) if self.wraps else schema
        self._validator = ResultValidator(self.schema, name)

    def structured(self, result: JSON) -> JSON:
        """Return the structured content of a result."""
        return {"result": result} if self.wraps else result

    async def error(self, structured: JSON) -> str | None:
        """Return why structured content is invalid, or None."""
        errors = await in_thread_if_large(structured, self._validator.errors, structured)
        return join_errors(errors) if errors else None


def output_of(tool: Tool) -> OutputSchema | None:
    """Return the output schema that the tool declares, or None if it is unknown.

    It is the tool's `_output` if that is an object, or otherwise its function's return annotation."""
    if tool.result_validator is not None and tool.meta is not None and tool.meta.output is not None:
        if tool.meta.output.get("type") != "object":
            return None
        return OutputSchema(with_definitions(tool.meta.output, tool.meta.definitions), tool.name)
    if tool.carrier != "function" or tool.handler is None or tool.signature is None or tool.meta is not None:
        return None
    schema = _returned_schema(tool.handler)
    return None if schema is None else OutputSchema(schema, tool.name)


log = logger("toolwright.mcp")
_NOT_DATA: tuple[object, ...] = (ToolResult, TextContent, ImageContent, Attachment, AttachmentRef)


def _returned_schema(handler: Callable[..., object]) -> JSONObject | None:
    """Return the schema of a function's return annotation, or None if it has none or results are not plain data."""
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
    """Return the schema of an object with the value as `result`. Definitions stay at the root for references."""
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
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor")
    return place
