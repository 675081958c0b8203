"""The access log: a line for each request, without queries, headers and bodies, in which keys and tokens may stand."""

import logging
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolwright.core.text import brief

CALLER = "toolwright.caller"
"""The name in a request's scope of what kind its caller is, once that is known."""

log = logging.getLogger("toolwright.access")


class AccessLog:
    """Logs method, path, status, milliseconds and the kind of the caller when an answer ends, at the level info."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on; where nobody wants to know, that is all."""
        if scope["type"] != "http" or not log.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        status, began = 0, perf_counter()

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            ms = (perf_counter() - began) * 1_000
            path = brief(ascii(scope["path"])[1:-1], 300)  # no line breaks, whoever sends them
            log.info("%s %s %s %.1f ms %s", scope["method"], path, status or "-", ms, scope.get(CALLER, "-"))
