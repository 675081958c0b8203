"""Connections of the server: limited in number, rejected with JSON errors, closed if stuck or idle."""

import asyncio
import logging
import socket
import struct
from collections import OrderedDict
from time import monotonic
from typing import Any

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolwright.core.errors import InvalidRequest
from toolwright.web.answers import CUT, answer
from toolwright.web.shares import caller_of

_AT_ONCE = struct.pack("ii", 1, 0)
HEAD_GRACE = 30.0  # seconds within which the head of a request must arrive
WRITE_GRACE = 30.0  # seconds within which a client must read its pending data, or `MIN_READ` of it
MIN_READ = 64 * 1024  # bytes
LOG_EVERY = 1.0  # seconds between two log lines about the same flood
_ALL = ""  # the key of all addresses together
log = logging.getLogger("toolwright.serve")


class Connections:
    """Limits the number of open connections, in total and per address, so that file descriptors remain for other uses.

    If a new connection would exceed the limit, the longest idle connection is closed: one of its own address if that
    has used its share, otherwise one of the address with the most connections. If none is idle, the caller who holds
    the most connections with streams, downloads and incomplete bodies loses the oldest of them, whatever addresses they
    come from. If no caller holds more than one, the new connection is closed.
    """

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._by_address: dict[str, OrderedDict[HttpConnection, None]] = {}
        # By address and caller, with an entry for all addresses.
        self._held: dict[str, dict[str, OrderedDict[HttpConnection, None]]] = {}
        self._count = 0
        self._logged_at = -LOG_EVERY

    def add(self, connection: "HttpConnection") -> bool:
        """Count a new connection. Returns False if it has to be closed."""
        connections = self._by_address.setdefault(connection.address, OrderedDict())
        crowded: OrderedDict[HttpConnection, None] | None = None
        address = _ALL
        if len(connections) >= self._most_per_address:
            crowded, address = connections, connection.address
        elif self._count >= self._most:
            crowded = max(self._by_address.values(), key=len)
        if crowded is not None and not (self._close_idle(crowded) or self._close_held(address)):
            return False
        connections = self._by_address.setdefault(connection.address, OrderedDict())
        connections[connection] = None
        self._count += 1
        return True

    def use(self, connection: "HttpConnection") -> None:
        """Record that a request has arrived: the connection is now the last to be closed."""
        connections = self._by_address.get(connection.address)
        if connections is not None and connection in connections:
            connections.move_to_end(connection)

    def hold(self, connection: "HttpConnection", caller: str) -> None:
        """Record that the caller holds the connection: with a stream, a download or an incomplete body."""
        if connection.holder is not None or connection not in self._by_address.get(connection.address, ()):
            return  # the application can send a little more after the connection was closed
        connection.holder = caller
        for address in (_ALL, connection.address):
            held = self._held.setdefault(address, {}).setdefault(caller, OrderedDict())
            held[connection] = None

    def release(self, connection: "HttpConnection") -> None:
        """Record that the caller no longer holds the connection."""
        caller, connection.holder = connection.holder, None
        if caller is None:
            return
        for address in (_ALL, connection.address):
            by_caller = self._held[address]
            del by_caller[caller][connection]
            if not by_caller[caller]:
                del by_caller[caller]
            if not by_caller:
                del self._held[address]

    def remove(self, connection: "HttpConnection") -> None:
        """Remove a connection that is closed, or has become a web socket."""
        self.release(connection)
        connections = self._by_address.get(connection.address)
        if connections is None or connection not in connections:
            return
        del connections[connection]
        self._count -= 1
        if not connections:
            del self._by_address[connection.address]

    def _close_idle(self, connections: "OrderedDict[HttpConnection, None]") -> bool:
        """Close the longest idle connection. Returns False if all are in use."""
        self._warn(len(connections), next(iter(connections), None))
        idle = next((each for each in connections if each.is_idle), None)
        if idle is None:
            return False
        self.remove(idle)
        idle.transport.abort()
        return True

    def _close_held(self, address: str) -> bool:
        """Close the oldest connection of the caller who holds the most. Returns False if none holds more than one."""
        held = max(self._held.get(address, {}).values(), key=len, default=OrderedDict[HttpConnection, None]())
        if len(held) < 2:
            return False
        oldest = next(iter(held))
        self.remove(oldest)
        oldest.transport.abort()
        return True

    def _warn(self, count: int, one: "HttpConnection | None") -> None:
        now = monotonic()
        if now - self._logged_at >= LOG_EVERY:
            self._logged_at = now
            log.warning(
                "%d connections are open, %d of them from %s: idle ones are closed, then those of the caller who "
                "holds the most.",
                self._count,
                count,
                "-" if one is None else one.address,
            )


class HttpConnection(H11Protocol):
    """uvicorn's connection class, extended where it has no hooks. h11 is the always installed implementation."""

    # as in uvicorn
    def __init__(
        self,
        *args: Any,
        bounds: Connections,
        write_grace: float = WRITE_GRACE,
        head_grace: float = HEAD_GRACE,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds
        self._head_grace = head_grace
        self._write_grace = write_grace
        self._stuck: asyncio.TimerHandle | None = None
        self.address = ""
        self.holder: str | None = None
        self._inner: ASGIApp = self.app  # type: ignore[assignment]  # uvicorn spells ASGI in its own types
        self.app = self._with_cut  # type: ignore[assignment]  # as above
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the timeout for the first request of a new connection."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if not self._bounds.add(self):
            transport.abort()
            return
        _send_at_once(transport)
        self._patience = self.loop.call_later(self._head_grace, self._lose_patience)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeouts of a closed connection."""
        self._bounds.remove(self)
        self._expect_nothing()
        self._let_read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Pause writing until the client reads, within a timeout."""
        super().pause_writing()
        self._schedule_check()

    def resume_writing(self) -> None:
        """Resume writing after the client has read."""
        self._let_read()
        super().resume_writing()

    def handle_events(self) -> None:
        """Apply our timeout while a request head is received; between requests uvicorn's keep-alive applies."""
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self._expect_nothing()
            self._bounds.use(self)
        elif self.conn.trailing_data[0] and self._patience is None:
            self._patience = self.loop.call_later(self._head_grace, self._lose_patience)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand a web socket over; it is no longer limited as an HTTP connection."""
        self._bounds.remove(self)
        self._expect_nothing()
        self._let_read()
        super().handle_websocket_upgrade(event)

    @property
    def is_idle(self) -> bool:
        """Return whether no request is in progress."""
        is_responding = self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first
        return not is_responding

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not valid HTTP with an error in the usual form."""
        refusal = answer({"error": msg, "code": InvalidRequest.code}, 400, {"connection": "close"})
        head = h11.Response(status_code=400, headers=refusal.raw_headers, reason=b"Bad Request")
        for event in (head, h11.Data(data=bytes(refusal.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    async def _with_cut(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("extensions", {})[CUT] = self._cut

        async def receiving() -> Message:
            if self.cycle.more_body and not self.cycle.response_started:
                self._bounds.hold(self, caller_of(scope))
            message = await receive()
            if not self.cycle.more_body and not self.cycle.response_started:
                self._bounds.release(self)
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.body":
                if message.get("more_body", False):
                    self._bounds.hold(self, caller_of(scope))
                else:
                    self._bounds.release(self)
            await send(message)

        await self._inner(scope, receiving, sending)

    def _cut(self) -> None:
        """Discard unsent data, also in the kernel, which would otherwise keep it until the client reads it."""
        connected = self.transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _schedule_check(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._stuck = self.loop.call_later(self._write_grace, self._check_read, waiting)

    def _check_read(self, waiting: int) -> None:
        if waiting - self.transport.get_write_buffer_size() >= MIN_READ:
            self._schedule_check()
            return
        self._stuck = None
        log.info("A client at %s does not read its response and is disconnected.", self.address or "-")
        self._cut()

    def _let_read(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _expect_nothing(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        self._patience = None
        self.transport.abort()


def _send_at_once(transport: asyncio.Transport) -> None:
    """Disable Nagle's algorithm, so that small responses are sent immediately.

    asyncio sets this only on sockets whose protocol is TCP; sockets accepted by a listener of `socket.create_server` do
    not report it.
    """
    accepted = transport.get_extra_info("socket")
    if accepted is not None and accepted.family in (socket.AF_INET, socket.AF_INET6):
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
