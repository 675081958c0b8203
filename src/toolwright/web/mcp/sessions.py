"""Sessions of MCP hosts, including those in other processes."""

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import get_args

import httpx2
from fastapi import Request
from mcp.server.connection import allowed_log_levels
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types import LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParams
from starlette.types import Message, Receive, Send

from toolwright.core.errors import CannotSeal, CannotUnseal, StoreError
from toolwright.core.json_value import JSON
from toolwright.core.ports import Bus, Cipher
from toolwright.core.text import quantity
from toolwright.core.threads.event import Event
from toolwright.web.auth.access import Caller, Signer, SigningKeys
from toolwright.web.mcp.tools import Context, McpParts, is_modern

VALID = 3600.0
"""Seconds for which a state is valid: as long as a question waits for its answer."""

_LOCAL_PREFIX = "p."
LOG = "log"
"""Type of events that handlers emit for the host's log: a text, or `{level?, message?, logger?, …}`."""
MAX_PER_CALLER = 250
MAX_SESSIONS = 1_000
FORWARDED = "toolwright-forwarded"  # header of a request forwarded by another process
KEY = "mcp session "
CHECK_INTERVAL = 1.0  # seconds
CONNECT = 5.0  # seconds to connect to another process; there is no limit for its answer


class StateCodec:
    """The SDK's codec using the journal's cipher, so that every process with its keys can read all states.

    Without keys, only the process that encrypted a state can read it.
    """

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher
        self._own = AESGCMRequestStateCodec([os.urandom(32)])

    def seal(self, payload: bytes) -> str:
        """Encrypt a state to an opaque token."""
        try:
            return self._cipher.seal(payload.decode())[0]
        except CannotSeal:
            return _LOCAL_PREFIX + self._own.seal(payload)

    def unseal(self, token: str) -> bytes:
        """Decrypt a token. Raises `InvalidRequestState`."""
        if token.startswith(_LOCAL_PREFIX):
            return self._own.unseal(token.removeprefix(_LOCAL_PREFIX))
        try:
            return self._cipher.open(token).encode()
        except CannotUnseal as error:  # its message is meant for an operator, who would look for a lost key
            raise InvalidRequestState("seal") from error
        except ValueError as error:  # not a token of the cipher, e.g. not ASCII
            raise InvalidRequestState("malformed") from error


LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
ENDS = frozenset({"tool.done", "tool.error"})


class HostNotifier:
    """Sends notifications to the host of one request. Progress only increases, as the protocol requires."""

    def __init__(self, parts: McpParts, context: Context, call_id: str) -> None:
        self._parts = parts
        self._context = context
        self._call_id = call_id
        self._last = float("-inf")
        self._reported = False
        self.ended = False

    async def send(self, events: Sequence[Event]) -> None:
        """Send the events that are meant for the host."""
        for event in events:
            is_own = event.payload.get("toolCallId") == self._call_id
            if event.type == "tool.progress" and is_own:
                await self._progress(event)
            elif event.type == LOG:
                await self._log(event.payload.get("data"))
            elif event.type in ENDS and is_own:
                self.ended = True

    async def beat(self, seconds: float, what: str) -> None:
        """Report that the call is in progress after `seconds`, unless its tool reports its own progress."""
        if not self._reported and seconds > self._last:
            self._last = seconds
            await self._context.session.report_progress(round(seconds, 1), None, what)

    async def _progress(self, event: Event) -> None:
        done, total, text = (event.payload.get(name) for name in ("done", "total", "text"))
        if not isinstance(done, int | float) or (self._reported and done <= self._last):
            return
        self._last, self._reported = done, True
        await self._context.session.report_progress(
            done,
            total if isinstance(total, int | float) else None,
            text if isinstance(text, str) else None,
        )

    async def _log(self, content: JSON) -> None:
        fields = content if isinstance(content, dict) else {"message": content}
        level = fields.get("level", "info")
        mcp_level = level if level in LEVELS else "info"
        if not self._is_enabled(mcp_level):
            return
        logger = fields.get("logger")
        rest = {name: each for name, each in fields.items() if name not in ("level", "logger")}
        params = LoggingMessageNotificationParams(
            level=mcp_level,
            logger=logger if isinstance(logger, str) else None,
            data=rest["message"] if list(rest) == ["message"] else rest,
        )
        await self._context.session.send_notification(
            LoggingMessageNotification(params=params), self._context.request_id
        )

    def _is_enabled(self, level: LoggingLevel) -> bool:
        if is_modern(self._context):
            meta = (self._context.params or {}).get("_meta")
            return level in allowed_log_levels(self._context.protocol_version, meta)
        least = self._parts.levels.get(session_of(self._context), "debug")
        return LEVELS.index(level) >= LEVELS.index(least)


def session_of(context: Context) -> str | None:
    """Return the session of a request, or None on stdio, which has only one."""
    return None if context.request is None else context.request.headers.get("mcp-session-id")


def principal(caller: Caller) -> str:
    """Return the owner of a session and of the state of a question."""
    return caller.kind if caller.entity_id is None else caller.entity_id


_HEADER = MCP_SESSION_ID_HEADER.encode()
_HOP_BY_HOP = frozenset(
    [b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"]
)
_OWN_HEADERS = frozenset([b"date", b"server"])  # headers that this server generates itself


@dataclass(slots=True, eq=False)
class _Session:
    caller: str
    requests: int = 0  # requests in progress, including an open stream


@dataclass(slots=True)
class McpSessions:
    """Tracks sessions, most recently used last. `end` ends a caller's session by its id."""

    end: Callable[[str, str], Awaitable[None]]
    addresses: "SessionAddresses"
    most_of_caller: int = MAX_PER_CALLER
    most: int = MAX_SESSIONS
    _sessions: OrderedDict[str, _Session] = field(default_factory=OrderedDict[str, _Session])
    _opening: int = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    @asynccontextmanager
    async def using(self, session_id: str) -> AsyncGenerator[None]:
        """Track a request in the session, which is not idle within the block."""
        session = self._sessions.get(session_id)
        if session is None:
            yield
            return
        session.requests += 1
        try:
            yield
        finally:
            session.requests -= 1
            if session_id in self._sessions:
                self._sessions.move_to_end(session_id)

    @asynccontextmanager
    async def opening(self, caller: str, send: Send) -> AsyncGenerator[Send]:
        """Track a request that can open a session. The yielded `send` function looks for the session's id.

        Raises `StoreError` if the maximum of sessions is reached.
        """
        name = f"opening {self._opening}"
        self._opening += 1
        await self._make_room(caller)
        session = self._sessions[name] = _Session(caller, requests=1)
        opened: list[str] = []

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                opened.extend(value.decode() for key, value in message["headers"] if key.lower() == _HEADER)
                for session_id in opened:
                    self._sessions[session_id] = session
                    await self.addresses.add(session_id)
            await send(message)

        try:
            yield watched
        finally:
            session.requests -= 1
            self._sessions.pop(name, None)

    def forget(self, session_id: str) -> None:
        """Remove a session that has ended."""
        if self._sessions.pop(session_id, None) is not None:
            self.addresses.remove(session_id)

    async def _make_room(self, caller: str) -> None:
        session_ids = [name for name, each in self._sessions.items() if each.caller == caller]
        if len(session_ids) >= self.most_of_caller:
            await self._end_idle(
                session_ids,
                f"This caller has {quantity(len(session_ids), 'session')} in use, the most there may be.",
            )
        elif len(self._sessions) >= self.most:
            await self._end_idle(
                self._sessions_of_busiest(),
                f"{quantity(len(self), 'session')} are in use, the most there may be.",
            )

    def _sessions_of_busiest(self) -> list[str]:
        """Return the sessions of the caller who has the most."""
        by_caller: dict[str, list[str]] = {}
        for name, session in self._sessions.items():
            by_caller.setdefault(session.caller, []).append(name)
        return max(by_caller.values(), key=len)

    async def _end_idle(self, names: list[str], refusal: str) -> None:
        idle = next((name for name in names if not self._sessions[name].requests), None)
        if idle is None:
            raise StoreError(f"{refusal} End one of them, or try again later.")
        self.addresses.remove(idle)
        await self.end(idle, self._sessions.pop(idle).caller)


class SessionAddresses:
    """Addresses of the processes that have sessions. Sessions of this process (`url`) are shared over the bus."""

    def __init__(self, bus: Callable[[], Bus], url: str | None, keys: SigningKeys) -> None:
        self._bus, self._url = bus, url
        self._signature = Signer(keys, "address of an mcp session")
        self._client: httpx2.AsyncClient | None = None

    async def add(self, session_id: str) -> None:
        """Share the address of a session in this process."""
        if self._url is not None:
            signed = await self._signature.seal(f"{session_id} {self._url}".encode())
            self._bus().share(KEY + session_id, signed)

    def remove(self, session_id: str) -> None:
        """Remove the shared address of a session in this process."""
        if self._url is not None:
            with suppress(StoreError):  # the server stops, which removes everything it shares
                self._bus().share(KEY + session_id, None)

    async def find(self, session_id: str) -> str | None:
        """Return the address of the other process that has the session."""
        for signed in self._bus().shared(KEY + session_id):
            content = await self._signature.open(signed) if isinstance(signed, str) else None
            about, _, url = (content or b"").decode().partition(" ")
            if about == session_id and url:
                return url
        return None

    async def forward(
        self, session_id: str, url: str, request: Request, body: bytes, receive: Receive, send: Send
    ) -> bool:
        """Forward the request to the process at the URL and send its answer. Returns False if it is unreachable."""
        if self._client is None:
            timeout = httpx2.Timeout(None, connect=CONNECT)
            # A reused connection that the other process has just closed would look like a dead process.
            limits = httpx2.Limits(max_keepalive_connections=0)
            self._client = httpx2.AsyncClient(timeout=timeout, trust_env=False, limits=limits)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in _HOP_BY_HOP]
        place = httpx2.URL(f"{url.rstrip('/')}{request.url.path}", query=request.url.query.encode())
        passed_on = self._client.build_request(
            request.method, place, headers=[*headers, (FORWARDED.encode(), b"1")], content=body
        )
        started = asyncio.Event()
        passing = asyncio.create_task(_pass_back(self._client, passed_on, send, started))
        leaving = asyncio.create_task(_until_gone(receive))
        lost = asyncio.create_task(self._until_lost(session_id, url))
        try:
            await asyncio.wait([passing, leaving, lost], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = passing.done()
            has_caller = not leaving.done()
            for task in (passing, leaving, lost):
                task.cancel()
        if ended:
            return passing.result()
        await asyncio.wait([passing])
        if started.is_set() and has_caller:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        return started.is_set() or not has_caller

    async def _until_lost(self, session_id: str, url: str) -> None:
        """Wait until the process at the URL neither announces the session nor responds."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            if await self.find(session_id) != url and not await self._lives(url):
                return

    async def _lives(self, url: str) -> bool:
        """Return whether the process at the URL responds. Without a broker its announcements do not arrive."""
        assert self._client is not None, "a request is passed on with it"
        try:
            await self._client.get(f"{url.rstrip('/')}/live", timeout=CONNECT)
        except httpx2.TransportError:
            return False
        return True

    async def aclose(self) -> None:
        """Close the connections to other processes."""
        if self._client is not None:
            await self._client.aclose()


async def _pass_back(
    client: httpx2.AsyncClient, request: httpx2.Request, send: Send, started: asyncio.Event
) -> bool:
    try:
        response = await client.send(request, stream=True)
    except httpx2.TransportError:
        return False
    started.set()
    try:
        dropped = _HOP_BY_HOP | _OWN_HEADERS
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in dropped]
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        # the process died during the answer: forward the received part and end it
        with suppress(httpx2.TransportError):
            async for piece in response.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await response.aclose()
    return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
