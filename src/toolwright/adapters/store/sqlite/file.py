"""SQLite file of the journal: connection settings, lock waits, free space and backups."""

import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from toolwright.core.errors import InvalidRequest, StoreError
from toolwright.core.text import sentence

BUSY_SECONDS = 30.0  # maximum wait for a lock of another program
NOTICE_SECONDS = 2.0  # wait after which it is logged
RELEASED_AT_ONCE = 256  # pages (4 KiB) released by one transaction
RESERVE = 1024  # free pages kept for the next writes
_SHRINKABLE = "PRAGMA auto_vacuum = INCREMENTAL"
_log = logging.getLogger("toolwright.journal")


def legible(text: bytes) -> str | bytes:
    """Decode a text of the file. Returns the bytes if they are not UTF-8, as after a disk error."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def is_illegible(error: sqlite3.Error) -> bool:
    """Return whether a text could not be decoded."""
    return isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection in WAL mode that syncs every commit."""
    if not path.exists():
        path.touch(mode=0o600)  # readable only by the owner, because it contains conversations
    is_new = path.stat().st_size == 0
    connection = sqlite3.connect(
        path, timeout=NOTICE_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    if is_new:  # only VACUUM can change this in a file with tables
        connection.execute(_SHRINKABLE)
    execute_patiently(connection, path, "PRAGMA journal_mode = WAL")
    set_patience(connection, BUSY_SECONDS)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")  # holds the undo data of savepoints: a third of a commit
    return connection


def free_pages(connection: sqlite3.Connection) -> bool:
    """Return part of the file's free space to the operating system. Returns whether there is more.

    Does nothing in a file that is not shrinkable.
    """
    free = _number(connection, "freelist_count")
    if free <= RESERVE:
        return False
    # one row per page
    connection.execute(f"PRAGMA incremental_vacuum({min(RELEASED_AT_ONCE, free - RESERVE)})").fetchall()
    remaining = _number(connection, "freelist_count")
    if RESERVE < remaining < free:
        return True
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # shortens the file itself
    return False


def is_shrinkable(path: Path) -> bool:
    """Return whether the file can release free space. Files of earlier versions cannot."""
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
        return _number(connection, "auto_vacuum") != 0


def make_shrinkable(path: Path) -> None:
    """Rewrite the file so that it can shrink. Needs free space of the file's size, and exclusive access."""
    with closing(sqlite3.connect(path, timeout=NOTICE_SECONDS, isolation_level=None)) as connection:
        connection.execute(_SHRINKABLE)
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def set_patience(connection: sqlite3.Connection, seconds: float) -> None:
    """Set the number of seconds for which the connection waits for a lock of another program."""
    connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def execute_patiently(connection: sqlite3.Connection, path: Path, statement: str) -> None:
    """Execute a statement that needs a lock, on a connection that waits `NOTICE_SECONDS`.

    If another program holds the lock for longer, this is logged and the statement waits up to `BUSY_SECONDS`. Raises
    `sqlite3.OperationalError` then.
    """
    try:
        connection.execute(statement)
        return
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
    _log.warning("The database %s is locked by another program. Waiting up to %.0f s.", path, BUSY_SECONDS)
    set_patience(connection, BUSY_SECONDS - NOTICE_SECONDS)
    try:
        connection.execute(statement)
    finally:
        set_patience(connection, NOTICE_SECONDS)


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
