"""Peers of connections to MCP servers: error messages, limits, and the caller of each request."""

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR
from pydantic import ValidationError

from toolwright.core.json_text import TooManyValues, ValueCount
from toolwright.core.limits import MAX_JSON_VALUES
from toolwright.core.text import brief, error_text, first_error

MAX_QUOTED = 500  # characters
NO_MESSAGE = "it is not a message of the protocol"
_PARSING = ("Failed to parse JSON response: ", "Failed to parse SSE message: ")
CLOSED = -32095
"""Code of requests whose connection ended: their effect is unknown. Servers send the SDK's code for it, -32000, too."""
_CLOSED_BY_SDK = ("Connection closed", "SSE stream ", "server answered a request with 202 ")
SILENCE = 300.0
"""Timeout of answers, and idle timeout of streams, in seconds, if no call waits for them."""
MAX_MESSAGE = 36 * 1024 * 1024
"""Maximum bytes of one message: a file of 25 MiB in base64, and the JSON around it."""
AT_ONCE = 256 * 1024  # bytes up to which a message is checked on the event loop


def error_line(error: BaseException) -> str:
    """Return the message of an error, or of the first error in a group, without its final full stop."""
    error = first_error(error)
    match error:
        case TimeoutError():
            return "it does not answer in time"
        case OSError(filename=str(command)):
            return f"its command {brief(command, 200)!r} cannot be started: {error.strerror or error_text(error)}"
        case ValidationError():
            return NO_MESSAGE
        case MCPError() if error.error.code == PARSE_ERROR:
            return _parsing_error(error.error.message)
        case MCPError():
            return brief(error.error.message, MAX_QUOTED)
        case httpx2.HTTPStatusError():
            return _http_error(error.response)
        case _:
            return brief(error_text(error), MAX_QUOTED)


def _http_error(response: httpx2.Response) -> str:
    """Return the message for an error answer of a server: the transport's message if that is the cause."""
    try:
        return brief(str(response.json()["error"]["message"]), MAX_QUOTED)
    except (httpx2.ResponseNotRead, ValueError, LookupError, TypeError):
        return f"it answers HTTP {response.status_code}"


def _parsing_error(message: str) -> str:
    for beginning in _PARSING:
        message = message.removeprefix(beginning)
    return NO_MESSAGE if "validation error" in message else brief(message, MAX_QUOTED)


class MessageRefused(Exception):
    """A rejected message, with the reason as its text."""


async def check_values(message: bytes) -> None:
    """Raise `MessageRefused` for a message with more JSON values than external input may contain."""
    try:
        if len(message) <= AT_ONCE:
            ValueCount(MAX_JSON_VALUES).add(message)
        else:
            await asyncio.to_thread(ValueCount(MAX_JSON_VALUES).add, message)
    except TooManyValues as error:
        raise MessageRefused(f"The message is too large: {error}.") from None


def error_for_answer(invalid: Any) -> SessionMessage | None:  # whatever the server sent
    """Return the error for the request that an invalid answer names, or None for a value that is not an answer.

    The answer is a JSON text or the value that it contains. Without the error the request would wait for its timeout.
    """
    try:
        answer = json.loads(invalid) if isinstance(invalid, str | bytes) else invalid
    except (ValueError, RecursionError):
        return None
    match answer:
        case {"method": _} | {"id": bool()}:
            return None
        case {"id": int() | str() as request}:
            error = types.ErrorData(code=PARSE_ERROR, message=NO_MESSAGE)
            return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request, error=error))
        case _:
            return None


def with_own_code(error: MCPError) -> MCPError:
    """Return the error with the code `CLOSED` if the SDK has raised it because the connection ended."""
    own = error.error.code == types.CONNECTION_CLOSED and error.error.message.startswith(_CLOSED_BY_SDK)
    return MCPError(CLOSED, error.error.message) if own else error


class Peer(Protocol):
    """Answers the server's requests during a call.

    `unheard` is set if the server rejected the call unread because it does not know the session. `silence` is the idle
    timeout of the answer in seconds. `thread_id` is the thread of the call, or None.
    """

    unheard: bool
    silence: float
    thread_id: str | None

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """Return the answer of a person."""
        ...

    async def sample(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Return the answer of a model."""
        ...


class NoPeer:
    """The peer of a request for a task's result. No run waits for it in memory, so every question is rejected."""

    def __init__(self) -> None:
        self.unheard = False
        self.silence = SILENCE
        self.thread_id: str | None = None

    async def elicit(self, params: types.ElicitRequestParams) -> types.ErrorData:
        """Return the error that no one can be asked."""
        return nobody()

    async def sample(self, params: types.CreateMessageRequestParams) -> types.ErrorData:
        """Return the error that no one can be asked."""
        return nobody()


def nobody() -> types.ErrorData:
    """Return the error for a question whose call is unknown or has ended."""
    return types.ErrorData(code=types.INVALID_REQUEST, message="The call has ended: no one can be asked.")


CALLER: ContextVar[Peer | None] = ContextVar("mcp_caller", default=None)
"""The caller of the current request or answer. Over HTTP the SDK propagates contexts in both directions."""

SESSION: ContextVar[str | None] = ContextVar("mcp_session", default=None)
"""The session of an earlier process to be used for a request instead of the connection's own session."""


@contextmanager
def within(session: str | None) -> Generator[None]:
    """Send the requests within the block in the given HTTP session. None is the connection's own session."""
    token = SESSION.set(session)
    try:
        yield
    finally:
        SESSION.reset(token)
