"""Lock on Postgres for executing runs, held by a session; and the processes that execute the runs of a database."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

import asyncpg

from toolwright.adapters.store.engine.program import NOW
from toolwright.adapters.store.postgres.connection import (
    FAULTS,
    Connection,
    connect,
    store_error,
)
from toolwright.core.concurrency import start_task
from toolwright.core.journal.units import ALIVE

DRAIN_LOCK = 0x746F6F6C_64726169  # "tooldrai"

# Cluster nodes hold no session lock. While a node is alive, no process outside the cluster executes runs.
_LIVING = f"SELECT count(*) FROM nodes WHERE seen > {NOW['postgresql']} - $1::bigint"  # noqa: S608 - of constants
DEAD_AFTER = 15_000_000  # microseconds without a heartbeat: three times the TTL between nodes
_LOCKED = """
SELECT EXISTS (
  SELECT FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = $1::bigint AND objid::bigint = $2::bigint
)
"""
_TRY, _UNLOCK = "SELECT pg_try_advisory_lock($1)", "SELECT pg_advisory_unlock_all()"
FREE_ALL = "UPDATE wakes SET node = NULL WHERE node IS NOT NULL"

# Seconds between two keep-alive queries, and the timeout of each. Together they must stay below the time after
# which the server ends a silent session (`tcp_keepalives_*`) and another process can acquire its lock.
BEAT = 3.0
PATIENCE = 3.0


class Executors(NamedTuple):
    """The processes that execute the runs of a database.

    `nodes` is the number of live cluster nodes. `is_locked` is true if a process outside a cluster holds the lock.
    """

    nodes: int
    is_locked: bool


async def look_for_executors(url: str) -> Executors:
    """Return which processes execute runs, without acquiring the lock. Raises `StoreError`."""
    try:
        connection = await connect(url)
        try:
            is_locked = await connection.fetchval(_LOCKED, DRAIN_LOCK >> 32, DRAIN_LOCK & 0xFFFFFFFF)
            nodes = 0
            with suppress(asyncpg.UndefinedTableError):
                nodes = await connection.fetchval(_LIVING, ALIVE // timedelta(microseconds=1))
        finally:
            await connection.close()
    except FAULTS as error:
        raise store_error(error) from error
    return Executors(nodes, is_locked)


class PostgresLock:
    """Session lock, held as long as its connection is open. The connection is checked every few seconds."""

    def __init__(self, url: str, *, beat: float = BEAT, patience: float = PATIENCE) -> None:
        self._url = url
        self._beat = beat
        self._patience = patience
        self._connection: Connection | None = None
        self._asking: Connection | None = None  # the session while waiting for the lock
        self._heart: asyncio.Task[None] | None = None

    @property
    def held(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def acquire(self) -> bool:
        if self.held:
            return True
        await self._let_go()
        connection = self._asking
        try:
            if connection is None or connection.is_closed():
                connection = self._asking = await connect(self._url)
            if not await _try_lock(connection):
                return False
        except FAULTS as error:
            raise store_error(error) from error
        self._connection, self._asking = connection, None
        self._heart = start_task(self._watch(connection), "postgres-lock")
        return True

    async def release(self) -> None:
        asking, self._asking = self._asking, None
        await self._let_go()
        await self._end(asking)

    async def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            await asyncio.wait([heart])
        await self._end(connection)

    async def _end(self, connection: Connection | None) -> None:
        if connection is not None and not connection.is_closed():
            # on failure the connection is terminated, and the server ends the session
            with suppress(*FAULTS):
                await _unlock(connection, self._patience)

    async def _watch(self, connection: Connection) -> None:
        """Watch the connection until it is closed. Terminate it if it does not respond: its lock can be lost."""
        alarm = asyncio.get_running_loop().call_later
        while not connection.is_closed():
            await asyncio.sleep(self._beat)
            late = alarm(self._patience, connection.terminate)
            try:
                await connection.fetchval("SELECT 1")
            except FAULTS:
                connection.terminate()
            finally:
                late.cancel()


async def _try_lock(connection: Connection) -> bool:
    """Acquire the lock unless another process holds it or a node is alive. Leaves the session open for a retry."""
    try:
        # Nodes are checked first: a node that joins while the lock is briefly held would be rejected.
        if await _has_nodes(connection) or not await connection.fetchval(_TRY, DRAIN_LOCK):
            return False
        if await _has_no_nodes(connection):
            return True
        await connection.execute(_UNLOCK)
    except (
        *FAULTS,
        asyncio.CancelledError,
    ):  # the session could hold the lock, which would never be released
        await _unlock(connection)
        raise
    return False


async def _unlock(connection: Connection, patience: float = PATIENCE) -> None:
    """Release the lock explicitly and close the session, because a pooler would keep the session open."""
    try:
        async with asyncio.timeout(patience):
            await connection.execute(_UNLOCK)
    except (*FAULTS, TimeoutError):  # the server then ends the session and releases the lock
        connection.terminate()
    else:
        await connection.close(timeout=patience)


async def _has_nodes(connection: Connection) -> bool:
    """Return whether a cluster node is alive. False also for a database that is not migrated yet."""
    try:
        return bool(await connection.fetchval(_LIVING, DEAD_AFTER))
    except asyncpg.UndefinedTableError:
        return False


async def _has_no_nodes(connection: Connection) -> bool:
    """Release the threads of dead nodes unless a node is alive. True also for a database that is not migrated yet."""
    if await _has_nodes(connection):
        return False
    with suppress(asyncpg.UndefinedTableError):
        await connection.execute(FREE_ALL)
    return True
