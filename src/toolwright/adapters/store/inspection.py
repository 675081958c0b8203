"""Inspection of a whole journal: reads all rows and reports the broken ones."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from toolwright.adapters.store.engine.codecs import Row
from toolwright.adapters.store.engine.mapping import Reader
from toolwright.adapters.store.engine.statement import Compiler, DialectName
from toolwright.adapters.store.sql.readers import READERS
from toolwright.adapters.store.sqlite.file import legible
from toolwright.core.broken_rows import BrokenRow
from toolwright.core.errors import StoreError
from toolwright.core.text import sentence

PAGE = 1_000  # rows read at once


def queries(dialect: DialectName) -> Iterator[tuple[Reader[object], str]]:
    """Yield each reader, and the query that returns all of its rows."""
    compiled = Compiler(dialect)
    for reader in READERS:
        yield reader, compiled(reader.query).sql


def broken_in(reader: Reader[object], rows: Sequence[Row]) -> tuple[BrokenRow, ...]:
    """Return the broken rows among the given ones."""
    return reader.each(rows).broken


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
                    broken += broken_in(reader, page)
    except sqlite3.Error as error:
        raise StoreError(sentence(f"The database file {str(path)!r} cannot be read: {error}")) from error
    return broken
