"""Opening a journal, with its migration if necessary; and its inspection, which reports the broken rows."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from itertools import islice
from pathlib import Path

from toolwright.adapters.store.engine.mapping import RowReader
from toolwright.adapters.store.engine.outcome import Publish
from toolwright.adapters.store.engine.program import Compiler, DialectName
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.adapters.store.sql.readers import READERS
from toolwright.adapters.store.sqlite.driver import SqliteDriver
from toolwright.adapters.store.sqlite.file import legible
from toolwright.adapters.store.store import SqlStore
from toolwright.core.broken_rows import BrokenRow
from toolwright.core.errors import StoreError, missing_extra
from toolwright.core.text import sentence

PAGE = 1_000  # rows read at once


async def open_sqlite(path: Path, publish: Publish) -> SqlStore:
    """Open the journal in an SQLite file, created if it does not exist. `publish` receives the committed events."""
    await asyncio.to_thread(upgrade_sqlite, path)
    try:
        return SqlStore(SqliteDriver(path, publish))
    except sqlite3.Error as error:
        raise StoreError(sentence(f"The database file {str(path)!r} cannot be opened: {error}")) from error


async def open_postgres(
    url: str, publish: Publish, *, is_node: bool = False, locks: bool = False, **limits: float
) -> SqlStore:
    """Open the journal in a Postgres database. `publish` receives the committed events.

    `limits` are fields of `postgres.connection.Limits`. A cluster node does not migrate the database. Raises
    `StoreError`, also if this process `locks` the database and a connection pooler is in between.
    """
    try:
        # Imported by name, because asyncpg is installed only with the extra.
        opening = import_module("toolwright.adapters.store.postgres.opening")
    except ImportError as error:
        raise missing_extra("A journal on Postgres", "postgres", error) from error
    store: SqlStore = await opening.open_postgres(url, publish, is_node=is_node, locks=locks, **limits)
    return store


def queries(dialect: DialectName) -> Iterator[tuple[RowReader[object], str]]:
    """Yield each reader, and the query that returns all of its rows."""
    compiled = Compiler(dialect)
    for reader in READERS:
        yield reader, compiled(reader.query).sql


def inspect_sqlite(path: Path) -> list[BrokenRow]:
    """Return every broken row of an SQLite journal. Nothing is written to the file."""
    broken: list[BrokenRow] = []
    try:
        with closing(sqlite3.connect(path, timeout=5.0)) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.text_factory = legible
            for reader, sql in queries("sqlite"):
                cursor = connection.execute(sql)
                while page := list(islice(cursor, PAGE)):
                    broken += reader.broken(page)
    except sqlite3.Error as error:
        raise StoreError(sentence(f"The database file {str(path)!r} cannot be read: {error}")) from error
    return broken
