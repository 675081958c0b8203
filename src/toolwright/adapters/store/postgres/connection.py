"""Connections to Postgres, typed, for asyncpg itself has no types; and its faults as ours.

Needs the extra `postgres`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg

from toolwright.adapters.store.engine.codecs import Row
from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.text import sentence

CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 30.0
APPLICATION = "toolwright"  # `application_name` of all sessions

_asyncpg: Any = asyncpg  # untyped; what comes out of it is given the protocols below
_SESSION = {
    "application_name": APPLICATION,
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "30s",
    "jit": "off",
    # The server ends a session, with its locks, whose client has been silent for 10 + 3 * 5 seconds.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    # Every statement goes by keys: planning it again gains nothing, and a plan that was made while a table
    # was small must not scan it when it has grown.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a journal: its number of sessions, and times in seconds.

    The server ends a `statement` after that time, and after half of it a session whose client falls silent within a
    transaction: a process that stands still must not hold its locks until the statements of others end. An `attempt` on
    one session is given up when even this does not happen, for then the session is silent; after `patience` the caller
    gets an error. Units that are committed together wait for a `lock` for that time, and are then committed one by one.
    """

    connections: int = 20
    lock: float = 0.1
    statement: float = 8.0
    attempt: float = 10.0
    patience: float = 15.0


class Cursor(Protocol):
    """The rows of a query, fetched as they are wanted, within a transaction."""

    async def fetch(self, n: int) -> list[Row]: ...


class Connection(Protocol):
    """One session."""

    async def execute(self, query: str, *values: object) -> str: ...

    async def fetch(self, query: str, *values: object) -> list[Row]: ...

    def transaction(self) -> AbstractAsyncContextManager[None]: ...

    async def cursor(self, query: str, *values: object) -> "Cursor": ...

    async def fetchmany(self, query: str, args: Sequence[Sequence[object]]) -> list[Row]: ...

    async def fetchval(self, query: str, *values: object) -> Any: ...  # of the column's type

    def get_server_pid(self) -> int: ...

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


class SessionPool:
    """At most so many sessions of a pool, each handed on to who comes next.

    asyncpg's own way of giving one back and taking it again is a task, two timers and a turn of the loop more.
    """

    def __init__(self, pool: Pool, most: int) -> None:
        self._pool = pool
        self._most = most
        self._out = 0  # sessions that the pool has given, or is about to
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._closing = False

    @property
    def used(self) -> tuple[int, int]:
        """The sessions in use, and how many there can be at most."""
        return self._out - len(self._idle), self._most

    async def acquire(self) -> Connection:
        while True:
            while self._idle:
                connection = self._idle.pop()
                if _is_fit(connection):
                    return connection
                await self._give_back(connection)
            if self._out < self._most:
                return await self._open()
            handed = await self._wait()
            if handed is not None and _is_fit(handed):
                return handed
            if handed is not None:
                await self._give_back(handed)

    async def release(self, connection: Connection) -> None:
        if _is_fit(connection) and not self._closing:
            self._hand_on(connection)
        else:
            await self._give_back(connection)

    def end_idle(self) -> None:
        """End the sessions that nobody has borrowed."""
        for connection in self._idle:  # the next borrower opens another one
            with suppress(asyncpg.InterfaceError):  # the server has ended it
                connection.terminate()

    async def close(self) -> None:
        self._closing = True  # what comes back from now on is the pool's
        while self._idle:
            await self._give_back(self._idle.pop())
        await self._pool.close()

    def terminate(self) -> None:
        self._pool.terminate()

    async def _open(self) -> Connection:
        self._out += 1
        try:
            return await self._pool.acquire()
        except BaseException:
            self._make_room()
            raise

    async def _give_back(self, connection: Connection) -> None:
        try:
            await self._pool.release(connection)
        finally:
            self._make_room()

    async def _wait(self) -> Connection | None:
        """Return a session that was handed on, or None where there is room for another one."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # at the very moment at which it got one
                handed = waiter.result()
                if handed is None:
                    self._wake_next(None)
                elif self._closing:
                    await asyncio.shield(self._give_back(handed))
                else:
                    self._hand_on(handed)
            raise

    def _hand_on(self, connection: Connection) -> None:
        if not self._wake_next(connection):
            self._idle.append(connection)

    def _make_room(self) -> None:
        self._out -= 1
        self._wake_next(None)

    def _wake_next(self, connection: Connection | None) -> bool:
        """Hand it to the first who waits; whether somebody did."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False


def _is_fit(connection: Connection) -> bool:
    """Return whether the session may be lent again."""
    try:
        return not connection.is_closed() and not connection.is_in_transaction()
    except asyncpg.InterfaceError:  # it was cut off: asyncpg has taken it back at once
        return False


@dataclass(frozen=True, slots=True)
class Pools:
    """Sessions for commits and sessions for reads: neither can use up the other's."""

    commits: Pool
    reads: Pool

    @property
    def used(self) -> tuple[int, int]:
        """The sessions in use, and how many there can be at most."""
        lent = [pool.used for pool in (self.commits, self.reads) if isinstance(pool, SessionPool)]
        return sum(used for used, _ in lent), sum(most for _, most in lent)

    def end_idle(self) -> None:
        """End the sessions that nobody uses: those to a server that is a primary no more would be read forever."""
        for pool in (self.commits, self.reads):
            if isinstance(pool, SessionPool):
                pool.end_idle()

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
    """Yield a session and release it afterwards. A session left in the middle of a command is closed."""
    connection = await pool.acquire()
    try:
        yield connection
    except (asyncio.CancelledError, TimeoutError):
        connection.terminate()  # to give it back would be to wait for it
        raise
    except asyncpg.ReadOnlySQLTransactionError:
        connection.terminate()  # its server is a primary no more
        raise
    finally:
        await pool.release(connection)


async def connect(
    url: str,
    command_seconds: float | None = COMMAND_SECONDS,
    *,
    is_durable: bool = True,
    lock_seconds: float | None = None,
) -> Connection:
    """Open a session. If it is not `is_durable`, a crash of the server can undo what it committed just before.

    A statement fails that has waited for a lock for `lock_seconds`.
    """
    settings = _SESSION if is_durable else {**_SESSION, "synchronous_commit": "off"}
    if lock_seconds is not None:
        settings = {**settings, "lock_timeout": f"{lock_seconds:.3f}s"}
    connection: Connection = await _asyncpg.connect(
        url, timeout=CONNECT_SECONDS, command_timeout=command_seconds, server_settings=settings
    )
    return connection


async def connect_pools(url: str, limits: Limits) -> Pools:
    """Open the sessions for commits and for reads."""
    half = limits.connections // 2
    commits = await _connect_pool(url, limits, limits.connections - half, lock_seconds=limits.lock)
    try:
        return Pools(commits, await _connect_pool(url, limits, half))
    except BaseException:
        commits.terminate()
        raise


async def _connect_pool(url: str, limits: Limits, most: int, *, lock_seconds: float = 0) -> Pool:
    pool: Pool = await _asyncpg.create_pool(
        url,
        min_size=0,
        max_size=most,
        timeout=CONNECT_SECONDS,
        statement_cache_size=512,
        server_settings={
            **_SESSION,
            "statement_timeout": f"{limits.statement:.3f}s",
            "lock_timeout": f"{lock_seconds:.3f}s",  # 0: no limit but that of the statement
            "idle_in_transaction_session_timeout": f"{limits.statement / 2:.3f}s",
        },
        reset=_left_clean,
    )
    return SessionPool(pool, most)


async def _left_clean(connection: Connection) -> None:
    """Skip asyncpg's reset, which costs a round trip: the driver leaves no state in a session."""
    if connection.is_in_transaction():
        connection.terminate()


FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
RETRIED = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,  # of the look for a token, while a migration locks its table
    asyncpg.TooManyConnectionsError,
)
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # an administrator, or the server itself, ended the session
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process stood still within a transaction
    asyncpg.ReadOnlySQLTransactionError,  # after a failover, of a session to the old primary
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # TimeoutError among them
)


def is_lost(error: BaseException) -> bool:
    """Return whether the connection is gone, and with it the knowledge of what became of a COMMIT."""
    if isinstance(error, asyncpg.QueryCanceledError):  # an OperatorInterventionError that leaves the session
        return False
    return isinstance(error, _LOST) and not isinstance(error, ValueError)  # ValueError: unfit parameters


def store_error(error: BaseException) -> StoreError | Unwritable:
    """Convert the error: the database is unavailable, or it cannot store a value."""
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
