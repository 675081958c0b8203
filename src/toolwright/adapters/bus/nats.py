"""Messages between the processes of a cluster by NATS. Needs the extra `nats`."""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from toolwright.core.env.logs import logger

log = logger("toolwright.bus")

PAUSE, PING = 1.0, 5  # seconds before it is tried to connect again, and between two signs of life
REACH = 5.0  # seconds in which a server must answer when it is looked for
PENDING = 8 * 1024 * 1024  # bytes that wait to be sent, or to be read; more are lost


class NatsRelay:
    """A `Relay` over NATS core, which keeps nothing. The processes of one `database` share a subject."""

    most = 64 * 1024  # bytes: servers take 1 MiB by default
    pause = 0.001

    def __init__(self, servers: Sequence[str], database: str) -> None:
        self._servers = [*servers]
        self._subject = f"toolwright.{re.sub('[^A-Za-z0-9_-]', '_', database) or '_'}"
        self._client: Client | None = None

    async def fault(self) -> str | None:
        """Return why no server can be reached, or None if one answers."""
        client = Client()
        try:
            async with asyncio.timeout(REACH):
                await client.connect(
                    self._servers, name="toolwright", allow_reconnect=False, error_cb=_ignore
                )
                await client.flush()
        except (OSError, TimeoutError, Error) as error:
            return str(error) or type(error).__name__
        finally:
            with suppress(Exception):
                await client.close()
        return None

    async def listen(self, receive: Callable[[str], None], connected: Callable[[], None]) -> None:
        client, closed = Client(), asyncio.Event()

        async def read(message: Msg) -> None:
            receive(message.data.decode("utf-8", "replace"))

        async def reconnect() -> None:
            connected()

        async def end() -> None:
            closed.set()

        async def fail(error: Exception) -> None:
            log.debug("NATS: %s", error)

        try:
            await client.connect(
                self._servers,
                name="toolwright",
                no_echo=True,
                reconnect_time_wait=int(PAUSE),
                max_reconnect_attempts=-1,
                ping_interval=PING,
                pending_size=PENDING,
                reconnected_cb=reconnect,
                closed_cb=end,
                error_cb=fail,
            )
            untyped: Any = client
            await untyped.subscribe(self._subject, cb=read, pending_bytes_limit=PENDING)
            self._client = client
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
            raise ConnectionError("NATS is not connected.")
        for text in texts:
            await client.publish(self._subject, text.encode("ascii"))


async def _ignore(error: Exception) -> None:
    """Take errors that the client would print with their tracebacks."""
