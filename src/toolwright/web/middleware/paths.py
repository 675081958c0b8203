"""Middleware for what comes with a path: its other spellings, whom it answers across origins, its trace."""

import re
from collections.abc import Callable

from fastapi.middleware.cors import CORSMiddleware
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolwright.core.errors import Forbidden
from toolwright.core.journal.telemetry import Telemetry
from toolwright.web.answers.answer import answer

_OLD, _NEW = "/api/smart-spaces", "/api/spaces"
_VARIABLES = re.compile("/threads/[^/]+/variables/[^/]+")


class OtherPaths:
    """Answers `/api/smart-spaces/…` as `/api/spaces/…`, and `/threads/…/variables/…` as the same below `/api`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, under the path that its route has."""
        path = scope.get("path", "")
        if scope["type"] == "http":
            raw = scope.get("raw_path") or path.encode()
            if path == _OLD or path.startswith(f"{_OLD}/"):
                scope = {
                    **scope,
                    "path": _NEW + path[len(_OLD) :],
                    "raw_path": _NEW.encode() + raw[len(_OLD) :],
                }
            elif _VARIABLES.fullmatch(path):
                scope = {**scope, "path": f"/api{path}", "raw_path": b"/api" + raw}
        await self._app(scope, receive, send)


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
HEADERS = ("x-secret-key", "x-public-key", "authorization", "content-type", "last-event-id")
MCP_HEADERS = ("mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name")
"""Headers of MCP hosts that are pages; the first is in answers too."""


class Cors(CORSMiddleware):
    """CORS whose refusals are JSON like every other error; a subclass, for there is no seam to wrap."""

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code < 400:
            return response
        kept = {name: value for name, value in response.headers.items() if not name.startswith("content-")}
        return answer(
            {"error": bytes(response.body).decode(), "code": Forbidden.code}, response.status_code, kept
        )


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
