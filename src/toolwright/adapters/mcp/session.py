"""Session with an MCP server: opens the transport and negotiates the protocol revision."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import httpx2
import mcp_types as types
from mcp.client.extension import ClaimContext, ResultClaim
from mcp.client.session import ClientSession, ElicitationFnT, MessageHandlerFnT, SamplingFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolwright.adapters.mcp.messages import TASKS, CreatedTask, ToolsDispatcher
from toolwright.adapters.mcp.peer import CALLER, MAX_MESSAGE, error_line
from toolwright.adapters.mcp.transport import SESSION_ID, Lost, stdio_streams
from toolwright.core.env.logs import logger
from toolwright.core.env.redact import Redactor
from toolwright.core.errors import DISTRIBUTION
from toolwright.core.mcp.servers import McpUnavailable
from toolwright.core.tools.mcp import McpTarget, Revision

# The SDK's own loggers show the parts of a message that it cannot read: they are redacted as ours are.
for _sdk_name in ("client", "mcp.client.sse", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher"):
    logger(_sdk_name)

REQUEST_TIMEOUT = 20.0
"""Timeout in seconds of all requests other than calls."""

OpenClient = Callable[[McpTarget, Lost], httpx2.AsyncClient]
"""Creates the HTTP client for a target, given the callback for a lost session.

The addresses that the client may reach depend on who has configured the server.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Handlers of a server's requests and notifications."""

    elicit: ElicitationFnT
    sample: SamplingFnT | None
    hear: MessageHandlerFnT


@dataclass(slots=True)
class HttpSession:
    """Id of the session with a server over HTTP, or None.

    A session in which the server has created tasks is not ended with the connection, because its tasks would end too.
    """

    id: str | None = None
    has_tasks: bool = False

    async def read(self, answer: httpx2.Response) -> None:
        """Store the session id of an answer."""
        self.id = answer.headers.get(SESSION_ID) or self.id


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session and its dispatcher. `over` is set when the session has ended or its server has lost it."""

    client: ClientSession
    dispatcher: ToolsDispatcher
    over: asyncio.Event
    http: HttpSession

    @property
    def modern(self) -> bool:
        """Return whether the session uses the revision 2026-07-28 or a later one."""
        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS


USE_SSE = 'it speaks the older transport SSE: set transport "sse"'
PROBE_TIMEOUT = 5.0  # seconds
END_TIMEOUT = 2.0  # seconds for the request that ends a session


@asynccontextmanager
async def open_session(
    target: McpTarget, open_client: OpenClient, callbacks: Callbacks, revision: Revision | None
) -> AsyncGenerator[OpenSession]:
    """Yield an initialized session in this revision, or in the newest one that both sides support.

    Raises `MCPError` or `OSError` if none can be opened.
    """
    async with AsyncExitStack() as stack:
        over = asyncio.Event()

        def lost(method: str | None) -> None:
            over.set()
            caller = CALLER.get()
            if caller is not None and method in ("tools/call", "resources/read"):
                caller.unheard = True

        http_session = HttpSession()
        streams = await _streams(target, lambda each: open_client(each, lost), stack, http_session)
        dispatcher = ToolsDispatcher(*streams, over=over)
        session = ClientSession(
            dispatcher=dispatcher,
            read_timeout_seconds=REQUEST_TIMEOUT,
            elicitation_callback=callbacks.elicit,
            sampling_callback=callbacks.sample,
            message_handler=callbacks.hear,
            client_info=types.Implementation(name="toolwright", version=version(DISTRIBUTION)),
            extensions={TASKS: {}},
            result_claims={TASKS: [ResultClaim(result_type="task", model=CreatedTask, resolve=_unresolved)]},
        )
        await stack.enter_async_context(session)
        try:
            await _agree(session, revision)
        except (MCPError, McpUnavailable):
            if target.server.transport == "http" and await _is_sse_endpoint(
                open_client(target, lost), str(target.url)
            ):
                raise McpUnavailable(USE_SSE) from None
            raise
        yield OpenSession(session, dispatcher, over, http_session)


# types of the SDK
async def _streams(
    target: McpTarget,
    open_client: Callable[[McpTarget], httpx2.AsyncClient],
    stack: AsyncExitStack,
    http_session: HttpSession,
) -> Any:
    server = target.server
    if server.transport == "stdio":
        command = [str(server.command), *server.args]
        return await stack.enter_async_context(
            stdio_streams(server.name, command, dict(target.env), Redactor(target.secrets).text)
        )
    http, url = open_client(target), str(target.url)
    if server.transport == "sse":

        def factory(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            return http

        return await stack.enter_async_context(sse_client(url, httpx_client_factory=factory))
    http.event_hooks = {"request": [], "response": [http_session.read]}
    await stack.enter_async_context(http)
    stack.push_async_callback(_end_session, http, url, http_session)
    return await stack.enter_async_context(
        streamable_http_client(
            url, http_client=http, max_sse_event_size=MAX_MESSAGE, terminate_on_close=False
        )
    )


async def _end_session(http: httpx2.AsyncClient, url: str, http_session: HttpSession) -> None:
    """End the session at the server unless its tasks would end with it."""
    if http_session.id is None or http_session.has_tasks:
        return
    with suppress(TimeoutError, httpx2.HTTPError, httpx2.StreamError):
        async with asyncio.timeout(END_TIMEOUT):
            await http.delete(url, headers={SESSION_ID: http_session.id})


async def _is_sse_endpoint(http: httpx2.AsyncClient, url: str) -> bool:
    """Return whether the URL uses the older SSE transport, whose stream begins with the event `endpoint`."""
    try:
        async with (
            asyncio.timeout(PROBE_TIMEOUT),
            http,
            http.stream("GET", url, headers={"Accept": "text/event-stream"}) as answer,
        ):
            if answer.status_code != 200 or "text/event-stream" not in answer.headers.get("content-type", ""):
                return False
            async for line in answer.aiter_lines():
                if line.startswith("event:"):
                    return line.removeprefix("event:").strip() == "endpoint"
    except (TimeoutError, httpx2.HTTPError, httpx2.StreamError):
        pass
    return False


async def _agree(session: ClientSession, revision: Revision | None) -> None:
    """Negotiate the given revision, or the newest revision that both sides support.

    Uses discovery, or the handshake of revisions before 2026 if that fails. Raises `McpUnavailable` if the server uses
    a revision other than the given one.
    """
    if revision is None:
        try:
            await session.discover()
        except (MCPError, RuntimeError, ValueError):
            await session.initialize()
        return
    try:
        await (session.discover() if revision in MODERN_PROTOCOL_VERSIONS else session.initialize())
    except MCPError as error:
        if error.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION):
            raise
        raise McpUnavailable(_other_revision(revision, error_line(error))) from error
    except RuntimeError as error:
        raise McpUnavailable(_other_revision(revision, error_line(error))) from error
    if session.protocol_version != revision:
        raise McpUnavailable(_other_revision(revision, f"it answers in {session.protocol_version}"))


def _other_revision(revision: Revision, why: str) -> str:
    return f"it does not support {revision}, the protocol revision set by its option revision: {why}"


async def _unresolved(created: CreatedTask, context: ClaimContext) -> types.CallToolResult:
    raise AssertionError("a created task is read by the caller of the SDK")
