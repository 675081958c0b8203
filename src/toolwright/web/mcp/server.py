"""MCP server of the app: streamable HTTP at `/mcp` of the gateway, for services and people, and stdio."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any, BinaryIO, cast

import anyio
import mcp_types as types
from fastapi import Request
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolwright.core import errors
from toolwright.core.concurrency import start_task
from toolwright.core.json_text import NotJson, TooManyValues, ValueCount, read_json
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_NESTING
from toolwright.core.mcp.offered import McpPermissions
from toolwright.core.text import sentence
from toolwright.runtime.runtime import Runtime
from toolwright.web.answers import answer
from toolwright.web.auth.access import NO_ENTITY, SERVICE, Caller
from toolwright.web.dependencies import Serving, bearer_key, identified
from toolwright.web.mcp.calls import ToolCalls
from toolwright.web.mcp.completion import Completion
from toolwright.web.mcp.content import PromptMethods
from toolwright.web.mcp.resources import Resources
from toolwright.web.mcp.sessions import (
    FORWARDED,
    MAX_PER_CALLER,
    MAX_SESSIONS,
    VALID,
    McpSessions,
    SessionAddresses,
    StateCodec,
    principal,
    session_of,
)
from toolwright.web.mcp.stdio import HostStreams
from toolwright.web.mcp.subscriptions import Subscriptions
from toolwright.web.mcp.tasks import TaskParams, Tasks, UpdateParams, is_task_request
from toolwright.web.mcp.tools import BEAT, TASKS, Context, McpParts
from toolwright.web.middleware import answer_error
from toolwright.web.streams import no_longer_allowed

NAME = "toolwright"
MAX_LEVELS = 10_000
"""Maximum number of sessions whose log level is kept."""
CALLER = "toolwright.caller"
STOPS = "The server stops."
QUICK = 64 * 1024
"""Bytes up to which a body is parsed directly on the event loop."""
UNLIMITED = 2**40
"""Body limit for the SDK in bytes. The gateway has its own limit."""


class ToolServer(Server[Any]):
    """A low-level server whose capabilities include the tasks of 2025-11-25. The SDK has no other extension point."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """Return the capabilities for one revision."""
        capabilities = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        if protocol_version in MODERN_PROTOCOL_VERSIONS:
            return _fixed_lists(capabilities).model_copy(update={"extensions": {TASKS: {}}, "logging": None})
        calls = types.ServerTasksRequestsCapability(
            tools=types.TasksToolsCapability(call=types.TasksCallCapability())
        )
        tasks = types.ServerTasksCapability(
            list=types.TasksListCapability(), cancel=types.TasksCancelCapability(), requests=calls
        )
        return capabilities.model_copy(update={"tasks": tasks})


def _fixed_lists(capabilities: types.ServerCapabilities) -> types.ServerCapabilities:
    """Return the capabilities without changes of lists, which the SDK derives from `subscriptions/listen`."""
    fixed = {"list_changed": False}
    named = {
        "tools": capabilities.tools,
        "prompts": capabilities.prompts,
        "resources": capabilities.resources,
    }
    return capabilities.model_copy(
        update={name: None if each is None else each.model_copy(update=fixed) for name, each in named.items()}
    )


def mcp_server(parts: McpParts) -> ToolServer:
    """Create the server from its parts."""
    calls, tasks = ToolCalls(parts), Tasks(parts)
    resources, prompts = Resources(parts, calls), PromptMethods(parts)
    subscriptions = Subscriptions(parts, resources)

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> Any:  # a page
        page = parts.pages.page(None if params is None else params.cursor)
        absent = [
            each.name
            for each in page.tools
            if not await parts.allows(context, parts.pages.require(each.name))
        ]
        tools = [each for each in page.tools if each.name not in absent]
        return page.model_copy(update={"tools": tools}) if absent else page

    async def set_level(context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        while len(parts.levels) >= MAX_LEVELS:
            del parts.levels[next(iter(parts.levels))]
        parts.levels[session_of(context)] = params.level
        return types.EmptyResult()

    server = ToolServer(
        NAME,
        version=version(errors.DISTRIBUTION),
        on_list_tools=list_tools,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_subscribe_resource=subscriptions.subscribe,
        on_unsubscribe_resource=subscriptions.unsubscribe,
        on_subscriptions_listen=subscriptions.listen,
        on_list_prompts=prompts.list,
        on_get_prompt=prompts.get,
        on_completion=Completion(prompts, resources).complete,
        get_tool_input_schema=lambda name: parts.pages.schema(name),
    )
    server.add_request_handler("tools/call", types.CallToolRequestParams, calls.call)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    server.add_request_handler("tasks/get", TaskParams, tasks.get)
    server.add_request_handler("tasks/cancel", TaskParams, tasks.cancel)
    server.add_request_handler("tasks/update", UpdateParams, tasks.update)
    server.add_request_handler("tasks/result", TaskParams, tasks.result)
    server.add_request_handler("tasks/list", types.PaginatedRequestParams, tasks.list)
    server.middleware.append(_convert_errors)
    server.middleware.append(_Sealing(parts))
    server.middleware.append(_task_requests(calls))
    return server


async def _convert_errors(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Convert errors of this project to protocol errors with the same messages."""
    try:
        return await call_next(ctx)
    except (errors.NotFound, errors.InvalidRequest) as error:
        raise MCPError(types.INVALID_PARAMS, error.message) from error
    except errors.ToolwrightError as error:
        raise MCPError(types.INTERNAL_ERROR, error.message) from error


class _Sealing:
    """Encrypts the state of questions, bound to the call and its caller. Created when the runtime is open."""

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


def _task_requests(calls: ToolCalls) -> ServerMiddleware[Any]:
    """Answer calls that request a task with a task, which the SDK's type for answers to calls cannot contain."""

    async def begin(ctx: Context, call_next: CallNext) -> HandlerResult:
        if not is_task_request(ctx):
            return await call_next(ctx)
        try:
            params = types.CallToolRequestParams.model_validate(ctx.params, by_name=False)
        except ValidationError as error:
            raise MCPError(types.INVALID_PARAMS, "Invalid request parameters") from error
        return await calls.begin(ctx, params)

    return begin


async def serve_stdio(
    runtime: Runtime, stdin: BinaryIO, stdout: BinaryIO, permissions: McpPermissions
) -> None:
    """Serve the runtime's tools over these streams. The host has the permissions of a service."""
    parts = McpParts(opened=lambda: runtime, caller=lambda _: SERVICE, permissions=permissions)
    server = mcp_server(parts)
    streams = HostStreams(stdin, stdout)

    async def answer_error(error: types.JSONRPCError) -> None:
        # to the stream of all answers: a second writer could write within the line of another answer
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await write_stream.send(SessionMessage(error))

    # The SDK only iterates over the lines, parses them as text or bytes, and calls `write` and `flush`.
    lines = cast("anyio.AsyncFile[str]", _messages(streams.lines(), answer_error))
    written = cast("anyio.AsyncFile[str]", streams)
    try:
        async with stdio_server(lines, written) as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())
    finally:
        await parts.aclose()


async def _messages(
    lines: AsyncIterator[bytes], answer_error: Callable[[types.JSONRPCError], Awaitable[None]]
) -> AsyncGenerator[bytes]:
    """Yield the lines that are messages. Other lines are answered here, because the SDK drops them and hosts wait."""
    async for line in lines:
        if not line.strip():
            continue
        error = _line_error(line) if len(line) <= QUICK else await asyncio.to_thread(_line_error, line)
        if error is None:
            yield line
        else:
            await answer_error(error)


def _line_error(line: bytes) -> types.JSONRPCError | None:
    """Return the protocol's error for a line that is not a message, or None if it is one."""
    error = _parse_error(line, MAX_NESTING, "message")
    if error is None and not _is_message(line):
        error = types.ErrorData(code=types.INVALID_REQUEST, message="The message is not one of JSON-RPC 2.0.")
    return None if error is None else types.JSONRPCError(jsonrpc="2.0", id=_request_id(line), error=error)


def _is_message(line: bytes) -> bool:
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return False
    # A request whose id is invalid is read as a notification, which is not answered.
    return not isinstance(message, types.JSONRPCNotification) or "id" not in json.loads(line)


def _request_id(line: bytes) -> str | int | None:
    """Return the id of an invalid request, or None if it cannot be read or belongs to an answer."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match request:
        case {"id": bool()} | {"result": _} | {"error": _}:
            return None
        case {"id": int(request_id)}:
            return request_id
        case {"id": str(request_id)} if request_id.isprintable():  # no lone surrogates, which cannot be sent
            return request_id
        case _:
            return None


class McpEndpoint:
    """ASGI application: authenticates the caller as on every route, then passes the request to the SDK."""

    def __init__(
        self,
        serving: Serving,
        *,
        beat: float = BEAT,
        permissions: McpPermissions | None = None,
        most_sessions: tuple[int, int] = (MAX_PER_CALLER, MAX_SESSIONS),
    ) -> None:
        self._serving = serving
        self._parts = McpParts(
            opened=lambda: serving.runtime,
            caller=caller_of,
            beat=beat,
            permissions=permissions or McpPermissions(),
        )
        self._server = mcp_server(self._parts)
        options = serving.options
        self._addresses = SessionAddresses(
            lambda: serving.runtime.events.bus, options.node_url, serving.signing_keys
        )
        self.sessions = McpSessions(self._end_session, self._addresses, *most_sessions)
        self._manager: StreamableHTTPSessionManager | None = None
        self._running: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self._serving.access.check_page(request.headers, (scope.get("server") or (None,))[0])
        try:
            caller = await self._caller(request)
        except errors.Unauthorized as error:
            refusal = answer_error(error)
            refusal.headers["WWW-Authenticate"] = "Bearer"
            await refusal(scope, receive, send)
            return
        options = self._serving.options
        body = await _body(request, options.max_json_values)
        parse_error = await _invalid_json_answer(body, options.max_nesting)
        if parse_error is not None:
            await parse_error(scope, receive, send)
            return
        manager = await self._open_manager()
        who = principal(caller)
        served = {**scope, CALLER: caller, "user": _user(who)}
        session_id = request.headers.get(MCP_SESSION_ID_HEADER)
        again = _again(body, receive)
        if session_id is not None:
            if await self._forwarded(session_id, caller, request, body, receive, send):
                return
            async with self.sessions.using(session_id):
                await self._while_allowed(manager.handle_request, served, again, send)
            if request.method == "DELETE":
                self.sessions.forget(session_id)
        elif _may_open_session(request):
            async with self.sessions.opening(who, send) as watched:
                await self._while_allowed(manager.handle_request, served, again, watched)
        else:
            await self._while_allowed(manager.handle_request, served, again, send)

    async def _forwarded(
        self, session_id: str, caller: Caller, request: Request, body: bytes, receive: Receive, send: Send
    ) -> bool:
        """Forward the request if its session is in another process. Returns whether it was forwarded."""
        if session_id in self.sessions or FORWARDED in request.headers:
            return False
        url = await self._addresses.find(session_id)
        if url is None:
            return False
        reached = True

        async def forward(_: Scope, receive: Receive, send: Send) -> None:
            nonlocal reached
            reached = await self._addresses.forward(session_id, url, request, body, receive, send)

        await self._while_allowed(forward, {**request.scope, CALLER: caller}, receive, send)
        return reached

    async def aclose(self) -> None:
        """End all sessions. Calls that were made in them continue."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        await self._parts.aclose()
        await self._addresses.aclose()

    async def _end_session(self, session_id: str, who: str) -> None:
        """End a session as if its host had ended it."""
        headers = [(MCP_SESSION_ID_HEADER.encode(), session_id.encode())]
        scope: Scope = {
            "type": "http",
            "method": "DELETE",
            "path": "/",
            "query_string": b"",
            "headers": headers,
            "user": _user(who),
        }
        manager = await self._open_manager()
        await manager.handle_request(scope, _again(b"", _nothing_more), _unheard)

    async def _while_allowed(self, serve: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request. It is aborted, like a stream, if the server stops or its person is removed."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        serving = asyncio.ensure_future(serve(scope, receive, watched))
        closing = asyncio.create_task(self._serving.options.closing.wait())
        leaving = asyncio.create_task(no_longer_allowed(self._serving, scope[CALLER]))
        try:
            await asyncio.wait([serving, closing, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped, removed = not serving.done(), leaving.done()
            for task in (closing, leaving, serving):
                task.cancel()
        if not stopped:
            return serving.result()
        await asyncio.wait([serving])
        if not started:
            raise errors.Forbidden(NO_ENTITY) if removed else errors.StoreError(STOPS)
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    async def _caller(self, request: Request) -> Caller:
        key, public_key = request.headers.get("x-secret-key"), request.headers.get("x-public-key")
        return await identified(request, self._serving, key or bearer_key(request), public_key)

    async def _open_manager(self) -> StreamableHTTPSessionManager:
        """Return the session manager. It starts with the first request and ends when the server stops."""
        if self._serving.options.closing.is_set():
            raise errors.StoreError(STOPS)
        async with self._starting:
            if self._manager is None or self._running is None or self._running.done():
                manager = StreamableHTTPSessionManager(self._server, max_request_body_size=UNLIMITED)
                ready = asyncio.Event()
                self._running = start_task(self._run(manager, ready), "toolwright-mcp")
                await ready.wait()
                self._manager = manager
            return self._manager

    async def _run(self, manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
        async with manager.run():
            ready.set()
            await self._serving.options.closing.wait()


def _user(who: str) -> AuthenticatedUser:
    return AuthenticatedUser(AccessToken(token="", client_id=who, scopes=[]))


def _may_open_session(request: Request) -> bool:
    """Return whether the request can open a session. Newer revisions have no sessions."""
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}


async def _unheard(_: Message) -> None:
    """Discard an answer without a reader."""


def caller_of(context: Context) -> Caller:
    """Return the caller of a request, as validated by the endpoint."""
    caller: Caller = context.request.scope[CALLER]  # type: ignore[union-attr]  # HTTP always has one
    return caller


async def _body(request: Request, values: int) -> bytes:
    """Return the whole body, with the same limit on values as for all routes."""
    body, count = bytearray(), ValueCount(values)
    async for piece in request.stream():
        try:
            count.add(piece)
        except TooManyValues as error:
            raise errors.TooLarge(f"The body is too large: {error}") from None
        body += piece
    return bytes(body)


async def _invalid_json_answer(body: bytes, nesting: int) -> Response | None:
    """Return the protocol's error for a body that is not JSON or is ambiguous JSON, or None if it is valid."""
    if not body:
        return None
    if len(body) <= QUICK:
        error = _parse_error(body, nesting, "body")
    else:
        error = await asyncio.to_thread(_parse_error, body, nesting, "body")
    if error is None:
        return None
    error_body: JSONObject = {"code": error.code, "message": error.message}
    return answer({"jsonrpc": "2.0", "id": None, "error": error_body}, 400)


def _parse_error(text: bytes, nesting: int, name: str) -> types.ErrorData | None:
    try:
        read_json(text, nesting=nesting)
    except NotJson as error:
        message = sentence(f"The {name} is not valid JSON: {error}")
        return types.ErrorData(code=types.PARSE_ERROR, message=message)
    return None


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that replays the body, then reports the caller's disconnection."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
