"""Transports of MCP: HTTP with checked addresses and limits, and the standard streams of a process."""

import asyncio
import contextlib
import json
import os
import signal
import ssl
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeAlias, cast

import anyio
import httpcore2
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from toolwright.adapters.executors.request import AddressRefused, AllowedNetwork
from toolwright.adapters.mcp.peer import (
    CALLER,
    CLOSED,
    MAX_MESSAGE,
    SESSION,
    SILENCE,
    MessageRefused,
    check_values,
    error_for_answer,
)
from toolwright.core.env.logs import logger
from toolwright.core.json_text import TooManyValues, ValueCount
from toolwright.core.limits import MAX_JSON_VALUES
from toolwright.core.mcp.servers import McpUnavailable
from toolwright.core.text import brief, clean_text, error_text, first_error, quantity, sentence

CONNECT_TIMEOUT = 10.0  # seconds
CONNECTIONS = 1_000  # per server, which can keep the connections of abandoned calls open
MAX_ERROR_BODY = 2_048  # bytes of an error body that are shown
Lost: TypeAlias = Callable[[str | None], None]
"""Called when the server has lost the session, with the method of the rejected message."""
NO_SERVER = -32099  # code of errors that no server has sent
NOT_SENT = -32098  # code of requests that were not sent
BROKEN_OFF = -32097  # code of requests that were sent but not answered: their effect is unknown
SESSION_GONE = -32096  # code of requests in a session of an earlier process that the server no longer knows
OWN_CODES = frozenset({NO_SERVER, NOT_SENT, BROKEN_OFF, CLOSED})
SESSION_ID = "mcp-session-id"
# a gateway reports that its upstream server has disconnected or does not respond
_GATEWAY_ERRORS = frozenset({502, 504})
_REFUSALS = frozenset({400, 401, 403, 503})
_PING = b'{"jsonrpc":"2.0","id":"toolwright-ping","method":"ping"}'
_TIMEOUTS = {"connect": CONNECT_TIMEOUT, "write": 30.0, "pool": 30.0}
END_GRACE = 2.0
"""Seconds to wait for a process to end after its input was closed, and again after a SIGTERM."""
REAPED = 30.0  # seconds to wait for the end of a process after a SIGKILL, on a busy machine
MAX_JUNK = 20  # logged lines per process that are not JSON
MAX_SHOWN = 500  # characters of a line in the log
READ_SIZE = 64 * 1024


class GuardedTransport(httpx2.AsyncBaseTransport):
    """HTTP transport over an `AllowedNetwork`. Failures become answers, so that each ends only its own request.

    An error answer that is not a protocol message is converted to one. An answer that is too large is truncated. `lost`
    is called with the message's method if the server does not know its session.
    """

    def __init__(self, network: AllowedNetwork, tls: ssl.SSLContext, lost: Lost, silence: float) -> None:
        self._lost = lost
        self._silence = silence
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls, max_connections=CONNECTIONS, keepalive_expiry=30.0, network_backend=network
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer of the server, or an error answer in its place."""
        url, caller = request.url, CALLER.get()
        earlier = SESSION.get() if request.method == "POST" and SESSION_ID in request.headers else None
        if earlier == request.headers.get(SESSION_ID):
            earlier = None
        if earlier is not None:
            request.headers[SESSION_ID] = earlier
        sent = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=cast("AsyncIterable[bytes]", request.stream),
            extensions={
                "timeout": {**_TIMEOUTS, "read": self._silence if caller is None else caller.silence}
            },
        )
        try:
            response = await self._pool.handle_async_request(sent)
        except AddressRefused:
            return _error_response(
                "it has an address that is not public; TOOLWRIGHT_HTTP_ALLOW may allow it", NOT_SENT
            )
        except (httpcore2.ConnectTimeout, httpcore2.PoolTimeout):
            return _error_response("it does not answer in time", NOT_SENT)
        except httpcore2.TimeoutException:
            return _error_response("it does not answer in time", BROKEN_OFF)
        except (httpcore2.ConnectError, httpcore2.UnsupportedProtocol) as error:
            return _error_response(f"it cannot be reached: {error_text(error)}", NOT_SENT)
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            OSError,
        ) as error:
            broken = "it closed the connection without an answer"
            return _error_response(f"{broken}: {error_text(error)}" if str(error) else broken, BROKEN_OFF)
        answer = httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Bounded(response, _kind(response.headers)),
            extensions=dict(cast("Any", response).extensions),
        )
        if earlier is not None and answer.status_code in (400, 404):
            await response.aclose()
            return _error_response("the server no longer knows the session", SESSION_GONE)
        # for a GET it can mean that the stream does not exist
        if request.method == "POST" and SESSION_ID in request.headers and await self._is_lost(answer, sent):
            self._lost(_method(await request.aread()))
        if answer.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return _error_response("its answer has a content encoding that was not requested")
        if answer.status_code < 400 or answer.status_code == 404:
            return answer
        return await _http_error(answer, _kind(response.headers))

    async def _is_lost(self, answer: httpx2.Response, request: httpcore2.Request) -> bool:
        """Return whether a server that refuses a request has lost its session: it refuses a ping in it too.

        Only 404 is specified. Servers in the field answer with other statuses, which can also be about one request.
        """
        status = answer.status_code
        if status in (404, 410):
            return True
        if status not in _REFUSALS:
            return False
        names = (b"content-length", b"mcp-method", b"mcp-name")
        headers = [(name, text) for name, text in request.headers if name.lower() not in names]
        ping = httpcore2.Request(
            method="POST",
            url=request.url,
            headers=[*headers, (b"Content-Length", str(len(_PING)).encode())],
            content=_PING,
            extensions={"timeout": {**_TIMEOUTS, "read": CONNECT_TIMEOUT}},
        )
        try:
            pong = await self._pool.handle_async_request(ping)
            await pong.aclose()
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, OSError):
            return False
        return pong.status in _REFUSALS or pong.status in (404, 410)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """Body of an answer with size limits, which apply to each message of a stream."""

    def __init__(self, response: httpcore2.Response, kind: str) -> None:
        self._response = response
        self._is_stream = kind == "text/event-stream"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count, size = ValueCount(MAX_JSON_VALUES), 0
        try:
            async for chunk in self._response.aiter_stream():
                if self._is_stream and (chunk.endswith(b"\n\n") or b"\n\n" in chunk or b"\r\n\r\n" in chunk):
                    count, size = ValueCount(MAX_JSON_VALUES), 0
                size += len(chunk)
                if size > MAX_MESSAGE:
                    raise httpx2.StreamError(f"it is larger than {quantity(MAX_MESSAGE, 'byte')}")
                count.add(chunk)
                yield chunk
        except TooManyValues as error:
            raise httpx2.StreamError(str(error)) from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            raise httpx2.StreamError(f"the connection was lost: {error_text(error)}") from error

    async def aclose(self) -> None:
        await self._response.aclose()


def client(
    network: AllowedNetwork,
    tls: ssl.SSLContext,
    headers: Iterable[tuple[str, str]],
    lost: Lost,
    silence: float = SILENCE,
) -> httpx2.AsyncClient:
    """Return a client that ignores proxy variables of the environment.

    Requests for which no call waits time out after `silence` seconds; a call has its own timeout.
    """
    # in UTF-8, as HTTP tools send them: httpx encodes text as ASCII only
    own_headers = [
        (name.encode(), text.encode()) for name, text in headers if name.lower() != "accept-encoding"
    ]
    return httpx2.AsyncClient(
        transport=GuardedTransport(network, tls, lost, silence),
        headers=[*own_headers, (b"Accept-Encoding", b"identity")],
        trust_env=False,
        timeout=None,
    )


def _method(message: bytes) -> str | None:
    """Return the method of a sent message, or None if it is an answer."""
    method = json.loads(message).get("method")
    return method if isinstance(method, str) else None


def _kind(headers: Iterable[tuple[bytes, bytes]]) -> str:
    for name, text in headers:
        if name.lower() == b"content-type":
            return text.decode("latin-1").partition(";")[0].strip().lower()
    return ""


async def _http_error(answer: httpx2.Response, kind: str) -> httpx2.Response:
    """Convert an HTTP error answer to a protocol error. A protocol message is returned unchanged."""
    body = await _beginning(answer, MAX_MESSAGE if kind == "application/json" else MAX_ERROR_BODY)
    if kind == "application/json" and _is_message(body):
        return httpx2.Response(answer.status_code, headers={"content-type": kind}, content=bytes(body))
    text = " ".join(bytes(body[:MAX_ERROR_BODY]).decode("utf-8", "replace").split())
    status_line = f"it answers HTTP {answer.status_code}{_phrase(answer.status_code)}"
    code = BROKEN_OFF if answer.status_code in _GATEWAY_ERRORS else NO_SERVER
    return _error_response(
        f"{status_line}: {brief(text, 200)}" if text else status_line, code, answer.status_code
    )


async def _beginning(answer: httpx2.Response, most: int) -> bytearray:
    """Return the beginning of a body, up to the chunk in which it exceeds `most` bytes."""
    body = bytearray()
    try:
        async for chunk in answer.aiter_raw():
            body += chunk
            if len(body) > most:
                break
    except httpx2.StreamError:
        pass
    finally:
        await answer.aclose()
    return body


def _is_message(body: bytearray) -> bool:
    """Return whether the body is a protocol error."""
    try:
        message: object = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and "jsonrpc" in message and "error" in message


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _error_response(message: str, code: int = NO_SERVER, status: int = 502) -> httpx2.Response:
    """Return an answer with a protocol error that no server has sent."""
    error = {"code": code, "message": sentence(message)}
    content = json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(status, content=content.encode(), headers={"content-type": "application/json"})


log = logger("toolwright.mcp.stdio")


@asynccontextmanager
async def stdio_streams(
    name: str, command: list[str], env: Mapping[str, str], clean: Callable[[str], str]
) -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """Yield the streams of a process in its own session. The process and its children are ended after the block.

    Its standard error, and output that is not a message, are logged after `clean`. Raises `OSError` if the process
    cannot be started, and `McpUnavailable` if it ends before the block does.
    """
    process, stderr = await _started(command, env), _LastLine()
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(name, process, incoming, clean), name=f"mcp-stdout-{name}"),
        asyncio.create_task(_write(process, outgoing, incoming), name=f"mcp-stdin-{name}"),
        asyncio.create_task(_log_errors(name, process, clean, stderr), name=f"mcp-stderr-{name}"),
    ]
    try:
        yield received, sent
    except (MCPError, BaseExceptionGroup) as error:
        if _is_closed(error) and await _ended(process, END_GRACE):
            await asyncio.wait(tasks[2:], timeout=END_GRACE)  # a child can hold the pipe open
            why = f"its process has ended, with the exit code {process.returncode}"
            cause = brief(clean_text(clean(stderr.text)), MAX_SHOWN)  # cleaned before it is cut
            raise McpUnavailable(f"{why}: {cause}" if cause else why) from error
        raise
    finally:
        # Shielded: a second cancellation would leave the process and its children running.
        ending = asyncio.ensure_future(_end(process, tasks))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise
        finally:
            for stream in (incoming, received, sent, outgoing):
                stream.close()


def _is_closed(error: BaseException) -> bool:
    cause = first_error(error)
    return isinstance(cause, MCPError) and cause.error.code == CLOSED


async def _started(command: list[str], env: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Start the process and return it.

    If this is cancelled, the process is killed after it has started, because asyncio would leave its pipes open.
    """
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**get_default_environment(), **env},
            start_new_session=True,
            limit=READ_SIZE,
        ),
        name="mcp-process-start",
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            process = await starting
            _signal(process, signal.SIGKILL)
            await _ended(process, REAPED)
            process._transport.close()  # type: ignore[attr-defined]  # as below
        raise


async def _read(
    name: str,
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    clean: Callable[[str], str],
) -> None:
    """Forward the messages that the process writes, until it closes its output or a message is too large."""
    assert process.stdout is not None, "it was started with pipes"
    buffer, junk = bytearray(), 0
    async with incoming:
        while piece := await process.stdout.read(READ_SIZE):
            *lines, rest = piece.split(b"\n")
            for line in lines:
                buffer += line
                whole = bytes(buffer)
                try:
                    message = await _message(whole)
                except MessageRefused as refused:
                    log.warning("The MCP server %r is disconnected: %s", name, refused)
                    return
                buffer.clear()
                if isinstance(message, str):
                    if junk < MAX_JUNK:
                        junk += 1
                        log.warning("The MCP server %r wrote an invalid message: %s", name, clean(message))
                    message = await asyncio.to_thread(error_for_answer, whole)
                if message is not None:
                    # The session has ended. Reading continues, because a process with a full pipe cannot end.
                    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await incoming.send(message)
            buffer += rest
            if len(buffer) > MAX_MESSAGE:
                log.warning("The MCP server %r wrote a line of more than %d bytes.", name, MAX_MESSAGE)
                return


async def _message(line: bytes) -> SessionMessage | str | None:
    """Return the message in a line, the beginning of a line without a message, or None for an empty line.

    Raises `MessageRefused`.
    """
    if not line.strip():
        return None
    try:
        await check_values(line)
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return line[:MAX_SHOWN].decode("utf-8", "replace")


async def _write(
    process: asyncio.subprocess.Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None, "it was started with pipes"
    try:
        async with outgoing:
            async for each in outgoing:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except OSError:
        incoming.close()  # there will be no answer


class _LastLine:
    """The last line of an output that is not blank, for the error of a process that ends."""

    def __init__(self) -> None:
        self._tail = b""

    def add(self, piece: bytes) -> None:
        """Append a piece of the output."""
        self._tail = (self._tail + piece)[-READ_SIZE:]

    @property
    def text(self) -> str:
        """The line. Empty if there is none."""
        *_, last = [b"", *(line for line in self._tail.splitlines() if line.strip())]
        return last.decode("utf-8", "replace").strip()


async def _log_errors(
    name: str, process: asyncio.subprocess.Process, clean: Callable[[str], str], last: _LastLine
) -> None:
    """Log lines of the process's standard error at debug level, truncated if they are long. Keep the last one."""
    assert process.stderr is not None, "it was started with pipes"
    while piece := await process.stderr.read(READ_SIZE):
        last.add(piece)
        line = clean(piece[:MAX_SHOWN].decode("utf-8", "replace").rstrip())
        log.debug("MCP server %r: %s", name, line)


async def _end(process: asyncio.subprocess.Process, tasks: list[asyncio.Task[None]]) -> None:
    """Close the process's input, then send SIGTERM and SIGKILL to its group, with a grace period before each."""
    tasks[1].cancel()
    if process.stdin is not None:
        process.stdin.close()
    drain = asyncio.create_task(_drain(process, tasks[0]))  # a process that cannot write does not end
    try:
        if not await _ended(process, END_GRACE):
            _signal(process, signal.SIGTERM)
            await _ended(process, END_GRACE)
        _signal(process, signal.SIGKILL)  # to the group: children can remain even if the process has ended
        await _ended(process, REAPED)
    finally:
        for task in (*tasks, drain):
            task.cancel()
        await asyncio.wait([*tasks, drain])
        process._transport.close()  # type: ignore[attr-defined]  # a child of it may hold its pipes


async def _drain(process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
    reading.cancel()
    await asyncio.wait([reading])
    assert process.stdout is not None, "it was started with pipes"
    while await process.stdout.read(READ_SIZE):
        pass


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Return whether the process ends in time. `wait` alone would also wait for children that hold its pipes."""
    until = asyncio.get_running_loop().time() + seconds
    while process.returncode is None and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.01)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # Already ended, or (on macOS) only zombies are left in the group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
