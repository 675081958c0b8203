"""No body over the limit, whether it says its length or comes in chunks, and none that comes too slowly."""

import asyncio
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolwright.core.errors import TooLarge, TooSlow
from toolwright.core.text import quantity
from toolwright.web.middleware.errors import answer_error
from toolwright.web.options import MAX_BODY, MAX_BODY_WITH_FILES, GatewayOptions

SLOWEST = 8 * 1024  # bytes a second that a body must come at, once its grace is over
_WITH_FILES = re.compile("/api/threads/[^/]+/messages|/console/_nicegui/client/[^/]+/upload/[0-9]+")


class BodyLimit:
    """ASGI: a body that says it is too large is refused at once, any other when it has become so.

    `TooLarge` or `TooSlow` is raised where the body is read, and answered like every error of the core.
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
        clock = asyncio.get_running_loop()
        began = clock.time()

        async def counted() -> Message:
            nonlocal read, complete
            if complete:
                return await receive()  # what comes now is word that the caller is gone
            try:
                async with asyncio.timeout_at(began + self._options.body_grace + read / SLOWEST):
                    message = await receive()
            except TimeoutError:
                raise TooSlow from None
            read += len(message.get("body", b""))
            if read > limit:
                raise _too_large(limit)
            complete = not message.get("more_body", False)
            return message

        await self._app(scope, counted, send)

    def _limit(self, scope: Scope) -> int:
        if self._options.max_body is not None:
            return self._options.max_body
        with_files = scope["method"] == "POST" and _WITH_FILES.fullmatch(scope["path"]) is not None
        return MAX_BODY_WITH_FILES if with_files else MAX_BODY


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than the limit of {quantity(limit, 'byte')}.")


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else 0
    return 0
