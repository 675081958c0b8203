"""No body over the limit, whether it says its length or comes in chunks."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolwright.core.errors import TooLarge
from toolwright.web.faults import answer_error


class BodyLimit:
    """ASGI: a body that says it is too large is refused at once, any other when it has become so.

    `TooLarge` is raised where the body is read, and answered like every error of the core.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _said(scope) > self._limit:
            await answer_error(self._error())(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limit:
                raise self._error()
            return message

        await self._app(scope, counted, send)

    def _error(self) -> TooLarge:
        return TooLarge(f"The body is larger than the limit of {self._limit} bytes.")


def _said(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
