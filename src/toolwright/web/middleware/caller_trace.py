"""The trace context of a caller's request: what the request begins is part of the caller's trace."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from toolwright.core.journal.telemetry import Telemetry

NAMES = frozenset({b"traceparent", b"tracestate"})


class CallerTrace:
    """Takes the W3C trace context from the headers of a request, where there is telemetry."""

    def __init__(self, app: ASGIApp, telemetry: Callable[[], Telemetry | None]) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, within the trace of its caller."""
        telemetry = self._telemetry()
        if scope["type"] != "http" or telemetry is None:
            await self._app(scope, receive, send)
            return
        headers = {name.decode(): text.decode("latin-1") for name, text in scope["headers"] if name in NAMES}
        with telemetry.incoming(headers):
            await self._app(scope, receive, send)
