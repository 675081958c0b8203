"""The access log: a line for each request, without queries, headers and bodies, in which keys and tokens may stand."""

import logging
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolwright.core.text import brief
from toolwright.web.answers.unread import CALLER

log = logging.getLogger("toolwright.access")


class AccessLog:
    """Logs each request when its answer ends, at the level info: method, path, status, milliseconds, address, caller.

    The address is that of a trusted proxy's client, as the server has read it. The caller is `-` unless they are known.
    """

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
            address = ascii((scope.get("client") or ("-",))[0])[1:-1]  # a proxy's header may say anything
            caller = scope.get(CALLER, "-")
            log.info(
                "%s %s %s %.1f ms %s %s",
                scope["method"],
                path,
                status or "-",
                ms,
                brief(address, 100),
                caller,
            )
