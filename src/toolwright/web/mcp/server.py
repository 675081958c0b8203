"""The MCP server, over HTTP and on stdio."""

from importlib.metadata import version
from io import TextIOWrapper
from typing import Any, BinaryIO

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    EmptyResult,
    PaginatedRequestParams,
    ServerCapabilities,
    ServerTasksCapability,
    ServerTasksRequestsCapability,
    SetLevelRequestParams,
    TasksCallCapability,
    TasksCancelCapability,
    TasksListCapability,
    TasksToolsCapability,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolwright.core.errors import DISTRIBUTION, InvalidRequest, NotFound, ToolwrightError
from toolwright.core.mcp.offered import McpPermissions
from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import SERVICE, Caller
from toolwright.web.mcp.calls import ToolCalls
from toolwright.web.mcp.content import Prompts, Resources
from toolwright.web.mcp.sessions import VALID, StateCodec, session_of
from toolwright.web.mcp.tasks import TaskParams, Tasks, UpdateParams, is_task_request
from toolwright.web.mcp.tools import TASKS, Context, McpParts

NAME = "toolwright"
MOST_LEVELS = 10_000
"""Sessions whose log level is kept."""


class ToolServer(Server[Any]):
    """A low-level server whose capabilities name the tasks of 2025-11-25 too; a subclass, as the SDK has no seam."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """Capabilities of one revision."""
        made = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        if protocol_version in MODERN_PROTOCOL_VERSIONS:
            return made.model_copy(update={"extensions": {TASKS: {}}, "logging": None})
        calls = ServerTasksRequestsCapability(tools=TasksToolsCapability(call=TasksCallCapability()))
        tasks = ServerTasksCapability(
            list=TasksListCapability(), cancel=TasksCancelCapability(), requests=calls
        )
        return made.model_copy(update={"tasks": tasks})


def mcp_server(parts: McpParts) -> ToolServer:
    """The server over these parts."""
    calls, tasks = ToolCalls(parts), Tasks(parts)
    resources, prompts = Resources(parts), Prompts(parts)

    async def list_tools(context: Context, params: PaginatedRequestParams | None) -> Any:  # a page
        page = parts.pages.page(None if params is None else params.cursor)
        absent = [
            each.name for each in page.tools if not await parts.allows(context, parts.pages.find(each.name))
        ]
        tools = [each for each in page.tools if each.name not in absent]
        return page.model_copy(update={"tools": tools}) if absent else page

    async def set_level(context: Context, params: SetLevelRequestParams) -> EmptyResult:
        while len(parts.levels) >= MOST_LEVELS:
            del parts.levels[next(iter(parts.levels))]
        parts.levels[session_of(context)] = params.level
        return EmptyResult()

    server = ToolServer(
        NAME,
        version=version(DISTRIBUTION),
        on_list_tools=list_tools,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_list_prompts=prompts.list,
        on_get_prompt=prompts.get,
        get_tool_input_schema=lambda name: parts.pages.schema(name),
    )
    server.add_request_handler("tools/call", CallToolRequestParams, calls.call)
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
    server.add_request_handler("tasks/get", TaskParams, tasks.get)
    server.add_request_handler("tasks/cancel", TaskParams, tasks.cancel)
    server.add_request_handler("tasks/update", UpdateParams, tasks.update)
    server.add_request_handler("tasks/result", TaskParams, tasks.result)
    server.add_request_handler("tasks/list", PaginatedRequestParams, tasks.list)
    server.middleware.append(_faults)
    server.middleware.append(_Sealing(parts))
    server.middleware.append(_task_requests(calls))
    return server


async def _faults(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Errors of ours as the protocol's, in their own words."""
    try:
        return await call_next(ctx)
    except (NotFound, InvalidRequest) as error:
        raise MCPError(INVALID_PARAMS, error.message) from error
    except ToolwrightError as error:
        raise MCPError(INTERNAL_ERROR, error.message) from error


class _Sealing:
    """Seals the state of questions, bound to the call and to its caller; made when the runtime is open."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts
        self._boundary: tuple[Runtime, RequestStateBoundary] | None = None

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        runtime = self._parts.runtime
        if self._boundary is None or self._boundary[0] is not runtime:
            security = RequestStateSecurity(
                codec=StateCodec(runtime.app_calls.cipher), ttl=VALID, bind_principal=self._principal
            )
            self._boundary = runtime, RequestStateBoundary(security, default_audience=NAME)
        return await self._boundary[1](ctx, call_next)

    def _principal(self, context: Context) -> str:
        return principal(self._parts.caller(context))


def principal(caller: Caller) -> str:
    """Who a session, and the state of a question, belongs to."""
    return caller.kind if caller.entity_id is None else caller.entity_id


def _task_requests(calls: ToolCalls) -> ServerMiddleware[Any]:
    """Answers calls that ask for a task by one: what the SDK takes for the answer to a call has no room for it."""

    async def begin(ctx: Context, call_next: CallNext) -> HandlerResult:
        if not is_task_request(ctx):
            return await call_next(ctx)
        try:
            params = CallToolRequestParams.model_validate(ctx.params, by_name=False)
        except ValidationError as error:
            raise MCPError(INVALID_PARAMS, "Invalid request parameters") from error
        return await calls.begin(ctx, params)

    return begin


async def serve_stdio(
    runtime: Runtime, stdin: BinaryIO, stdout: BinaryIO, permissions: McpPermissions
) -> None:
    """Serve the runtime's tools to the host at the other end of these streams, which has a service's permissions."""
    parts = McpParts(opened=lambda: runtime, caller=lambda _: SERVICE, permissions=permissions)
    server = mcp_server(parts)
    lines = anyio.wrap_file(TextIOWrapper(stdin, encoding="utf-8", errors="replace"))
    written = anyio.wrap_file(TextIOWrapper(stdout, encoding="utf-8"))
    try:
        async with stdio_server(lines, written) as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())
    finally:
        await parts.aclose()
