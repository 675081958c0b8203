"""The drain lock on Postgres: a session's advisory lock. Needs the extra `postgres`."""

import asyncio

import asyncpg

from toolwright.adapters.store.postgres_connection import Connection, connect
from toolwright.adapters.store.postgres_faults import store_error

DRAIN_LOCK = 0x746F6F6C_64726169  # "tooldrai"


class PostgresLock:
    """Held as long as its connection lives; `lost` is set when that dies."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None
        self.lost = asyncio.Event()

    @property
    def held(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def acquire(self) -> bool:
        if self.held:
            return True
        try:
            connection = await connect(self._url)
            got = await connection.fetchval("SELECT pg_try_advisory_lock($1)", DRAIN_LOCK)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise store_error(error) from error
        if not got:
            await connection.close()
            return False
        self.lost.clear()
        self._connection = connection
        connection.add_termination_listener(self._ended)
        return True

    async def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.remove_termination_listener(self._ended)
            await connection.close()

    def _ended(self, _: object) -> None:
        self._connection = None
        self.lost.set()
