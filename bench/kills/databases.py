"""Databases of a measurement: a file of SQLite, or a new database of a Postgres server that waits for the disk."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.postgres_server import database_url, server_url

from bench.kills.systems import System
from toolwright.adapters.store.postgres.connection import connect

_numbers = count(1)


@contextmanager
def new_database(system: System, folder: Path) -> Generator[str]:
    """Yield the URL of an empty database."""
    if system.database == "SQLite":
        yield f"sqlite:///{folder}/{system.worker}.db"
        return
    name = f"kills_{next(_numbers)}"
    asyncio.run(_execute(f"CREATE DATABASE {name}"))
    try:
        yield database_url(name).replace("postgresql", system.driver, 1)
    finally:
        asyncio.run(_execute(f"DROP DATABASE {name} WITH (FORCE)"))


def postgres_version() -> str:
    """Return the version of the Postgres server. Raises RuntimeError if it does not wait for the disk."""
    return asyncio.run(_version())


async def _execute(statement: str) -> None:
    admin = await connect(server_url())
    try:
        await admin.execute(statement)
    finally:
        await admin.close()


async def _version() -> str:
    admin = await connect(server_url())
    try:
        for setting in ("fsync", "synchronous_commit"):
            if await admin.fetchval(f"SHOW {setting}") != "on":
                raise RuntimeError(f"The Postgres server has {setting} off.")
        return str(await admin.fetchval("SHOW server_version"))
    finally:
        await admin.close()
