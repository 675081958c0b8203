"""Opening a journal on Postgres. Needs the extra `postgres`."""

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from toolwright.adapters.store.migrate import migrate
from toolwright.adapters.store.postgres import PostgresDriver
from toolwright.adapters.store.postgres_connection import Connection, connect, connect_pool
from toolwright.adapters.store.postgres_faults import store_error
from toolwright.adapters.store.schema import READ_REVISION, is_current
from toolwright.adapters.store.sql import SqlStore
from toolwright.adapters.store.written import Publish
from toolwright.core.errors import StoreError

MIGRATION_LOCK = 0x746F6F6C_6D696772  # "toolmigr"


async def open_postgres(url: str, publish: Publish) -> SqlStore:
    """The journal in a Postgres database, migrated if need be."""
    try:
        await upgrade_postgres(url)
        pool = await connect_pool(url)
    except StoreError:
        raise
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise store_error(error) from error
    return SqlStore(PostgresDriver(pool, publish))


async def upgrade_postgres(url: str) -> None:
    """Migrate the database; safe when several processes do it at once."""
    connection = await connect(url)
    try:
        revision = await connection.fetchval(READ_REVISION)
    except asyncpg.UndefinedTableError:
        revision = None
    finally:
        await connection.close()
    if not is_current(revision):
        await _migrate_alone(url)


async def _migrate_alone(url: str) -> None:
    async def creator() -> Connection:
        return await connect(url)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=creator)
    async with engine.begin() as connection:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        await connection.run_sync(migrate)
    await engine.dispose()
