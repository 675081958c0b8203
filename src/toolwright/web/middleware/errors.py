"""Every error as JSON: `{error, code}`, with `details` where paths are to blame."""

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolwright.core.errors import (
    InvalidConfiguration,
    InvalidRequest,
    KeysUnavailable,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    ServerFailed,
    StoreError,
    TenvsLacking,
    ToolwrightError,
    VariablesLacking,
)
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MOST_FAULTS
from toolwright.core.text import brief
from toolwright.web.answers.answer import INTERNAL, Answer, answer, status_of
from toolwright.web.requests.body import invalid_value

log = logging.getLogger("toolwright.web")

RETRY_AFTER = "1"  # seconds


def answer_error(error: ToolwrightError) -> Answer:
    """An error of the core as its answer."""
    status = status_of(type(error))
    if status == INTERNAL:
        log.error("A request failed.", exc_info=error)
        return internal()
    body: JSONObject = {"error": brief(error.message), "code": error.code}
    if isinstance(error, InvalidRequest | InvalidConfiguration):
        details: list[JSON] = [
            {name: brief(text, 500) for name, text in detail.items()}
            for detail in error.details[:MOST_FAULTS]
        ]
        body["details"] = details
    if isinstance(error, TenvsLacking):
        body["missing"] = [*error.missing]
        invalid: list[JSON] = [{**each} for each in error.invalid]
        body["invalid"] = invalid
        del body["details"]
    if isinstance(error, VariablesLacking):
        body["missing"] = [*error.missing]
        del body["details"]
    headers = (
        {"Retry-After": RETRY_AFTER} if isinstance(error, StoreError | KeysUnavailable | Overloaded) else None
    )
    return answer(body, status, headers)


def internal() -> Answer:
    """The answer to what nobody foresaw."""
    fault = ServerFailed()
    return answer({"error": fault.message, "code": fault.code}, INTERNAL)


def add_fault_handlers(gateway: FastAPI) -> None:
    """Errors that routes and the framework raise are answered as `answer_error` does."""

    async def of_core(_: Request, error: Exception) -> Answer:
        assert isinstance(error, ToolwrightError), "registered for it"
        return answer_error(error)

    async def of_parameters(_: Request, error: Exception) -> Answer:
        assert isinstance(error, RequestValidationError), "registered for it"
        return answer_error(invalid_value("request", error.errors(), skip=1))

    async def of_framework(_: Request, error: Exception) -> Answer:
        assert isinstance(error, HTTPException), "registered for it"
        return _framework_answer(error)

    gateway.add_exception_handler(ToolwrightError, of_core)
    gateway.add_exception_handler(RequestValidationError, of_parameters)
    gateway.add_exception_handler(HTTPException, of_framework)


def _framework_answer(error: HTTPException) -> Answer:
    if error.status_code == status_of(NotFound):
        return answer_error(NotFound("Not found"))
    if error.status_code == status_of(MethodNotAllowed):
        refused = MethodNotAllowed()
        body: JSONObject = {"error": refused.message, "code": refused.code}
        return answer(body, error.status_code, dict(error.headers or {}))
    return answer({"error": str(error.detail), "code": ToolwrightError.code}, error.status_code)


class Guard:
    """ASGI: what nobody foresaw is logged with its traceback, and answered if nothing was yet."""

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
            log.debug("%s %s: the caller is gone.", scope["method"], brief(scope["path"], 200))
        except Exception:
            log.exception("%s %s failed.", brief(scope["method"], 20), brief(scope["path"], 200))
            if started:
                raise
            await internal()(scope, receive, send)
