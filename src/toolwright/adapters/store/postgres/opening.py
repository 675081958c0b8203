"""Opening and inspection of a journal on Postgres. Needs the extra `postgres`."""

import asyncio
from typing import Any

import asyncpg
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from toolwright.adapters.store.engine.outcome import Publish
from toolwright.adapters.store.migrate import migrate
from toolwright.adapters.store.opening import PAGE, queries
from toolwright.adapters.store.postgres.connection import (
    FAULTS,
    Connection,
    Limits,
    connect,
    connect_pools,
    store_error,
)
from toolwright.adapters.store.postgres.driver import PostgresDriver
from toolwright.adapters.store.schema import HEAD, READ_LEAST, READ_REVISION, REVISIONS, is_current
from toolwright.adapters.store.store import SqlStore
from toolwright.core.broken_rows import BrokenRow
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError

log = logger("toolwright.journal")

_SAYS_LEAST = "SELECT to_regclass('compatibility') IS NOT NULL"
_ABOUT_SESSION = "SELECT current_setting('server_encoding'), pg_backend_pid()"
POOLED = (
    "The database is reached through a connection pooler such as PgBouncer, which lends a session for one transaction "
    "only. The lock that keeps other processes from executing the same runs needs a session of its own: connect to "
    "Postgres directly, or set TOOLWRIGHT_CLUSTER."
)
LOCK_SECONDS, LOCK_PAUSE = 1.0, 3.0  # seconds that a migration waits for a lock, and before it retries
START_PAUSE = 0.5  # seconds between two attempts to reach a server that does not answer yet
STARTING = (OSError, asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError)
"""Errors of a server that is not there yet: no address, no port, or it recovers."""
MIGRATION_LOCK = 0x746F6F6C_6D696772  # "toolmigr"


async def open_postgres(
    url: str,
    publish: Publish,
    *,
    is_node: bool = False,
    locks: bool = False,
    **limits: Any,  # the fields of `Limits`
) -> SqlStore:
    """Open the journal in a Postgres database. Migrates it if necessary, except on a cluster node.

    Raises `StoreError` if this process `locks` the database and a connection pooler is in between, because the lock
    belongs to a session.
    """
    chosen = Limits(**limits)
    await upgrade_postgres(url, is_node=is_node, locks=locks)
    try:
        pools = await connect_pools(url, chosen)
        driver = PostgresDriver(pools, publish, chosen)
        try:
            await driver.open()
        except BaseException:
            await driver.close()
            raise
    except FAULTS as error:
        raise store_error(error) from error
    return SqlStore(driver)


async def wait_for_postgres(url: str, seconds: float) -> None:
    """Wait until the server accepts connections, at most `seconds`. Raises `StoreError` if it still does not.

    Returns at once if it rejects this connection for a reason that does not pass, such as a wrong password.
    """
    loop = asyncio.get_running_loop()
    end, waits = loop.time() + seconds, False
    while True:
        try:
            connection = await connect(url)
        except STARTING as error:
            if loop.time() >= end:
                raise store_error(error) from error
            if not waits:
                log.warning("%s Waiting for the database, at most %.0f s.", store_error(error), seconds)
            waits = True
            await asyncio.sleep(START_PAUSE)
        except FAULTS:
            return
        else:
            await connection.close()
            return


async def postgres_revision(url: str, *, locks: bool = False) -> tuple[str | None, str | None]:
    """Return the revision, or None if there are no tables yet, and `least` of `is_current` for a newer revision."""
    try:
        connection = await connect(url)
        try:
            [(encoding, process)] = await connection.fetch(_ABOUT_SESSION)
            _check_encoding(str(encoding))
            if locks and process != connection.get_server_pid():
                raise StoreError(POOLED)
            revision: str | None = await connection.fetchval(READ_REVISION)
            is_known = revision is None or revision in REVISIONS
            if is_known or not await connection.fetchval(_SAYS_LEAST):
                return revision, None
            return revision, await connection.fetchval(READ_LEAST)
        except asyncpg.UndefinedTableError:
            return None, None
        finally:
            await connection.close()
    except FAULTS as error:
        raise store_error(error) from error


async def upgrade_postgres(url: str, *, is_node: bool = False, locks: bool = False) -> None:
    """Migrate the database; safe when several processes do it at once.

    A cluster node creates the tables of an empty database but upgrades no other, which older nodes could be using.
    """
    revision, least = await postgres_revision(url, locks=locks)
    if not is_current(revision, least):
        if is_node and revision is not None:
            raise StoreError(
                f"The database is at revision {revision!r}, and this version of toolwright needs {HEAD!r}: run "
                "`toolwright db upgrade` once with this version, then start the nodes."
            )
        try:
            await _migrate_alone(url)
        except FAULTS as error:
            raise store_error(error) from error


async def _migrate_alone(url: str) -> None:
    async def creator() -> Connection:
        return await connect(url, None)  # migrations can take long

    engine = create_async_engine("postgresql+asyncpg://", async_creator=creator)
    waits = False
    try:
        while not await _try_to_migrate(engine):
            if not waits:
                log.warning(
                    "The upgrade of the database waits for a session that reads its tables, such as a backup."
                )
            waits = True
            await asyncio.sleep(LOCK_PAUSE)
    finally:
        await engine.dispose()


async def _try_to_migrate(engine: AsyncEngine) -> bool:
    """Migrate. Returns whether all tables could be locked.

    While the migration waits for a lock, every later statement on that table waits too, including heartbeats of nodes.
    So it waits only briefly, and the caller retries.
    """
    try:
        async with engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
            await connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS:g}s'"))
            await connection.run_sync(migrate)
    except StoreError as error:
        cause = error.__cause__
        sqlstate = getattr(cause.orig, "sqlstate", None) if isinstance(cause, DBAPIError) else None
        if sqlstate == asyncpg.LockNotAvailableError.sqlstate:
            return False
        raise
    return True


def _check_encoding(name: str) -> None:
    if name != "UTF8":
        raise StoreError(f"A Postgres database must have the encoding UTF8, and this one has {name}.")


async def inspect_postgres(url: str) -> list[BrokenRow]:
    """Return every broken row, read in pages on one snapshot."""
    found: list[BrokenRow] = []
    try:
        connection = await connect(url, None)  # reading all rows can take long
        try:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for n, (reader, sql) in enumerate(queries("postgresql")):
                # A name per query: asyncpg prepares FETCH by its text, and several queries can read one table.
                cursor = f"rows_{n}"
                await connection.execute(f"DECLARE {cursor} NO SCROLL CURSOR FOR {sql}")
                while page := await connection.fetch(f"FETCH {PAGE} FROM {cursor}"):
                    found += reader.broken([tuple(row) for row in page])
                await connection.execute(f"CLOSE {cursor}")
            await connection.execute("COMMIT")
        finally:
            await connection.close()
    except FAULTS as error:
        raise store_error(error) from error
    return found
