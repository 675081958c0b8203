"""`/mcp` at the gateway: streamable HTTP, for services and people, as long as the runtime is open."""

import asyncio
from contextlib import suppress

from fastapi import Request
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolwright.core.errors import StoreError, TooLarge, Unauthorized
from toolwright.core.json_text import NotJson, TooManyValues, ValueCount, read_json
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.offered import McpPermissions
from toolwright.core.text import sentence
from toolwright.web.answers.answer import answer
from toolwright.web.auth.access import Caller
from toolwright.web.dependencies import identified
from toolwright.web.mcp.server import mcp_server, principal
from toolwright.web.mcp.sessions import FORWARDED, MOST, MOST_OF_CALLER, McpSessions, SessionAddresses
from toolwright.web.mcp.tools import BEAT, Context, McpParts
from toolwright.web.middleware.errors import answer_error
from toolwright.web.serving import Serving

CALLER = "toolwright.caller"
STOPS = "The server stops."
QUICK = 64 * 1024
"""Bytes that are read at once on the event loop."""
UNLIMITED = 2**40
"""Bytes of a body, for the SDK: the gateway has its own limit."""


class McpEndpoint:
    """ASGI: who calls is validated as on every route, then the SDK serves the request.

    Hosts that wait are told so every `beat` seconds.
    Sessions are of who opened them; they are there as long as the process, unlike the calls that are made in them. In a
    cluster a request goes to the process in which its session is.
    """

    def __init__(
        self,
        serving: Serving,
        *,
        beat: float = BEAT,
        permissions: McpPermissions | None = None,
        most_sessions: tuple[int, int] = (MOST_OF_CALLER, MOST),
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
            lambda: serving.runtime.events.bus, options.node_url, options.secret_keys
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
        except Unauthorized as error:
            refusal = answer_error(error)
            refusal.headers["WWW-Authenticate"] = "Bearer"
            await refusal(scope, receive, send)
            return
        options = self._serving.options
        body = await _body(request, options.max_json_values)
        fault = await _fault(body, options.max_nesting)
        if fault is not None:
            await fault(scope, receive, send)
            return
        manager = await self._open_manager()
        who = principal(caller)
        served = {**scope, CALLER: caller, "user": _user(who)}
        session_id = request.headers.get(MCP_SESSION_ID_HEADER)
        again = _again(body, receive)
        if session_id is not None:
            if await self._forwarded(session_id, request, body, receive, send):
                return
            async with self.sessions.using(session_id):
                await self._until_closing(manager.handle_request, served, again, send)
            if request.method == "DELETE":
                self.sessions.forget(session_id)
        elif _may_open_session(request):
            async with self.sessions.opening(who, send) as watched:
                await self._until_closing(manager.handle_request, served, again, watched)
        else:
            await self._until_closing(manager.handle_request, served, again, send)

    async def _forwarded(
        self, session_id: str, request: Request, body: bytes, receive: Receive, send: Send
    ) -> bool:
        """Pass a request on whose session lives in another process; return whether it was."""
        if session_id in self.sessions or FORWARDED in request.headers:
            return False
        url = self._addresses.find(session_id)
        if url is None:
            return False
        reached = True

        async def forward(_: Scope, receive: Receive, send: Send) -> None:
            nonlocal reached
            reached = await self._addresses.forward(session_id, url, request, body, receive, send)

        await self._until_closing(forward, request.scope, receive, send)
        return reached

    async def aclose(self) -> None:
        """End all sessions; calls that were made in them go on."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        await self._parts.aclose()
        await self._addresses.aclose()

    async def _end_session(self, session_id: str, who: str) -> None:
        """End a session as its host would."""
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

    async def _until_closing(self, serve: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request; one that is in progress when the server stops is cut off, as streams are."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        serving = asyncio.ensure_future(serve(scope, receive, watched))
        closing = asyncio.create_task(self._serving.options.closing.wait())
        try:
            await asyncio.wait([serving, closing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            stopped = not serving.done()
            serving.cancel()
        if not stopped:
            return serving.result()
        await asyncio.wait([serving])
        if not started:
            raise StoreError(STOPS)
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    async def _caller(self, request: Request) -> Caller:
        key = request.headers.get("x-secret-key")
        public_key = request.headers.get("x-public-key")
        authorization = request.headers.get("authorization")
        if key is None and public_key is None and authorization is not None:
            scheme, _, given = authorization.partition(" ")
            key = given.strip() if scheme.lower() == "bearer" else None
        return await identified(request, self._serving, key, public_key)

    async def _open_manager(self) -> StreamableHTTPSessionManager:
        """The sessions, which begin with the first request and end when the server stops."""
        if self._serving.options.closing.is_set():
            raise StoreError(STOPS)
        async with self._starting:
            if self._manager is None or self._running is None or self._running.done():
                manager = StreamableHTTPSessionManager(self._server, max_request_body_size=UNLIMITED)
                ready = asyncio.Event()
                self._running = asyncio.create_task(self._run(manager, ready), name="toolwright-mcp")
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
    """Return whether the request can open a session; newer revisions have no sessions."""
    version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}


async def _unheard(_: Message) -> None:
    """Nobody waits for this answer."""


def caller_of(context: Context) -> Caller:
    """The caller of a request, as the endpoint has validated them."""
    caller: Caller = context.request.scope[CALLER]  # type: ignore[union-attr]  # HTTP always has one
    return caller


async def _body(request: Request, values: int) -> bytes:
    """The whole body, which holds no more values than that of any route."""
    body, count = bytearray(), ValueCount(values)
    async for piece in request.stream():
        try:
            count.add(piece)
        except TooManyValues as error:
            raise TooLarge(f"The body is too large: {error}") from None
        body += piece
    return bytes(body)


async def _fault(body: bytes, nesting: int) -> Response | None:
    """The protocol's answer to a body that is no JSON, or none that every reader takes alike; None if it is."""
    if not body:
        return None
    try:
        if len(body) <= QUICK:
            read_json(body, nesting=nesting)
        else:
            await asyncio.to_thread(read_json, body, nesting=nesting)
    except NotJson as error:
        fault: JSONObject = {"code": PARSE_ERROR, "message": sentence(f"The body is not valid JSON: {error}")}
        return answer({"jsonrpc": "2.0", "id": None, "error": fault}, 400)
    return None


def _again(body: bytes, receive: Receive) -> Receive:
    """The body again, for whoever reads it next; then word that the caller is gone."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
