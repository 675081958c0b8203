"""Connections to Postgres: what is used of asyncpg, typed, for asyncpg itself has no types.

Needs the extra `postgres`.
"""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import asyncpg

from toolwright.adapters.store.rows import Row

CONNECTIONS = 10
CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 30.0

_asyncpg: Any = asyncpg  # untyped; what comes out of it is given the protocols below
_SESSION = {
    "application_name": "toolwright",
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "30s",
    "jit": "off",
    # The server ends a session, with its locks, whose client has been silent for 10 + 3 * 5 seconds.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    # Every statement goes by keys: planning it anew gains nothing, and a plan that was made while a table
    # was small must not scan it when it has grown.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
}


class Connection(Protocol):
    """One session."""

    async def execute(self, query: str, *values: object) -> str: ...

    async def fetch(self, query: str, *values: object) -> list[Row]: ...

    async def fetchval(self, query: str, *values: object) -> Any: ...  # of the column's type

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...

    def terminate(self) -> None: ...

    async def close(self, *, timeout: float | None = None) -> None: ...


class Pool(Protocol):
    """Some sessions, each lent to one at a time."""

    def acquire(self) -> AbstractAsyncContextManager[Connection]: ...

    async def close(self) -> None: ...


async def connect(url: str) -> Connection:
    """A session of its own."""
    connection: Connection = await _asyncpg.connect(
        url, timeout=CONNECT_SECONDS, command_timeout=COMMAND_SECONDS, server_settings=_SESSION
    )
    return connection


async def connect_pool(url: str) -> Pool:
    """Sessions as the journal wants them."""
    pool: Pool = await _asyncpg.create_pool(
        url,
        min_size=1,
        max_size=CONNECTIONS,
        timeout=CONNECT_SECONDS,
        command_timeout=COMMAND_SECONDS,
        statement_cache_size=512,
        server_settings=_SESSION,
        reset=_left_clean,
    )
    return pool


async def _left_clean(connection: Connection) -> None:
    """Spares the round trip of asyncpg's own reset: the driver leaves nothing behind in a session."""
    if connection.is_in_transaction():
        connection.terminate()
