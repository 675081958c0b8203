"""Messages between the processes of a cluster as Postgres notifications. Needs the extra `postgres`."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from toolwright.adapters.store.postgres.connection import connect
from toolwright.core.env.logs import logger
from toolwright.core.ports import NotConnected

log = logger("toolwright.bus")

CHANNEL = "toolwright"
SECONDS = 5.0  # timeout of sending a notification
_SEND = "SELECT pg_notify($1, text) FROM unnest($2::text[]) AS text"


class PostgresRelay:
    """A `Relay` over one session, which sends and receives.

    Only this session commits notifications, and no unit of the journal contains or waits for one: a commit with a
    notification holds a lock on the whole server.
    """

    most = 7_900  # bytes: Postgres accepts fewer than 8,000
    pause = 0.002  # each send is a commit

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: Any = None  # an asyncpg connection, which is untyped
        self._is_pooled = False

    async def listen(self, receive: Callable[[str], None], connected: Callable[[], None]) -> None:
        session: Any = await connect(self._url, is_durable=False)  # notifications can be lost
        try:
            ended = asyncio.Event()

            def end(_: object) -> None:
                ended.set()

            def read(_session: object, _pid: object, _channel: object, text: str) -> None:
                receive(text)

            session.add_termination_listener(end)
            if (
                not self._is_pooled
                and await session.fetchval("SELECT pg_backend_pid()") != session.get_server_pid()
            ):
                self._is_pooled = True
                log.warning(
                    "Notifications of the database do not pass its connection pooler: this process notices other "
                    "processes by looking at the journal. Set TOOLWRIGHT_CLUSTER to the URL of a NATS server."
                )
            await session.add_listener(CHANNEL, read)
            self._session = session
            connected()
            await ended.wait()
        finally:
            self._session = None
            session.terminate()

    async def send(self, texts: Sequence[str]) -> None:
        session = self._session
        if session is None:
            raise NotConnected("the database session for notifications is not open")
        try:
            async with asyncio.timeout(SECONDS):
                await session.execute(_SEND, CHANNEL, texts)
        except BaseException:
            session.terminate()
            raise
