"""An SQLite file as the journal wants it opened."""

import logging
import sqlite3
from pathlib import Path

BUSY_SECONDS = 30.0  # for which a lock of another program is waited for
NOTICE_SECONDS = 2.0  # of them, after which the log says so
_log = logging.getLogger("toolwright.journal")


def legible(text: bytes) -> str | bytes:
    """A text of the file; its bytes if they are no UTF-8, as after a fault of the disk."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def is_illegible(error: sqlite3.Error) -> bool:
    """Whether a text could not be decoded."""
    return isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error)


def connect(path: Path) -> sqlite3.Connection:
    """A connection in WAL mode that syncs every commit."""
    if not path.exists():
        path.touch(mode=0o600)  # for its owner alone, as conversations are
    connection = sqlite3.connect(
        path, timeout=NOTICE_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    execute_patiently(connection, path, "PRAGMA journal_mode = WAL")
    set_patience(connection, BUSY_SECONDS)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")  # where savepoints keep their undo: a third of a commit
    return connection


def set_patience(connection: sqlite3.Connection, seconds: float) -> None:
    """Set how long statements of the connection wait for a lock of another program."""
    connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def execute_patiently(connection: sqlite3.Connection, path: Path, statement: str) -> None:
    """Execute a statement that needs a lock, on a connection that waits `NOTICE_SECONDS`.

    If another program holds the lock for longer, the log says so and the statement waits up to `BUSY_SECONDS`. Raises
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
