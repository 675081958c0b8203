"""A connection of the server: refused in JSON, cut off where it is stuck, never held by a request that never comes."""

import asyncio
import socket
import struct
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolwright.core.errors import InvalidRequest
from toolwright.web.answers.answer import answer
from toolwright.web.streams.stream import CUT

_AT_ONCE = struct.pack("ii", 1, 0)
HEAD_GRACE = 30.0  # seconds in which the head of a request must have come


class Connection(H11Protocol):
    """uvicorn's own, with what it has no hooks for; of its two kinds the one that every installation has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # uvicorn's own
        super().__init__(*args, **kwargs)
        self._inner: ASGIApp = self.app  # type: ignore[assignment]  # uvicorn spells ASGI in its own types
        self.app = self._with_cut  # type: ignore[assignment]  # as above
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Somebody calls: now a request must come."""
        super().connection_made(transport)
        _send_at_once(transport)
        self._patience = self.loop.call_later(HEAD_GRACE, self._lose_patience)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more."""
        self._expect_nothing()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Between two requests uvicorn's keep-alive counts; within a head, our patience."""
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self._expect_nothing()
        elif self.conn.trailing_data[0] and self._patience is None:
            self._patience = self.loop.call_later(HEAD_GRACE, self._lose_patience)

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP as all errors are."""
        refusal = answer({"error": msg, "code": InvalidRequest.code}, 400, {"connection": "close"})
        head = h11.Response(status_code=400, headers=refusal.raw_headers, reason=b"Bad Request")
        for event in (head, h11.Data(data=bytes(refusal.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    async def _with_cut(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("extensions", {})[CUT] = self._cut
        await self._inner(scope, receive, send)

    def _cut(self) -> None:
        """Let go of what waits for the reader, in the kernel too: it would stay there as long as nobody reads it."""
        connected = self.transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _expect_nothing(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        self._patience = None
        self.transport.abort()


def _send_at_once(transport: asyncio.Transport) -> None:
    """No small answer waits for the caller's acknowledgement of its head.

    asyncio sets this only on sockets that say they are TCP; those that a listener was made for by
    `socket.create_server` do not.
    """
    accepted = transport.get_extra_info("socket")
    if accepted is not None and accepted.family in (socket.AF_INET, socket.AF_INET6):
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
