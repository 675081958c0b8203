"""Connections of HTTP tools: a name is resolved once, all its addresses are validated, and one of these is dialled.

The judge sees what is connected to, whatever a URL looked like. Between the check and the connection nobody is asked
again, so a name that resolves otherwise the second time gains nothing. Host and TLS go on with the name.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Any

import httpcore

from toolwright.adapters.executors.request import AddressRefused
from toolwright.core.tools.http.addresses import Judge, Resolve

CONNECTIONS = 1_000
KEPT_ALIVE = 20


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name as the operating system knows them; also of numbers in its odd forms (`0x7f.1`)."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Dialer(httpcore.AsyncNetworkBackend):
    """Connects to validated addresses only. Raises `AddressRefused` if one of a name's addresses is refused."""

    def __init__(self, resolve: Resolve, judge: Judge, inner: httpcore.AsyncNetworkBackend) -> None:
        self._resolve = resolve
        self._judge = judge
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,  # as the library has it
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first of the name's addresses that answers."""
        addresses = await self._addresses(host, port)
        if not all(self._judge(host, port, ip_address(address)) for address in addresses):
            raise AddressRefused
        failed: Exception = httpcore.ConnectError("its name has no address")
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            return await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError("its name cannot be resolved") from error

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,  # as above
    ) -> httpcore.AsyncNetworkStream:
        """No URL leads to a socket in a file."""
        raise AddressRefused

    async def sleep(self, seconds: float) -> None:
        """Delay between attempts of the library, in seconds."""
        await self._inner.sleep(seconds)


def pool(dialer: Dialer, tls: ssl.SSLContext) -> httpcore.AsyncConnectionPool:
    """A pool that no variable of the environment sends through a proxy."""
    return httpcore.AsyncConnectionPool(
        ssl_context=tls,
        max_connections=CONNECTIONS,
        max_keepalive_connections=KEPT_ALIVE,
        keepalive_expiry=5.0,
        network_backend=dialer,
    )
