"""Limits of request bodies: the size of each, its pace, and what those that have not arrived whole hold in all."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolwright.core.errors import Overloaded, TooLarge, TooSlow
from toolwright.core.text import quantity
from toolwright.web.answers.unread import caller_of, unfinished_bodies
from toolwright.web.middleware.errors import answer_error
from toolwright.web.options import MAX_BODY, MAX_BODY_WITH_FILES, GatewayOptions

SLOWEST = 8 * 1024  # bytes a second that a body must come at, once its grace is over
_LARGE = {
    "POST": re.compile(
        "/api/threads/[^/]+/messages|/api/agents|/console/_nicegui/client/[^/]+/upload/[0-9]+"
    ),
    "PATCH": re.compile("/api/agents/[^/]+"),
}
"""Where attachments, or the tools of an agent, may come."""


class BodyLimit:
    """ASGI: a body that says it is too large is refused at once, any other when it has become so.

    `TooLarge`, `TooSlow`, or `Overloaded` for a body that made room for others, is raised where the body is read, and
    answered like every error of the core.
    """

    def __init__(self, app: ASGIApp, options: GatewayOptions) -> None:
        self._app = app
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope)
        if _content_length(scope) > limit:
            await answer_error(_too_large(limit))(scope, receive, send)
            return
        read, complete = 0, False
        clock, bodies, body = asyncio.get_running_loop(), unfinished_bodies(), _Body()
        began, caller = clock.time(), ""

        async def counted() -> Message:
            nonlocal read, complete, caller
            if complete:
                return await receive()  # what comes now is word that the caller is gone
            try:
                until = asyncio.timeout_at(began + self._options.body_grace + read / SLOWEST)
                async with body.within(until):
                    message = await receive()
            except TimeoutError:
                raise (_NO_ROOM if body.ended else TooSlow()) from None
            read += len(message.get("body", b""))
            if read > limit:
                raise _too_large(limit)
            complete = not message.get("more_body", False)
            bodies.remove(caller, body)
            if not complete:
                caller = caller_of(scope)
                bodies.add(caller, body, read)
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            bodies.remove(caller, body)

    def _limit(self, scope: Scope) -> int:
        if self._options.max_body is not None:
            return self._options.max_body
        large = _LARGE.get(scope["method"])
        is_large = large is not None and large.fullmatch(scope["path"]) is not None
        return MAX_BODY_WITH_FILES if is_large else MAX_BODY


_NO_ROOM = Overloaded(
    "The server holds too many request bodies that have not arrived whole. Send the request again later."
)


class _Body:
    """A body that arrives; `cancel` ends the wait for its next part."""

    def __init__(self) -> None:
        self.ended = False
        self._until: asyncio.Timeout | None = None

    def cancel(self) -> None:
        self.ended = True
        if self._until is not None:
            self._until.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def within(self, until: asyncio.Timeout) -> AsyncGenerator[None]:
        """Wait in this block until that time, or until the body must make room."""
        if self.ended:
            raise TimeoutError
        async with until:
            self._until = until
            try:
                yield
            finally:
                self._until = None


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than the limit of {quantity(limit, 'byte')}.")


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else 0
    return 0
