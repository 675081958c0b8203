"""Middleware of the gateway: errors as JSON, body limits, path aliases, CORS, tracing, and the access log."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from math import ceil
from time import perf_counter

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolwright.core import errors
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ERRORS
from toolwright.core.text import brief, quantity
from toolwright.web.answers import (
    INTERNAL,
    ApiResponse,
    answer,
    status_of,
    unfinished_bodies,
)
from toolwright.web.options import MAX_BODY, MAX_BODY_WITH_FILES, GatewayOptions
from toolwright.web.requests import invalid_fields
from toolwright.web.shares import CALLER, caller_of

log = logging.getLogger("toolwright.web")

RETRY_AFTER = "1"  # seconds
_OLD, _NEW = "/api/smart-spaces", "/api/spaces"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
HEADERS = ("x-secret-key", "x-public-key", "authorization", "content-type", "last-event-id")
MCP_HEADERS = ("mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name")
"""Headers of MCP hosts that run in browsers. The first is also in answers."""
access_log = logging.getLogger("toolwright.access")
SLOWEST = 8 * 1024  # minimum bytes per second of a body after its grace period


def answer_error(error: errors.ToolwrightError) -> ApiResponse:
    """Convert an error of the core to an HTTP answer."""
    status = status_of(type(error))
    if status == INTERNAL:
        log.error("A request failed.", exc_info=error)
        return internal()
    body: JSONObject = {"error": brief(error.message), "code": error.code}
    if isinstance(error, errors.InvalidRequest | errors.InvalidConfiguration):
        details: list[JSON] = [
            {name: brief(text, 500) for name, text in detail.items()} for detail in error.details[:MAX_ERRORS]
        ]
        body["details"] = details
    if isinstance(error, errors.TenvsRequired):
        body["missing"] = [*error.missing]
        invalid: list[JSON] = [{**each} for each in error.invalid]
        body["invalid"] = invalid
        del body["details"]
    if isinstance(error, errors.VariablesRequired):
        body["missing"] = [*error.missing]
        del body["details"]
    headers: dict[str, str] | None = None
    if isinstance(error, errors.TooManyRequests):
        headers = {"Retry-After": str(ceil(error.retry_after or 1))}
    elif isinstance(error, errors.StoreError | errors.KeysUnavailable | errors.Overloaded):
        headers = {"Retry-After": RETRY_AFTER}
    return answer(body, status, headers)


def internal() -> ApiResponse:
    """Return the answer for an unexpected error."""
    error = errors.ServerFailed()
    return answer({"error": error.message, "code": error.code}, INTERNAL)


def add_error_handlers(gateway: FastAPI) -> None:
    """Register handlers that answer errors of routes and of the framework like `answer_error`."""

    async def core_error(_: Request, error: Exception) -> ApiResponse:
        assert isinstance(error, errors.ToolwrightError), "registered for it"
        return answer_error(error)

    async def parameter_errors(_: Request, error: Exception) -> ApiResponse:
        assert isinstance(error, RequestValidationError), "registered for it"
        return answer_error(invalid_fields("request", error.errors(), skip=1))

    async def framework_error(request: Request, error: Exception) -> ApiResponse:
        assert isinstance(error, HTTPException), "registered for it"
        return _framework_answer(error, request)

    gateway.add_exception_handler(errors.ToolwrightError, core_error)
    gateway.add_exception_handler(RequestValidationError, parameter_errors)
    gateway.add_exception_handler(HTTPException, framework_error)


def _framework_answer(error: HTTPException, request: Request) -> ApiResponse:
    if error.status_code == status_of(errors.NotFound):
        return answer_error(errors.NotFound("Not found"))
    if error.status_code == status_of(errors.MethodNotAllowed):
        refused = errors.MethodNotAllowed()
        body: JSONObject = {"error": refused.message, "code": refused.code}
        return answer(body, error.status_code, {"Allow": ", ".join(sorted(_methods_of(request)))})
    return answer({"error": str(error.detail), "code": errors.ToolwrightError.code}, error.status_code)


def _methods_of(request: Request) -> set[str]:
    """Return the methods of all routes of the path; the framework names those of the first alone."""
    routes: Sequence[BaseRoute] = request.app.routes
    matching = [each for each in routes if each.matches(request.scope)[0] is not Match.NONE]
    return {method for each in matching for method in getattr(each, "methods", None) or ()}


class Guard:
    """ASGI middleware: logs unexpected errors with their traceback, and answers if nothing was sent yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            log.debug("%s %s: the caller has disconnected.", scope["method"], brief(scope["path"], 200))
        except Exception:
            log.exception("%s %s failed.", brief(scope["method"], 20), brief(scope["path"], 200))
            if started:
                raise
            await internal()(scope, receive, send)


_LARGE = {
    "POST": re.compile(
        "/api/threads/[^/]+/messages|/api/agents|/console/_nicegui/client/[^/]+/upload/[0-9]+"
    ),
    "PATCH": re.compile("/api/agents/[^/]+"),
}
"""Routes whose bodies can contain attachments or the tools of an agent."""


class BodyLimit:
    """ASGI middleware: rejects a body immediately if its declared size is too large, or when it exceeds the limit."""

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
                return await receive()  # the next message reports the caller's disconnection
            try:
                until = asyncio.timeout_at(began + self._options.body_grace + read / SLOWEST)
                async with body.within(until):
                    message = await receive()
            except TimeoutError:
                raise (_NO_ROOM if body.ended else errors.TooSlow()) from None
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


_NO_ROOM = errors.Overloaded(
    "The server holds too many request bodies that have not arrived whole. Send the request again later."
)


class _Body:
    """A body in transfer. `cancel` ends the wait for its next part."""

    def __init__(self) -> None:
        self.ended = False
        self._until: asyncio.Timeout | None = None

    def cancel(self) -> None:
        self.ended = True
        if self._until is not None:
            self._until.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def within(self, until: asyncio.Timeout) -> AsyncGenerator[None]:
        """Limit waiting in this block to that time, or until the body must make room."""
        if self.ended:
            raise TimeoutError
        async with until:
            self._until = until
            try:
                yield
            finally:
                self._until = None


def _too_large(limit: int) -> errors.TooLarge:
    return errors.TooLarge(f"The body is larger than the limit of {quantity(limit, 'byte')}.")


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else 0
    return 0


_VARIABLES = re.compile("/threads/[^/]+/variables/[^/]+")


class OtherPaths:
    """Maps `/api/smart-spaces/…` to `/api/spaces/…`, and `/threads/…/variables/…` to the same path below `/api`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request with the path of its route. The server reads the caller from the same scope."""
        path = scope.get("path", "")
        if scope["type"] == "http":
            raw = scope.get("raw_path") or path.encode()
            if path == _OLD or path.startswith(f"{_OLD}/"):
                scope["path"] = _NEW + path[len(_OLD) :]
                scope["raw_path"] = _NEW.encode() + raw[len(_OLD) :]
            elif _VARIABLES.fullmatch(path):
                scope["path"], scope["raw_path"] = f"/api{path}", b"/api" + raw
        await self._app(scope, receive, send)


class Cors(CORSMiddleware):
    """CORS whose rejections are JSON like all other errors. A subclass, because there is no other extension point."""

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code < 400:
            return response
        headers = {name: value for name, value in response.headers.items() if not name.startswith("content-")}
        return answer(
            {"error": bytes(response.body).decode(), "code": errors.Forbidden.code},
            response.status_code,
            headers,
        )


NAMES = frozenset({b"traceparent", b"tracestate"})


class CallerTrace:
    """Reads the W3C trace context from the headers of a request if telemetry is enabled."""

    def __init__(self, app: ASGIApp, telemetry: Callable[[], Telemetry | None]) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request within the trace of its caller."""
        telemetry = self._telemetry()
        if scope["type"] != "http" or telemetry is None:
            await self._app(scope, receive, send)
            return
        headers = {name.decode(): text.decode("latin-1") for name, text in scope["headers"] if name in NAMES}
        with telemetry.incoming(headers):
            await self._app(scope, receive, send)


class AccessLog:
    """Logs each request at level info when its answer ends: method, path, status, milliseconds, address, caller.

    Behind a trusted proxy the address is the client's, as determined by the server. An unknown caller is `-`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, and log it if the level is enabled."""
        if scope["type"] != "http" or not access_log.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        status, began, sent_path = 0, perf_counter(), scope["path"]

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            ms = (perf_counter() - began) * 1_000
            path = brief(ascii(sent_path)[1:-1], 300)  # removes line breaks sent by clients
            address = ascii((scope.get("client") or ("-",))[0])[1:-1]  # a proxy's header can contain any text
            caller = scope.get(CALLER, "-")
            access_log.info(
                "%s %s %s %.1f ms %s %s",
                scope["method"],
                path,
                status or "-",
                ms,
                brief(address, 100),
                caller,
            )
