"""Opening a journal on Postgres. Needs the extra `postgres`."""

from typing import Any

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from toolwright.adapters.store.engine.outcome import Publish
from toolwright.adapters.store.migrate import migrate
from toolwright.adapters.store.postgres.connection import (
    FAULTS,
    Connection,
    Limits,
    connect,
    connect_pools,
    store_error,
)
from toolwright.adapters.store.postgres.driver import PostgresDriver
from toolwright.adapters.store.schema import READ_REVISION, is_current
from toolwright.adapters.store.store import SqlStore
from toolwright.core.errors import StoreError

MIGRATION_LOCK = 0x746F6F6C_6D696772  # "toolmigr"


async def open_postgres(url: str, publish: Publish, **limits: Any) -> SqlStore:  # the fields of `Limits`
    """The journal in a Postgres database, migrated if need be."""
    chosen = Limits(**limits)
    await upgrade_postgres(url)
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


async def postgres_revision(url: str) -> str | None:
    """The database's revision, None if it has no tables yet."""
    try:
        connection = await connect(url)
        try:
            _check_encoding(await connection.fetchval("SHOW server_encoding"))
            return await connection.fetchval(READ_REVISION)
        except asyncpg.UndefinedTableError:
            return None
        finally:
            await connection.close()
    except FAULTS as error:
        raise store_error(error) from error


async def upgrade_postgres(url: str) -> None:
    """Migrate the database; safe when several processes do it at once."""
    if not is_current(await postgres_revision(url)):
        try:
            await _migrate_alone(url)
        except FAULTS as error:
            raise store_error(error) from error


async def _migrate_alone(url: str) -> None:
    async def creator() -> Connection:
        return await connect(url, None)  # a migration takes its time

    engine = create_async_engine("postgresql+asyncpg://", async_creator=creator)
    try:
        async with engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
            await connection.run_sync(migrate)
    finally:
        await engine.dispose()


def _check_encoding(name: str) -> None:
    if name != "UTF8":
        raise StoreError(f"A Postgres database must have the encoding UTF8, and this one has {name}.")
