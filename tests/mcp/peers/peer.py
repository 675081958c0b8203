"""A server of the official SDK whose answers go out as they are written, also those that the SDK would refuse.

What a peer answers is JSON of the wire. The SDK brings the transports, the sessions and both revisions; a middleware
before its own handlers answers what a peer has an answer for.
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
"""JSON of the wire, right or wrong."""
Context: TypeAlias = ServerRequestContext[Any, Any]
Revision: TypeAlias = Literal["2025-11-25", "2026-07-28"]
Transport: TypeAlias = Literal["http", "json", "sse"]
"""Streamable HTTP with answers as streams of events, as plain JSON, and the transport of 2024-11-05."""

PLAIN: JSONObject = {"type": "object", "properties": {}}
"""The schema of a tool without arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that a peer got."""

    method: str
    params: JSONObject
    context: Context
    peer: "Peer"

    @property
    def modern(self) -> bool:
        """Whether it is one of 2026-07-28."""
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def arguments(self) -> JSONObject:
        """Those of a tool's call."""
        return self.params.get("arguments") or {}

    @property
    def headers(self) -> Mapping[str, str]:
        """Those of its HTTP request; none over stdio."""
        request: object = self.context.request
        return dict(request.headers) if isinstance(request, Request) else {}


Answer: TypeAlias = Callable[[Asked], Awaitable[JSONObject]]


def text(*parts: str, **more: Any) -> JSONObject:  # JSON of the wire
    """A tool's result that is text."""
    return {"content": [{"type": "text", "text": each} for each in parts], **more}


def tool(name: str, description: str = "Does it.", **more: Any) -> JSONObject:  # JSON of the wire
    """A tool's definition; it takes no arguments unless `inputSchema` says which."""
    return {"name": name, "description": description, "inputSchema": PLAIN, **more}


async def echo(asked: Asked) -> JSONObject:
    """The answer of a tool that tells its arguments, as JSON in their order."""
    return text(json.dumps(asked.arguments))


@dataclass(kw_only=True, eq=False)
class Peer:
    """A server by the tools it has and what it answers to their calls.

    `answers` has what is answered to a method instead of what the SDK would; `calls` to calls of tools by their names,
    `echo` where there is none. `before` runs before each request. `extensions` and `capabilities` are told besides.
    """

    tools: list[JSONObject] = field(default_factory=list[JSONObject])
    calls: dict[str, Answer] = field(default_factory=dict[str, Answer])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    before: Callable[[Asked], Awaitable[None]] | None = None
    extensions: dict[str, JSONObject] = field(default_factory=dict[str, JSONObject])
    capabilities: JSONObject = field(default_factory=dict[str, Any])
    revision: Revision | None = None  # the only one that is served; both if None
    instructions: str | None = None
    hearing: Hearing = field(default_factory=Hearing)
    _bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    _sessions: list[ServerSession] = field(default_factory=list[ServerSession])

    def __post_init__(self) -> None:
        self.answers = {"tools/list": self._list, "tools/call": self._call, **self.answers}

    async def changed(self) -> None:
        """Tell all clients that the tools are others now, in both revisions."""
        for session in self._sessions:
            await session.send_tool_list_changed()
        await self._bus.publish(ToolsListChanged())

    def server(self) -> Server[Any]:
        """A server of the SDK that answers as this peer does."""
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
        """The SDK's answer, which knows of no tasks and of changes only what its own manager of sessions asks."""
        if isinstance(result, dict) and method in ("initialize", "server/discover"):
            told = {"tools": {"listChanged": True}, **self.capabilities}
            result["capabilities"] = {**result.get("capabilities", {}), **told}
        return result

    @staticmethod
    def _enveloped(asked: Asked, result: JSONObject) -> JSONObject:
        """With what 2026-07-28 asks of each answer, unless the peer says it."""
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
    """The transport of 2024-11-05: a stream at `/sse`, messages to `/messages/`."""
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
