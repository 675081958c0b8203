"""Backup: a consistent copy of an SQLite file, while others write to it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from toolwright.adapters.store.sqlite.file import BUSY_SECONDS
from toolwright.core.errors import InvalidRequest, StoreError
from toolwright.core.text import sentence


def copy_database(source: Path, target: Path) -> None:
    """Copy a snapshot of the committed data to a new file, readable only by its owner. Synced to disk on return.

    In WAL mode the copy reads concurrently with writers, which do not wait for it.
    """
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
    try:
        with (
            closing(sqlite3.connect(source, timeout=BUSY_SECONDS)) as read,
            closing(sqlite3.connect(target)) as written,
        ):
            read.backup(written)
    except sqlite3.Error as error:
        raise StoreError(sentence(f"The database file {str(source)!r} cannot be copied: {error}")) from error
    merge_wal(target)


def merge_wal(path: Path) -> None:
    """Merge the write-ahead log into a database file that is not open, so that the file is complete.

    Raises `InvalidRequest` if the file is not a database, and `StoreError` if it is in use.
    """
    try:
        with closing(sqlite3.connect(path, timeout=0.0)) as connection:
            [(mode,)] = connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise InvalidRequest(f"{str(path)!r} is not a database. Name another file.") from error
        raise StoreError(sentence(f"The database file {str(path)!r} is in use: {error}")) from error
    if mode != "delete":
        raise StoreError(f"The database file {str(path)!r} is in use.")
