"""Session with an MCP server: opens the transport, negotiates the protocol revision, dispatches its messages."""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, cast

import anyio.abc
import httpx2
import mcp_types as types
from mcp.client.extension import ClaimContext, ResultClaim
from mcp.client.session import ClientSession, ElicitationFnT, MessageHandlerFnT, SamplingFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import MessageMetadata, SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolwright.adapters.mcp.messages import CREATED, MANY_PARTS, TASKS, CreatedTask, readable_answer
from toolwright.adapters.mcp.peer import CALLER, MAX_MESSAGE, error_for_answer, error_line, with_own_code
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

HEADER_MARK = "x-mcp-header"
"""Schema keyword of arguments that are also sent as headers."""
PROGRESS_PAUSE = 0.05
"""Seconds between two delivered progress reports of one call."""
MAX_TOKENS = 1_000
"""Calls whose progress is reported within one pause; progress of further calls is dropped."""


BURST, STEADY = 10_000, 500
"""Notifications and requests that a server may send at once, and per second from then on."""
REQUESTS, STEADY_REQUESTS = 300, 30
"""Requests that a server may send at once, and per second from then on: each is answered."""
FLOODED = f"it sends more than {STEADY} messages or {STEADY_REQUESTS} requests a second, so its connection was closed"
USE_SSE = 'it speaks the older transport SSE: set transport "sse"'
PROBE_TIMEOUT = 5.0  # seconds
END_TIMEOUT = 2.0  # seconds for the request that ends a session


class _Rate:
    """Counts the messages of a server: `burst` at once, then `steady` per second."""

    def __init__(self, burst: int, steady: int) -> None:
        self._burst, self._steady = burst, steady
        self._room = float(burst)
        self._at = asyncio.get_running_loop().time()

    def allows(self) -> bool:
        """Count a message. Returns whether it is within the limit."""
        now = asyncio.get_running_loop().time()
        self._room = min(self._burst, self._room + (now - self._at) * self._steady) - 1
        self._at = now
        return self._room >= 0


class _Progress:
    """Progress of one call in the current pause: the latest report, and whether the end was delivered."""

    __slots__ = ("ended", "latest", "pause")

    def __init__(self, ended: bool, pause: "asyncio.Task[None]") -> None:
        self.ended = ended
        self.pause = pause
        self.latest: Callable[[], None] | None = None


class ToolsDispatcher(JSONRPCDispatcher):
    """The SDK's dispatcher, extended for tool lists, tasks and progress.

    `listed` are the tools of the last page as sent by the server, or None if it sent no list. `marked` are the names of
    the tools whose arguments are also sent as headers. The SDK receives only the parts of tools that it needs, and
    validates no results: this package does. `over` is set when the connection has ended, or if the server sends too
    many messages, which are dropped then (`flooded`).
    """

    listed: list[Any] | None  # whatever the server sent
    marked: set[str]

    def __init__(self, *streams: Any, over: asyncio.Event) -> None:  # types of the SDK
        super().__init__(*streams)
        self.listed, self.marked = [], set()
        self._over = over
        self._progress: dict[Any, _Progress] = {}  # by call token
        self._rate = _Rate(BURST, STEADY)
        self._requests = _Rate(REQUESTS, STEADY_REQUESTS)
        self.flooded = False

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: RequestId | None = None,
    ) -> dict[str, Any]:
        """Return the answer to a request."""
        try:
            answer = await super().send_raw_request(
                method, params, opts, _related_request_id=_related_request_id
            )
        except MCPError as error:
            raise with_own_code(error) from error
        if method == "tools/call" and isinstance(answer.get("task"), dict):
            return {"content": [], "_meta": {CREATED: answer["task"]}}  # the SDK has no type for this result
        if method == "tools/call":
            return await _readable(answer)
        if method != "tools/list":
            return answer
        listed = answer.get("tools")
        self.listed = listed if isinstance(listed, list) else None
        marked = await asyncio.to_thread(_marked, self.listed or [])
        self.marked = {each["name"] for each in marked}
        return {**answer, "tools": marked}

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Receive until the connection has ended."""
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self._over.set()
            for each in self._progress.values():
                each.pause.cancel()

    async def _dispatch(
        self,
        item: SessionMessage | Exception,
        on_request: OnRequest,
        on_notify: OnNotify,
        sender_ctx: contextvars.Context | None,
    ) -> None:
        """Deliver a message, or the error for the request whose answer the SSE transport could not parse."""
        if self._is_flood(item):
            return
        if isinstance(item, ValidationError):
            # The first error is of the JSON, or of a request, which an answer is not: its input is the whole message.
            [first, *_] = item.errors(include_url=False, include_context=False)
            item = await asyncio.to_thread(error_for_answer, first["input"]) or item
        await super()._dispatch(item, on_request, on_notify, sender_ctx)

    def _is_flood(self, item: SessionMessage | Exception) -> bool:
        """Return whether the message is dropped because the server sends too many. Then the session ends."""
        message = item.message if isinstance(item, SessionMessage) else None
        if not isinstance(message, JSONRPCNotification | JSONRPCRequest):
            return False
        is_request = isinstance(message, JSONRPCRequest)
        if not self.flooded and not (self._rate.allows() and (not is_request or self._requests.allows())):
            self.flooded = True
            self._over.set()
        return self.flooded

    def _dispatch_notification(
        self,
        msg: JSONRPCNotification,
        metadata: MessageMetadata,
        on_notify: OnNotify,
        sender_ctx: contextvars.Context | None,
    ) -> None:
        """Deliver a notification.

        Of a call's progress only the latest report per pause is delivered, because the SDK starts two tasks for each.
        """
        token = (msg.params or {}).get("progressToken")
        if msg.method != "notifications/progress" or not isinstance(token, str | int):
            return super()._dispatch_notification(msg, metadata, on_notify, sender_ctx)
        params = msg.params or {}
        is_end = params.get("total") is not None and params.get("progress") == params["total"]
        progress = self._progress.get(token)
        if progress is not None and (progress.ended or not is_end):
            progress.latest = lambda: self._dispatch_notification(msg, metadata, on_notify, sender_ctx)
            return None
        if progress is None:
            if len(self._progress) >= MAX_TOKENS:
                return None
            pause = asyncio.create_task(self._pause(token), name="mcp-progress-pause")
            self._progress[token] = _Progress(is_end, pause)
        else:
            progress.ended, progress.latest = True, None
        return super()._dispatch_notification(msg, metadata, on_notify, sender_ctx)

    async def _pause(self, token: str | int) -> None:
        await asyncio.sleep(PROGRESS_PAUSE)
        latest = self._progress.pop(token).latest
        if latest is not None and self._tg is not None:  # None if the session is ending
            latest()


async def _readable(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a call in a form that the SDK can read. Many parts are processed in a thread."""
    content: Any = answer.get("content")  # whatever the server sent
    many = isinstance(content, list) and len(cast("list[Any]", content)) > MANY_PARTS
    return dict(await asyncio.to_thread(readable_answer, answer) if many else readable_answer(answer))


def _marked(listed: list[Any]) -> list[dict[str, Any]]:
    """Return the tools with arguments that are also sent as headers. The SDK validates only these."""
    return [_needed(each) for each in listed if _is_usable(each) and _has_mark(each["inputSchema"])]


def _has_mark(schema: Any) -> bool:  # whatever the server sent
    within = [schema]
    while within:
        part = within.pop()
        if isinstance(part, dict):
            if HEADER_MARK in part:
                return True
            within += part.values()
        elif isinstance(part, list):
            within += part
    return False


def _is_usable(entry: Any) -> bool:  # whatever the server sent
    match entry:
        case {"name": str(), "inputSchema": {"type": "object"}}:
            return True
        case {"name": str(), "inputSchema": {"type": _}}:
            return False
        case {"name": str(), "inputSchema": dict()}:
            return True
        case _:
            return False


def _needed(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a tool from which the SDK reads which arguments are also sent as headers."""
    return {"name": entry["name"], "inputSchema": {"type": "object", **entry["inputSchema"]}}


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
