"""HTTP requests of tools: checks of resolved addresses, redirects, body limits, error messages.

Addresses are checked when a connection is opened, regardless of the URL's form. The name is not resolved again between
the check and the connection, so DNS rebinding has no effect. The Host header and TLS use the name.
"""

import asyncio
import hashlib
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import count
from typing import Any
from urllib.parse import unquote_to_bytes

import httpcore2
import httpx2

from toolwright.core.text import error_text, sentence
from toolwright.core.tools.http.addresses import AllowsAddress, Resolve
from toolwright.core.tools.http.execution import MULTIPART, Body, FormPart, HttpRequest
from toolwright.core.value import changed

MAX_REDIRECTS = 5
CONNECT_TIMEOUT = 10.0  # seconds per address, and for the TLS handshake
_ALLOW = "the operator may allow it with TOOLWRIGHT_HTTP_ALLOW"
CONNECTIONS = 1_000
MAX_IDLE_CONNECTIONS = 20
MAX_ERROR_BODY = 64 * 1024  # bytes read of an error answer, of which at most 2 KB are shown


class HttpFailure(Exception):
    """A failed request. The message contains no values that were filled into the request."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TIMEOUTS = {"connect": CONNECT_TIMEOUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """A request. `headers` are the tool's own headers, `ours` are the defaults of every request."""

    method: str
    url: httpx2.URL
    headers: tuple[tuple[str, str], ...]
    ours: tuple[tuple[str, str], ...]
    content: bytes | None
    content_type: str = "application/json"

    def encoded(self) -> list[tuple[bytes, bytes]]:
        """Return all headers to send. The tool's own headers override defaults of the same name."""
        own_names = {name.lower() for name, _ in self.headers}
        rest = [(name, text) for name, text in self.ours if name.lower() not in own_names]
        if self.content is not None:
            rest += [] if "content-type" in own_names else [("Content-Type", self.content_type)]
            rest.append(("Content-Length", str(len(self.content))))
        host = self.url.netloc.decode("ascii")
        return [
            (name.encode("ascii"), text.encode()) for name, text in [("Host", host), *rest, *self.headers]
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResponse:
    """HTTP answer with lower-case header names. `whole` is false if the body exceeded the limit."""

    method: str
    status: int
    headers: Mapping[str, str]
    content: bytes
    whole: bool


def ask_of(request: HttpRequest, ours: tuple[tuple[str, str], ...], key: str) -> OutgoingRequest:
    """Return the request to send. A URL's user and password become its authorization.

    The boundary of a multipart form is derived from `key`, so that the same request is sent as the same bytes.
    """
    try:
        parsed = httpx2.URL(request.url)
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise HttpFailure(
            "http_bad_url", "With these arguments the tool's URL has an invalid host or is too long."
        ) from error
    headers = request.headers
    if parsed.userinfo and "authorization" not in {name.lower() for name, _ in headers}:
        headers = (
            *headers,
            ("Authorization", f"Basic {b64encode(unquote_to_bytes(parsed.userinfo)).decode()}"),
        )
    content, content_type = _encoded(request.body, key)
    if request.body is not None and request.body.parts is not None:  # the content type contains the boundary
        headers = tuple(each for each in headers if each[0].lower() != "content-type")
    return OutgoingRequest(
        method=request.method,
        url=parsed.copy_with(userinfo=b""),
        headers=headers,
        ours=ours,
        content=content,
        content_type=content_type,
    )


def _encoded(body: Body | None, key: str) -> tuple[bytes | None, str]:
    """Return the bytes of a body and their content type."""
    if body is None:
        return None, ""
    if body.parts is None:
        return body.content, body.content_type
    boundary = _boundary(key, body.parts)
    content_type = f"{MULTIPART}; boundary={boundary}"
    if not body.parts:  # httpx2 would not encode this as a form
        return f"--{boundary}--\r\n".encode(), content_type
    files: Any = [(part.name, (part.file_name, part.content, part.content_type)) for part in body.parts]
    form = httpx2.Request("POST", "http://form", files=files, headers={"Content-Type": content_type})
    return form.read(), content_type


def _boundary(key: str, parts: Sequence[FormPart]) -> str:
    """Return a text that does not occur in any of the parts."""
    for number in count():
        boundary = hashlib.sha256(f"{number} {key}".encode()).hexdigest()[:32]
        if not any(boundary.encode() in part.content for part in parts):
            return boundary
    raise AssertionError("numbers do not end")


class Exchange:
    """Sends requests. Trusted addresses are connected to directly, all others through `guarded`.

    The two pools share no connections, so a request that requires the check never uses an unchecked connection.
    """

    def __init__(
        self, direct: httpcore2.AsyncConnectionPool, guarded: httpcore2.AsyncConnectionPool, most: int
    ) -> None:
        self._open = direct
        self._guarded = guarded
        self._most = most

    async def __call__(self, ask: OutgoingRequest, trusted: bool) -> ToolResponse:
        """Send the request and return the answer, after up to five redirects. Raises `HttpFailure`."""
        pool = self._open if trusted else self._guarded
        who = f"The service at {ask.url.host!r}"
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._hop(pool, ask, who)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None:
                return answer
            ask = redirected(ask, answer.status, location)
            pool, who = self._guarded, "The target of the service's redirect"
        raise HttpFailure("http_redirects", f"The service redirected more than {MAX_REDIRECTS} times.")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._open.aclose()
        await self._guarded.aclose()

    async def _hop(self, pool: httpcore2.AsyncConnectionPool, ask: OutgoingRequest, who: str) -> ToolResponse:
        request = httpcore2.Request(
            ask.method,
            httpcore2.URL(
                scheme=ask.url.raw_scheme, host=ask.url.raw_host, port=ask.url.port, target=ask.url.raw_path
            ),
            headers=ask.encoded(),
            content=ask.content,
            extensions={"timeout": _TIMEOUTS},
        )
        try:
            response = await pool.handle_async_request(request)
            try:
                return await self._read(response, ask.method)
            finally:
                await response.aclose()
        except AddressRefused:
            raise HttpFailure(
                "address_refused", f"{who} has an address that is not public; {_ALLOW}."
            ) from None
        except (httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as error:
            raise HttpFailure("http_unreachable", f"{who} could not be reached in time.") from error
        except httpcore2.ConnectError as error:
            raise HttpFailure(
                "http_unreachable", sentence(f"{who} cannot be reached: {_reason(error)}")
            ) from error
        except (httpcore2.NetworkError, httpcore2.RemoteProtocolError, httpcore2.TimeoutException) as error:
            raise HttpFailure(
                "http_broken_off",
                f"{who} closed the connection before the answer was complete; the effect of the call is unknown.",
            ) from error
        except (httpcore2.LocalProtocolError, httpcore2.UnsupportedProtocol) as error:
            raise HttpFailure("http_bad_request", "The request is not valid HTTP.") from error

    async def _read(self, response: httpcore2.Response, method: str) -> ToolResponse:
        headers = {name.decode("latin-1").lower(): text.decode("latin-1") for name, text in response.headers}
        if response.status in _REDIRECTS and "location" in headers:
            return ToolResponse(
                method=method, status=response.status, headers=headers, content=b"", whole=True
            )
        most = self._most if 200 <= response.status < 300 else min(self._most, MAX_ERROR_BODY)
        content = bytearray()
        async for chunk in response.aiter_stream():
            content += chunk
            if len(content) > most:
                break
        return ToolResponse(
            method=method,
            status=response.status,
            headers=headers,
            content=bytes(content[:most]),
            whole=len(content) <= most,
        )


def _reason(error: httpcore2.ConnectError) -> str:
    """Describe the error without a host name, because a redirect can contain any host name."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed ({cause.reason})"
        cause = cause.__cause__ or cause.__context__
    return error_text(error)


def redirected(ask: OutgoingRequest, status: int, location: str) -> OutgoingRequest:
    """Return the request that follows a redirect. 303, and 301 or 302 after a POST, become a GET.

    Credentials are not sent to another origin. Raises `HttpFailure` if the location is not an HTTP URL.
    """
    try:
        url = ask.url.join(location)
        is_http = url.scheme in ("http", "https") and bool(url.host)
        url = url.copy_with(userinfo=b"", fragment=None)
    except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
        raise HttpFailure("http_redirects", "The service redirects to an invalid URL.") from error
    if not is_http:
        raise HttpFailure(
            "http_redirects", "The service redirects to a URL that is neither http:// nor https://."
        )
    headers, ours = ask.headers, ask.ours
    if _origin(url) != _origin(ask.url):
        headers = ()
    if ask.url.scheme == "https" and url.scheme == "http":
        ours = tuple(each for each in ours if each[0] != "Idempotency-Key")
    if (status == 303 and ask.method != "HEAD") or (status in (301, 302) and ask.method == "POST"):
        headers = tuple(each for each in headers if not each[0].lower().startswith("content-"))
        return OutgoingRequest(method="GET", url=url, headers=headers, ours=ours, content=None)
    return changed(ask, url=url, headers=headers, ours=ours)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name from the operating system, including unusual numeric forms (`0x7f.1`)."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in addresses))


class AddressRefused(Exception):
    """The host resolves to an address that is not allowed."""


class AllowedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to validated addresses only. Raises `AddressRefused` if one of a name's addresses is refused."""

    def __init__(
        self, resolve: Resolve, allows: AllowsAddress, inner: httpcore2.AsyncNetworkBackend | None = None
    ) -> None:
        self._resolve = resolve
        self._allows = allows
        self._inner: httpcore2.AsyncNetworkBackend = inner or httpcore2.AnyIOBackend()  # type: ignore[assignment]  # typed as if anyio were missing

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,  # the library's type
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first of the name's addresses that accepts a connection.

        The connection goes to the checked address itself: resolving the name again could return another one.
        """
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError("its name cannot be resolved") from error
        # A name with any forbidden address is rejected, even if an allowed address would answer first.
        if not all(self._allows(host, port, ip_address(address)) for address in addresses):
            raise AddressRefused
        failed: Exception = httpcore2.ConnectError("its name has no address")
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,  # as above
    ) -> httpcore2.AsyncNetworkStream:
        """Reject the connection, because no URL refers to a Unix socket."""
        raise AddressRefused

    async def sleep(self, seconds: float) -> None:
        """Delay between attempts of the library, in seconds."""
        await self._inner.sleep(seconds)


def pool(network: AllowedNetwork, tls: ssl.SSLContext) -> httpcore2.AsyncConnectionPool:
    """Return a connection pool that ignores proxy environment variables."""
    return httpcore2.AsyncConnectionPool(
        ssl_context=tls,
        max_connections=CONNECTIONS,
        max_keepalive_connections=MAX_IDLE_CONNECTIONS,
        keepalive_expiry=5.0,
        network_backend=network,
    )
