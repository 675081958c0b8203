"""HTTP requests of the client: authentication, errors, size limits, and retries that cannot repeat an effect."""

import inspect
import json
import logging
import math
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, Union, cast
from urllib.parse import quote, urlsplit

import httpx2

from toolwright.core import errors
from toolwright.core.checks import brief_value
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.limits import nth_delay
from toolwright.core.text import brief, quantity, sentence
from toolwright.core.threads.call import ForbiddenMove

if TYPE_CHECKING:
    import httpx


log = logging.getLogger("toolwright.client")

HttpClient: TypeAlias = Union[httpx2.AsyncClient, "httpx.AsyncClient"]

Token: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A JWT, or a function that returns a fresh JWT and is called before every request."""
OK = 200
NOT_FOUND = 404
TOO_MANY_REQUESTS = 429
MAX_TEXT = 300  # characters of an answer that an error message quotes
TRIES = 4
MAX_PAUSE = 30.0  # seconds
_STREAM = "text/event-stream"
MAX_ANSWER = 256 * 1024 * 1024  # bytes


class CallerHeaders:
    """The headers that authenticate the caller. Raises `InvalidRequest` for values that a header cannot contain."""

    def __init__(self, secret_key: str | None, public_key: str | None, token: Token | None) -> None:
        keys = {"x-secret-key": secret_key, "x-public-key": public_key}
        self._fixed = {name: _header_value(name, key) for name, key in keys.items() if key is not None}
        self._token = token
        if isinstance(token, str):
            _header_value("authorization", token)

    async def headers(self) -> dict[str, str]:
        """Return the headers of one request."""
        if self._token is None:
            return self._fixed
        issued = self._token if isinstance(self._token, str) else self._token()
        token = await issued if inspect.isawaitable(issued) else issued
        return {**self._fixed, "authorization": f"Bearer {_header_value('authorization', token)}"}


def _header_value(name: str, text: str) -> str:
    """Return the text if a header can contain it. Error messages do not repeat it, because it is a secret."""
    if not isinstance(text, str) or not text.isascii() or not text.isprintable() or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise errors.InvalidRequest(
            f"The value of the header {name} must be non-empty text of printable ASCII characters."
        )
    return text


Kind = type[errors.ToolwrightError]

CODES: Mapping[str, Kind] = {
    each.code: each
    for each in (*vars(errors).values(), ForbiddenMove)
    if isinstance(each, type) and issubclass(each, errors.ToolwrightError)
}
RETRIABLE = (errors.Unreachable, errors.StoreError, errors.ModelUnavailable, errors.TooManyRequests)
"""Temporary errors: the server, its database or a model is unavailable."""

_STATUSES: Mapping[int, Kind] = {
    400: errors.InvalidRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    408: errors.TooSlow,
    409: errors.AlreadyOver,
    410: errors.CallExpired,
    413: errors.TooLarge,
    422: errors.InvalidRequest,
    TOO_MANY_REQUESTS: errors.TooManyRequests,
    500: errors.ServerFailed,
    502: errors.AnswerLost,
    503: errors.Unreachable,
    504: errors.AnswerLost,
}
"""Error classes for answers without one of our codes, such as those of proxies."""
_OF_ITEMS = frozenset({NOT_FOUND, 405, 409, 410})
"""Statuses that say something about the requested item, if a Toolwright server answers. A proxy does not know it."""


def error_from(status: int, headers: Mapping[str, str], body: bytes) -> errors.ToolwrightError:
    """Return the error for an answer with that status."""
    fields = json_object(body)
    text = fields.get("error")
    is_ours = isinstance(text, str) and bool(text)
    message = str(text) if is_ours else _generic_message(status, body)
    if not is_ours and status in _OF_ITEMS:
        return errors.BadAnswer(
            f"{sentence(message)} This is not an answer of a Toolwright server: check the base URL."
        )
    code = fields.get("code")
    kind = CODES.get(code) if isinstance(code, str) else None
    return _error(kind or _by_status(status), message, fields, retry_after(headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a `Retry-After` header. Dates are ignored."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _error(kind: Kind, message: str, fields: JSONObject, retry_after: float | None) -> errors.ToolwrightError:
    missing = [name for name in _as_list(fields.get("missing")) if isinstance(name, str)]
    if issubclass(kind, errors.VariablesRequired):
        return kind(message, missing)
    if issubclass(kind, errors.TenvsRequired):
        return kind(message, missing, _text_objects(fields.get("invalid")))
    if issubclass(kind, errors.InvalidRequest | errors.InvalidConfiguration):
        return kind(message, _text_objects(fields.get("details")))
    error = kind(message)
    if isinstance(error, RETRIABLE):
        error.retry_after = retry_after
    return error


def _by_status(status: int) -> Kind:
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= 500:
        return errors.ServerFailed
    return errors.InvalidRequest if status >= 400 else errors.BadAnswer


def _generic_message(status: int, body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())
    return f"The server answered with the status {status}: {brief(text, MAX_TEXT) or 'nothing more'}"


def json_object(body: bytes) -> JSONObject:
    """Return the JSON object in a body, or an empty one."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast("JSONObject", parsed) if isinstance(parsed, dict) else {}


def _text_objects(value: JSON) -> list[dict[str, str]]:
    pairs = [each for each in _as_list(value) if isinstance(each, dict)]
    return [{name: text for name, text in pair.items() if isinstance(text, str)} for pair in pairs]


def _as_list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


Pause: TypeAlias = Callable[[float], Awaitable[object]]
Query: TypeAlias = Mapping[str, str | int | Sequence[str] | None]
Repeat: TypeAlias = Literal["lost", "unsent"]
"""Retry rule.

`lost`: also if the answer was lost, because the request is idempotent. `unsent`: only if the server has certainly not
processed the request.
"""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An HTTP answer with its undecoded body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> JSONObject:
        """The body; `BadAnswer` if it is not a JSON object."""
        try:
            parsed = json.loads(self.body)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise errors.BadAnswer(
                f"The server's answer is not a JSON object: {brief(repr(self.body), 60)}. Check the base URL."
            )
        return cast("JSONObject", parsed)


class Http:
    """Sends requests to a server, by path, and retries them."""

    def __init__(
        self,
        base_url: str,
        identity: CallerHeaders,
        http: HttpClient,
        *,
        timeout: float,
        silence: float,
        pause: Pause,
        largest: int = MAX_ANSWER,
    ) -> None:
        self._base, self._display_url = _checked_url(base_url)
        for name, seconds in (("timeout", timeout), ("silence", silence)):
            if not isinstance(seconds, int | float) or not seconds > 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
                raise errors.InvalidRequest(
                    f"{name} must be a number of seconds above 0, not {brief_value(seconds)}."
                )
        if not any(each.__name__ == "AsyncClient" for each in type(http).__mro__):
            raise errors.InvalidRequest(
                f"http must be an AsyncClient of httpx2 or httpx, not {_type_of(http)}."
            )
        self._identity = identity
        self._http = cast("httpx2.AsyncClient", http)
        self._library = _library_of(http)
        self._timeout = self._library.Timeout(timeout)
        self._patience = self._library.Timeout(timeout, read=silence)
        self._largest = largest
        self.pause = pause

    async def get(self, path: str, query: Query | None = None) -> JSONObject:
        """Return the JSON answer to a GET request."""
        return (await self.call("GET", path, query=query, repeat="lost")).json

    async def call(
        self,
        method: str,
        path: str,
        body: JSONObject | None = None,
        *,
        query: Query | None = None,
        repeat: Repeat = "unsent",
    ) -> HttpResponse:
        """Send a request, with retries according to `repeat`, and return the successful answer or raise its error.

        A 404 for a DELETE counts as success if the answer to an earlier attempt was lost: that attempt has deleted it.
        """
        failures, lost, limited = 0, False, False
        while True:
            try:
                answer = await self.once(method, path, body, query)
                limited = answer.status == TOO_MANY_REQUESTS
                if 200 <= answer.status < 300:
                    return answer
                failure = error_from(answer.status, answer.headers, answer.body)
                if lost and method == "DELETE" and isinstance(failure, errors.NotFound):
                    return answer
                raise failure
            except RETRIABLE as error:
                failures += 1
                # A request that may have been processed is only repeated if that has no further effect.
                unsent, limited = limited or _unsent(error), False
                if failures >= TRIES or not (repeat == "lost" or unsent):
                    raise
                lost = lost or not unsent
                log.info("%s %s is retried: %s", method, path, error)
                await self.pause(delay(error, failures))

    async def once(
        self, method: str, path: str, body: JSONObject | None = None, query: Query | None = None
    ) -> HttpResponse:
        """Send a request once and return the answer, also if its status is an error."""
        content = None if body is None else dumps(body).encode("ascii")
        headers = {} if body is None else {"content-type": "application/json"}
        async with self._send(method, path, query, headers, content, self._timeout) as response:
            return HttpResponse(response.status_code, response.headers, await self._body(response))

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, headers: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Yield the bytes of an event stream as they arrive. A long silence counts as a lost connection."""
        all_headers = {**headers, "accept": _STREAM, "accept-encoding": "identity"}
        async with self._send("GET", path, query, all_headers, None, self._patience) as response:
            if response.status_code != OK:
                raise error_from(response.status_code, response.headers, await self._body(response))
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != _STREAM or response.headers.get("content-encoding", "identity") != "identity":
                raise errors.BadAnswer(
                    f"The server answers {path} with {brief(repr(kind), 60)}, which is not an event stream."
                )
            yield response.aiter_raw()

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        headers: Mapping[str, str],
        content: bytes | None,
        timeout: httpx2.Timeout,
    ) -> AsyncGenerator[httpx2.Response]:
        if self._http.is_closed:
            raise errors.InvalidRequest(
                "This client is closed. Create another one, or close it after its last request."
            )
        params = {name: each for name, each in (query or {}).items() if each is not None}
        identity = await self._identity.headers()
        with self._translated():
            request = self._http.build_request(
                method,
                f"{self._base}{path}",
                params=params or None,
                headers={**headers, **identity},
                content=content,
                timeout=timeout,
            )
            response = await self._http.send(request, stream=True, follow_redirects=False)
            try:
                yield response
            finally:
                await response.aclose()

    async def _body(self, response: httpx2.Response) -> bytes:
        read = bytearray()
        async for chunk in response.aiter_bytes():
            read += chunk
            if len(read) > self._largest:
                raise errors.BadAnswer(
                    f"The server's answer is larger than {quantity(self._largest, 'byte')}."
                )
        return bytes(read)

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Convert errors of the HTTP library to ours. No other code of the client depends on them."""
        library = self._library
        try:
            yield
        except (
            library.ConnectError,
            library.ConnectTimeout,
            library.PoolTimeout,
            library.ProxyError,
        ) as error:
            raise errors.Unreachable(
                sentence(f"The server at {self._display_url} cannot be reached: {_reason(error)}")
            ) from error
        except library.TransportError as error:
            raise errors.AnswerLost(
                f"The connection to {self._display_url} was lost before the answer arrived ({_reason(error)}): "
                "whether the request took effect is unknown. Check it before you repeat the request."
            ) from error
        except (library.DecodingError, library.InvalidURL) as error:
            raise errors.BadAnswer(
                sentence(f"The answer of {self._display_url} cannot be read: {_reason(error)}")
            ) from error


def segment(text: str) -> str:
    """Return an id as one segment of a path. Raises `InvalidRequest` if that is impossible."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        advice = ": pass its .id" if isinstance(getattr(text, "id", None), str) else ""
        raise errors.InvalidRequest(f"An id must be text, not {brief_value(text)}{advice}.")
    if not text:
        raise errors.InvalidRequest("An id must be non-empty text.")
    try:
        quoted = quote(text, safe="")
    except UnicodeEncodeError:
        raise errors.InvalidRequest(f"{text!r} contains a lone surrogate and is not a valid id.") from None
    # A segment of dots alone would be resolved as this path or the parent path.
    return quoted if text.strip(".") else quoted.replace(".", "%2E")


def delay(error: errors.ToolwrightError | None, failed: int) -> float:
    """Return the seconds to wait after the failure of that number, from 1; longer if the server requests it."""
    requested: float | None = getattr(error, "retry_after", None)
    return min(max(nth_delay(failed - 1), requested or 0.0), MAX_PAUSE)


def _unsent(error: errors.ToolwrightError) -> bool:
    """Return whether connecting failed, so that nothing was sent.

    An error with an HTTP answer, also a proxy's, belongs to a request that was sent.
    """
    return (
        isinstance(error, errors.Unreachable)
        and error.__cause__ is not None
        and not isinstance(error, errors.AnswerLost)
    )


class _Library(Protocol):
    """Names that httpx and httpx2 have in common."""

    Timeout: type[httpx2.Timeout]
    ConnectError: type[httpx2.ConnectError]
    ConnectTimeout: type[httpx2.ConnectTimeout]
    PoolTimeout: type[httpx2.PoolTimeout]
    ProxyError: type[httpx2.ProxyError]
    TransportError: type[httpx2.TransportError]
    DecodingError: type[httpx2.DecodingError]
    InvalidURL: type[httpx2.InvalidURL]


def _type_of(value: object) -> str:
    """Return the name of a value's type, with its library if that is another one than Python."""
    kind = type(value)
    return (
        kind.__name__
        if kind.__module__ == "builtins"
        else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    )


def _library_of(http: HttpClient) -> _Library:
    """Return the library of a client: httpx2, or httpx for a user's own client."""
    is_of_httpx = any(each.__module__.partition(".")[0] == "httpx" for each in type(http).__mro__)
    return cast("_Library", sys.modules["httpx"] if is_of_httpx else httpx2)


def _checked_url(base_url: str) -> tuple[str, str]:
    """Return the base URL without a trailing slash, and the form for messages, without a password."""
    if not isinstance(base_url, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise errors.InvalidRequest(f"The base URL must be text, not {brief_value(base_url)}.")
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        raise errors.InvalidRequest(f"The base URL {brief(repr(base_url), 100)} is not a URL.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise errors.InvalidRequest(
            "The base URL must look like https://example.org or http://127.0.0.1:8000/path, without a query."
        )
    display = f"{parts.scheme}://{parts.hostname}" + (f":{port}" if port else "")
    return base_url.rstrip("/"), display


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__
