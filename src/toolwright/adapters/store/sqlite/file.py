"""An SQLite file as the journal wants it opened."""

import sqlite3
from pathlib import Path

BUSY_SECONDS = 30.0


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
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")  # where savepoints keep their undo: a third of a commit
    return connection
