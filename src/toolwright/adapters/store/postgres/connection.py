"""Connections to Postgres: typed protocols for asyncpg, session pools, conversion of errors, and notifications.

Needs the extra `postgres`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg

from toolwright.adapters.store.engine.codecs import Row
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.ports import NotConnected
from toolwright.core.text import sentence

CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 30.0
APPLICATION = "toolwright"  # `application_name` of all sessions

_asyncpg: Any = asyncpg  # untyped; its objects are typed by the protocols below
_SESSION = {
    "application_name": APPLICATION,
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "30s",
    "jit": "off",
    # The server ends a session and its locks after its client has been silent for 10 + 3 * 5 seconds.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    # Every statement uses keys: replanning gains nothing, and a plan made while a table was small must not
    # scan the table after it has grown.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
}
CHANNEL = "toolwright"
SECONDS = 5.0  # timeout of sending a notification
_SEND = "SELECT pg_notify($1, text) FROM unnest($2::text[]) AS text"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a journal: its number of sessions, and times in seconds.

    The server cancels a statement after `statement` seconds. It ends a session that is idle in a transaction after half
    of that time, so that a stalled process does not hold its locks until the statements of others time out. After
    `attempt` seconds an attempt on one session is abandoned, because the session does not respond. After `patience`
    seconds the caller gets an error. Units committed together wait up to `lock` seconds for a lock, and are then
    committed one by one.
    """

    connections: int = 20
    lock: float = 0.1
    statement: float = 8.0
    attempt: float = 10.0
    patience: float = 15.0


class Cursor(Protocol):
    """The rows of a query, fetched on demand within a transaction."""

    async def fetch(self, n: int) -> list[Row]: ...


class Connection(Protocol):
    """One Postgres session."""

    async def execute(self, query: str, *values: object) -> str: ...

    async def fetch(self, query: str, *values: object) -> list[Row]: ...

    def transaction(self) -> AbstractAsyncContextManager[None]: ...

    async def cursor(self, query: str, *values: object) -> "Cursor": ...

    async def fetchmany(self, query: str, args: Sequence[Sequence[object]]) -> list[Row]: ...

    async def fetchval(self, query: str, *values: object) -> Any: ...  # a value of the column's type

    def get_server_pid(self) -> int: ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...

    def terminate(self) -> None: ...

    async def close(self, *, timeout: float | None = None) -> None: ...


class Pool(Protocol):
    """Session pool: each session is lent to one user at a time."""

    async def acquire(self) -> Connection: ...

    async def release(self, connection: Connection) -> None: ...

    async def close(self) -> None: ...

    def terminate(self) -> None: ...


class SessionPool:
    """At most `most` sessions of a pool. A released session is handed directly to the next waiter.

    Releasing to and acquiring from asyncpg's own pool costs an additional task, two timers and an event loop iteration.
    """

    def __init__(self, pool: Pool, most: int) -> None:
        self._pool = pool
        self._most = most
        self._out = 0  # sessions acquired from the pool, or being acquired
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._closing = False

    @property
    def used(self) -> tuple[int, int]:
        """Number of sessions in use, and the maximum."""
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
        """End the idle sessions."""
        for connection in self._idle:  # the next `acquire` opens another one
            with suppress(asyncpg.InterfaceError):  # the server has ended it
                connection.terminate()

    async def close(self) -> None:
        self._closing = True  # sessions released from now on return to the pool
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
        """Wait for a released session. Returns None if a new session can be opened instead."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # cancelled just after it received one
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
        """Hand the session to the first waiter. Returns whether there was a waiter."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False


def _is_fit(connection: Connection) -> bool:
    """Return whether the session can be lent again."""
    try:
        return not connection.is_closed() and not connection.is_in_transaction()
    except asyncpg.InterfaceError:  # the connection was lost: asyncpg has released it already
        return False


@dataclass(frozen=True, slots=True)
class Pools:
    """Separate session pools for commits and for reads, so that neither can exhaust the other."""

    commits: Pool
    reads: Pool

    @property
    def used(self) -> tuple[int, int]:
        """Number of sessions in use, and the maximum."""
        lent = [pool.used for pool in (self.commits, self.reads) if isinstance(pool, SessionPool)]
        return sum(used for used, _ in lent), sum(most for _, most in lent)

    def end_idle(self) -> None:
        """End the idle sessions. Otherwise reads would continue on a server that is no longer the primary."""
        for pool in (self.commits, self.reads):
            if isinstance(pool, SessionPool):
                pool.end_idle()

    async def close(self, patience: float) -> None:
        """Close all sessions. Pools that do not close within `patience` seconds are terminated."""
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
        connection.terminate()  # releasing it would wait for the command
        raise
    except asyncpg.ReadOnlySQLTransactionError:
        connection.terminate()  # its server is no longer the primary
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
    """Open a session. Without `is_durable`, a crash of the server can undo its last commits.

    A statement fails after it has waited for a lock for `lock_seconds`.
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
            "lock_timeout": f"{lock_seconds:.3f}s",  # 0: only the statement timeout applies
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
    asyncpg.LockNotAvailableError,  # when looking up a token while a migration locks its table
    asyncpg.TooManyConnectionsError,
)
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # an administrator, or the server itself, ended the session
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process stalled within a transaction
    asyncpg.ReadOnlySQLTransactionError,  # after a failover, on a session to the old primary
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # includes TimeoutError
)


def is_lost(error: BaseException) -> bool:
    """Return whether the connection is lost, so that the outcome of a COMMIT is unknown."""
    # an OperatorInterventionError that does not end the session
    if isinstance(error, asyncpg.QueryCanceledError):
        return False
    return isinstance(error, _LOST) and not isinstance(error, ValueError)  # ValueError: invalid parameters


def store_error(error: BaseException) -> StoreError | Unwritable:
    """Convert the error: the database is unavailable, or it cannot store a value."""
    refusal: StoreError | Unwritable
    if isinstance(error, asyncpg.IntegrityConstraintViolationError | asyncpg.DataError):
        refusal = Unwritable(sentence(f"The journal cannot hold this: {error}"))
        refusal.__cause__ = error
        return refusal
    nameless = "it did not answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    refusal = StoreError(sentence(f"The journal on Postgres cannot be used: {str(error) or nameless}"))
    refusal.__cause__ = error
    return refusal


log = logger("toolwright.bus")


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
