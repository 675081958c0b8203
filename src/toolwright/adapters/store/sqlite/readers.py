"""Readers of an SQLite journal: a few threads with one connection each, in addition to the writer."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeAlias, TypeVar

from toolwright.adapters.store.engine.codecs import Row, size_of
from toolwright.adapters.store.engine.program import Op, Reading, drive, is_page
from toolwright.adapters.store.sqlite.file import connect, is_illegible, legible
from toolwright.core.errors import StoreError
from toolwright.core.limits import PAGE_BYTES
from toolwright.core.text import sentence

T = TypeVar("T")
_Read: TypeAlias = Callable[[], Reading[T]]

READERS = 4


class SqliteReaders:
    """Runs reads, each on one snapshot of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(READERS, "toolwright-reader")

    async def read(self, reading: _Read[T]) -> T:
        return await self._in_thread(self._read, reading)

    async def snapshot(self, reading: _Read[T]) -> T:
        return await self._in_thread(self._snapshot, reading)

    async def _in_thread(self, read: Callable[[_Read[T]], T], reading: _Read[T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, read, reading)
        except (sqlite3.Error, RuntimeError) as error:  # RuntimeError: the threads are shut down
            raise StoreError(sentence(f"The journal cannot be read: {error}")) from error

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        for connection in self._connections:
            connection.close()

    def _read(self, reading: _Read[T]) -> T:
        """Run the read. If a text is not UTF-8, retry with bytes, so that its row is reported as broken."""
        connection = self._connection()
        try:
            return self._run(connection, reading())
        except sqlite3.OperationalError as error:
            if not is_illegible(error):
                raise
        connection.text_factory = legible
        try:
            return self._run(connection, reading())
        finally:
            connection.text_factory = str

    def _run(self, connection: sqlite3.Connection, steps: Reading[T]) -> T:
        def run(op: Op) -> list[Row]:
            cursor = connection.execute(op.statement.sql, op.statement.bind(op.params))
            return _page(cursor) if is_page(op) else cursor.fetchall()

        return drive(steps, run)

    def _snapshot(self, reading: _Read[T]) -> T:
        connection = self._connection()
        connection.execute("BEGIN")
        try:
            return self._read(reading)
        finally:
            connection.execute("ROLLBACK")

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path)
            connection.execute("PRAGMA query_only = ON")
            self._connections.append(connection)
        return connection


def _page(cursor: sqlite3.Cursor) -> list[Row]:
    """Return rows up to the size of a page. Later rows are not fetched."""
    rows, size = list[Row](), 0
    with closing(cursor):
        while size < PAGE_BYTES and (row := cursor.fetchone()) is not None:
            rows.append(row)
            size += size_of(row)
    return rows
