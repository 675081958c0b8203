"""Connections to Postgres, typed, for asyncpg itself has no types; and its faults as ours.

Needs the extra `postgres`.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg

from toolwright.adapters.store.engine.codecs import Row
from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.text import sentence

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


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a journal: its number of sessions, and times in seconds.

    The server ends a `statement` after that time; an `attempt` on one session is given up when even this does
    not come to pass, for then the session is silent; after `patience` whoever waits is told.
    """

    connections: int = 20
    statement: float = 8.0
    attempt: float = 10.0
    patience: float = 15.0


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

    async def acquire(self) -> Connection: ...

    async def release(self, connection: Connection) -> None: ...

    async def close(self) -> None: ...

    def terminate(self) -> None: ...


class Lending:
    """A pool that keeps the sessions that come back for who comes next: asyncpg's own way takes a task each time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._idle: list[Connection] = []
        self._waiting = 0  # who waits for a session of the pool
        self._closing = False

    async def acquire(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if _is_fit(connection):
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire()
        finally:
            self._waiting -= 1

    async def release(self, connection: Connection) -> None:
        if _is_fit(connection) and not self._waiting and not self._closing:
            self._idle.append(connection)
        else:
            await self._pool.release(connection)

    async def close(self) -> None:
        self._closing = True  # what comes back from now on is the pool's
        while self._idle:
            await self._pool.release(self._idle.pop())
        await self._pool.close()

    def terminate(self) -> None:
        self._pool.terminate()


def _is_fit(connection: Connection) -> bool:
    """Whether the session may be lent again."""
    try:
        return not connection.is_closed() and not connection.is_in_transaction()
    except asyncpg.InterfaceError:  # it was cut off: asyncpg has taken it back at once
        return False


@dataclass(frozen=True, slots=True)
class Pools:
    """Sessions for commits and sessions for reads: neither can use up the other's."""

    commits: Pool
    reads: Pool

    async def close(self, patience: float) -> None:
        """Close all sessions, those that stay silent without a word."""
        for pool in (self.commits, self.reads):
            try:
                async with asyncio.timeout(patience):
                    await pool.close()
            except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                pool.terminate()


@asynccontextmanager
async def lent(pool: Pool) -> AsyncGenerator[Connection]:
    """A session, given back afterwards; one that was left in the middle of something is cut off."""
    connection = await pool.acquire()
    try:
        yield connection
    except (asyncio.CancelledError, TimeoutError):
        connection.terminate()  # to give it back would be to wait for it
        raise
    finally:
        await pool.release(connection)


async def connect(url: str, command_seconds: float | None = COMMAND_SECONDS) -> Connection:
    """A session of its own."""
    connection: Connection = await _asyncpg.connect(
        url, timeout=CONNECT_SECONDS, command_timeout=command_seconds, server_settings=_SESSION
    )
    return connection


async def connect_pools(url: str, limits: Limits) -> Pools:
    """Sessions as the journal wants them."""
    half = limits.connections // 2
    commits = await _connect_pool(url, limits, limits.connections - half)
    try:
        return Pools(commits, await _connect_pool(url, limits, half))
    except BaseException:
        commits.terminate()
        raise


async def _connect_pool(url: str, limits: Limits, most: int) -> Pool:
    pool: Pool = await _asyncpg.create_pool(
        url,
        min_size=0,
        max_size=most,
        timeout=CONNECT_SECONDS,
        statement_cache_size=512,
        server_settings={**_SESSION, "statement_timeout": f"{limits.statement:.3f}s"},
        reset=_left_clean,
    )
    return Lending(pool)


async def _left_clean(connection: Connection) -> None:
    """Spares the round trip of asyncpg's own reset: the driver leaves nothing behind in a session."""
    if connection.is_in_transaction():
        connection.terminate()


FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
RETRIED = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.TooManyConnectionsError)
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # an administrator, or the server itself, ended the session
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # TimeoutError among them
)


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, and with it the knowledge of what became of a COMMIT."""
    if isinstance(error, asyncpg.QueryCanceledError):  # an OperatorInterventionError that leaves the session
        return False
    return isinstance(error, _LOST) and not isinstance(error, ValueError)  # ValueError: unfit parameters


def store_error(error: BaseException) -> StoreError | Unwritable:
    """The error as callers know it: the database is unavailable, or it cannot hold what it was given."""
    refusal: StoreError | Unwritable
    if isinstance(error, asyncpg.IntegrityConstraintViolationError | asyncpg.DataError):
        refusal = Unwritable(sentence(f"The journal cannot hold this: {error}"))
        refusal.__cause__ = error
        return refusal
    refusal = StoreError(
        sentence(f"The journal on Postgres cannot be used: {str(error) or type(error).__name__}")
    )
    refusal.__cause__ = error
    return refusal
