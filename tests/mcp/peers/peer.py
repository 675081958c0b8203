"""A server of the official SDK whose answers are sent as written, including answers that the SDK would refuse.

A peer's answers are JSON on the wire. The SDK provides the transports, the sessions and both revisions. A middleware
before its own handlers sends the peer's answers.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import mcp_types as types
import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.runner import serve_loop
from mcp.server.session import ServerSession
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from tests.mcp.peers.hearing import Hearing

JSONObject: TypeAlias = dict[str, Any]
"""JSON on the wire, valid or invalid."""
Context: TypeAlias = ServerRequestContext[Any, Any]
Revision: TypeAlias = Literal["2025-11-25", "2026-07-28"]
Transport: TypeAlias = Literal["http", "json", "sse"]
"""Streamable HTTP with answers as event streams, as plain JSON, and the transport of 2024-11-05."""

PLAIN: JSONObject = {"type": "object", "properties": {}}
"""The schema of a tool without arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that a peer has received."""

    method: str
    params: JSONObject
    context: Context
    peer: "Peer"

    @property
    def modern(self) -> bool:
        """Whether it is a request of 2026-07-28."""
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def arguments(self) -> JSONObject:
        """The arguments of a tool call."""
        return self.params.get("arguments") or {}

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of its HTTP request; none over stdio."""
        request: object = self.context.request
        return dict(request.headers) if isinstance(request, Request) else {}


Answer: TypeAlias = Callable[[Asked], Awaitable[JSONObject]]


def text(*parts: str, **more: Any) -> JSONObject:  # JSON on the wire
    """Return a tool's result with text."""
    return {"content": [{"type": "text", "text": each} for each in parts], **more}


def tool(name: str, description: str = "Does it.", **more: Any) -> JSONObject:  # JSON on the wire
    """Return a tool's definition; it takes no arguments unless `inputSchema` is given."""
    return {"name": name, "description": description, "inputSchema": PLAIN, **more}


async def echo(asked: Asked) -> JSONObject:
    """Answer with the arguments, as JSON in their order."""
    return text(json.dumps(asked.arguments))


@dataclass(kw_only=True, eq=False)
class Peer:
    """A server defined by its tools and its answers to their calls.

    `answers` replaces the SDK's answers to methods. `calls` answers calls of tools by their names, `echo` all
    others. `before` runs before each request. `extensions` and `capabilities` are announced in addition.
    """

    tools: list[JSONObject] = field(default_factory=list[JSONObject])
    calls: dict[str, Answer] = field(default_factory=dict[str, Answer])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    before: Callable[[Asked], Awaitable[None]] | None = None
    extensions: dict[str, JSONObject] = field(default_factory=dict[str, JSONObject])
    capabilities: JSONObject = field(default_factory=dict[str, Any])
    revision: Revision | None = None  # the only served revision; both if None
    instructions: str | None = None
    hearing: Hearing = field(default_factory=Hearing)
    _bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    _sessions: list[ServerSession] = field(default_factory=list[ServerSession])

    def __post_init__(self) -> None:
        self.answers = {"tools/list": self._list, "tools/call": self._call, **self.answers}

    async def changed(self) -> None:
        """Notify all clients that the tools have changed, in both revisions."""
        for session in self._sessions:
            await session.send_tool_list_changed()
        await self._bus.publish(ToolsListChanged())

    def server(self) -> Server[Any]:
        """Return a server of the SDK that answers as this peer does."""
        made: Server[Any] = Server(
            "peer",
            version="1.0",
            instructions=self.instructions,
            on_list_tools=_never,
            on_call_tool=_never,
            on_subscriptions_listen=ListenHandler(self._bus),
            get_tool_input_schema=lambda _: None,
        )
        made.extensions = self.extensions
        made.middleware = [self._middleware]
        return made

    async def over_stdio(self) -> None:
        """Serve this process's stdin and stdout until they close."""
        server = self.server()
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        async with stdio_server() as (read, write):
            if self.revision == "2025-11-25":
                await serve_loop(server, read, write, lifespan_state={})
            else:
                await server.run(read, write, options)

    async def over_http(self, listener: socket.socket, stop: asyncio.Event, transport: Transport) -> None:
        """Serve that socket until `stop` is set; then all connections break off."""
        made = self.server()
        json_alone = transport == "json"
        app = sse_app(made) if transport == "sse" else made.streamable_http_app(json_response=json_alone)
        config = uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve(sockets=[listener]))
            await stop.wait()
            for connection in list(server.server_state.connections):
                connection.transport.abort()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportOptionalMemberAccess]  # uvicorn's
            server.should_exit = True

    async def _middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        params: JSONObject = dict(ctx.params or {})
        asked = Asked(method=ctx.method, params=params, context=ctx, peer=self)
        self.hearing.hear(asked.method, params, asked.headers)
        if asked.method == "notifications/initialized":
            self._sessions.append(ctx.session)
        if ctx.request_id is None:
            return await call_next(ctx)
        self._refuse_other_revisions(asked)
        if self.before is not None:
            await self.before(asked)
        answer = self.answers.get(asked.method)
        if answer is not None:
            return self._enveloped(asked, await answer(asked))
        result = await call_next(ctx)
        return self._with_capabilities(asked.method, result)

    def _refuse_other_revisions(self, asked: Asked) -> None:
        modern = asked.modern or asked.method == "server/discover"
        if modern and self.revision == "2025-11-25":
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found")
        if self.revision == "2026-07-28" and not modern:
            names = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": "2025-11-25"}
            raise MCPError(types.UNSUPPORTED_PROTOCOL_VERSION, "This server has no handshake", names)

    def _with_capabilities(self, method: str, result: HandlerResult) -> HandlerResult:
        """Return the SDK's answer, which knows no tasks, and only changes that its session manager requests."""
        if isinstance(result, dict) and method in ("initialize", "server/discover"):
            told = {"tools": {"listChanged": True}, **self.capabilities}
            result["capabilities"] = {**result.get("capabilities", {}), **told}
        return result

    @staticmethod
    def _enveloped(asked: Asked, result: JSONObject) -> JSONObject:
        """Add what 2026-07-28 requires of each answer, unless the peer sets it."""
        if not asked.modern:
            return result
        more = {"ttlMs": 0, "cacheScope": "private"} if asked.method in ("tools/list", "prompts/list") else {}
        return {"resultType": "complete", **more, **result}

    async def _list(self, _: Asked) -> JSONObject:
        return {"tools": self.tools}

    async def _call(self, asked: Asked) -> JSONObject:
        name = str(asked.params.get("name"))
        if name not in self.calls and name not in [each.get("name") for each in self.tools]:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")
        return await self.calls.get(name, echo)(asked)


def sse_app(server: Server[Any]) -> ASGIApp:
    """Serve the transport of 2024-11-05: a stream at `/sse`, messages to `/messages/`."""
    transport = SseServerTransport("/messages/")
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))

    async def stream(request: Request) -> Response:
        send = request._send  # pyright: ignore[reportPrivateUsage]  # as the SDK's own servers do
        async with transport.connect_sse(request.scope, request.receive, send) as (read, write):
            await server.run(read, write, options)
        return Response()

    routes = [Route("/sse", stream), Mount("/messages/", app=transport.handle_post_message)]
    return Starlette(routes=routes)


async def _never(*_: Any) -> Any:  # never called
    raise AssertionError("the middleware answers before")
