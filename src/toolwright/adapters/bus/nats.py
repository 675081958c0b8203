"""Messages between the processes of a cluster over NATS. Needs the extra `nats`."""

import asyncio
import errno
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error, UnexpectedEOF

from toolwright.adapters.system import new_id
from toolwright.core.env.logs import logger
from toolwright.core.json_value import dumps
from toolwright.core.ports import NotConnected
from toolwright.core.text import error_text

log = logger("toolwright.bus")

PAUSE, PING = 1.0, 2  # seconds before a reconnection attempt, and between two pings
# Timeout of a server's answer, and of the whole check of a server (two attempts), in seconds.
CONNECT, REACH = 2, 4.5
PENDING = 8 * 1024 * 1024  # buffered bytes to be sent or read; more are lost


class NatsRelay:
    """A `Relay` over NATS core, which stores no messages. The processes of one `database` share a subject."""

    most = 64 * 1024  # bytes: servers accept 1 MiB by default
    pause = 0.001

    def __init__(self, servers: Sequence[str], database: str) -> None:
        self._servers = [*servers]
        self._hosts = [host_of(each) for each in servers]
        self._subject = f"toolwright.{re.sub('[^A-Za-z0-9_-]', '_', database) or '_'}"
        self._client: Client | None = None
        self._failures, self._is_denied = _Failures(), False

    async def fault(self) -> str | None:
        """Return why no server can be used, or None if one of them delivers messages."""
        errors = await asyncio.gather(*map(self._server_error, self._servers))
        if None in errors:
            return None
        reasons = dict.fromkeys(map(str, errors))
        if len(reasons) == 1:
            return next(iter(reasons))
        return "; ".join(f"{host}: {error}" for host, error in zip(self._hosts, errors, strict=True))

    async def _server_error(self, server: str) -> str | None:
        """Return why this server delivers no messages, or None. Sends a test message that other processes ignore."""
        client, failures, text = Client(), _Failures(), dumps([new_id("bus")]).encode("ascii")
        ended = asyncio.Event()

        async def read(message: Msg) -> None:
            if message.data == text:
                ended.set()

        async def fail(error: Exception) -> None:
            await failures.note(error)
            # For an established connection; others are retried.
            if _is_denied(error):
                ended.set()

        try:
            async with asyncio.timeout(REACH):
                await client.connect(
                    [server],
                    name="toolwright",
                    allow_reconnect=False,
                    connect_timeout=CONNECT,
                    reconnect_time_wait=0,
                    # The smallest limit that the client accepts: a second attempt immediately follows the first.
                    max_reconnect_attempts=1,
                    error_cb=fail,
                    **credentials_of(self._servers),
                )
                failures.reason = None
                untyped: Any = client
                await untyped.subscribe(self._subject, cb=read)
                await client.publish(self._subject, text)
                await ended.wait()
        except (OSError, TimeoutError, Error) as error:
            return failures.reason or _reason(error)
        finally:
            with suppress(Exception):
                await client.close()
        return failures.reason

    async def listen(self, receive: Callable[[str], None], connected: Callable[[], None]) -> None:
        client, closed = Client(), asyncio.Event()
        failures = self._failures

        async def read(message: Msg) -> None:
            receive(message.data.decode("utf-8", "replace"))

        async def reconnect() -> None:
            failures.reason = None
            connected()

        async def end() -> None:
            closed.set()

        async def fail(error: Exception) -> None:
            await failures.note(error)
            # The connection stays open while everything sent is lost; nothing else would report it.
            if _is_denied(error) and not self._is_denied:
                self._is_denied = True
                log.warning("NATS rejected a message to other processes: %s", _reason(error))

        failures.reason = None
        try:
            await client.connect(
                self._servers,
                name="toolwright",
                no_echo=True,
                reconnect_time_wait=int(PAUSE),
                connect_timeout=CONNECT,
                max_reconnect_attempts=-1,
                ping_interval=PING,
                pending_size=PENDING,
                reconnected_cb=reconnect,
                closed_cb=end,
                error_cb=fail,
                **credentials_of(self._servers),
            )
            untyped: Any = client
            await untyped.subscribe(self._subject, cb=read, pending_bytes_limit=PENDING)
            self._client = client
            failures.reason = None
            connected()
            await closed.wait()
        finally:
            self._client = None
            with suppress(Exception):
                async with asyncio.timeout(PAUSE):
                    await client.close()

    async def send(self, texts: Sequence[str]) -> None:
        client = self._client
        if client is None or not client.is_connected:
            hosts, reason = ", ".join(self._hosts), self._failures.reason
            if reason is None:
                raise NotConnected(f"NATS at {hosts} does not answer")
            raise ConnectionError(f"NATS at {hosts}: {reason}")
        for text in texts:
            await client.publish(self._subject, text.encode("ascii"))


def host_of(server: str) -> str:
    """Return the host and port of a server's URL, without user and password."""
    return urlsplit(server).netloc.rpartition("@")[2]


def credentials_of(servers: Sequence[str]) -> dict[str, Any]:  # keyword arguments of the client
    """Return the user and password, or the token, of the servers' URLs: the client does not decode `%40` in a URL.

    It takes them for all servers, so servers with different credentials keep those of their URLs, as written.
    """
    found = {(url.username, url.password) for url in map(urlsplit, servers)}
    user, password = found.pop()
    if found or user is None:
        return {}
    if password is None:
        return {"token": unquote(user)}
    return {"user": unquote(user), "password": unquote(password)}


class _Failures:
    """Keeps the last reason for a failed connection, from the errors that the client reports."""

    def __init__(self) -> None:
        self.reason: str | None = None

    async def note(self, error: Exception) -> None:
        """Record an error of the client, which would otherwise print it with a traceback."""
        log.debug("NATS: %s", error_text(error))
        # A server that rejects a password closes the connection; that error says less than the one before it.
        if self.reason is None or not isinstance(
            error, (ConnectionResetError, BrokenPipeError, UnexpectedEOF)
        ):
            self.reason = _reason(error)


def _reason(error: Exception) -> str:
    """Return a message that explains why a server cannot be used."""
    text = str(error).removeprefix("nats: ").strip("'\" ")
    if "authorization violation" in text.lower():
        return "the server rejects the user or the password (authorization violation)"
    if isinstance(error, socket.gaierror):
        return f"the host name cannot be resolved ({error.strerror})"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT} seconds"
    # The error for several addresses of one host has the error number only in its text.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in text:
        return "connection refused"
    if isinstance(error, OSError) and error.errno and error.strerror:
        return error.strerror
    return text or type(error).__name__


def _is_denied(error: Exception) -> bool:
    return "permissions violation" in str(error).lower()
