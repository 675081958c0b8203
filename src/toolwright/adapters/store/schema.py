"""The revision of a database, and its way to the newest. A database that is there already costs one query."""

import fcntl
import os
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path

from toolwright.adapters.store.locks import beside
from toolwright.core.errors import StoreError
from toolwright.core.text import sentence

REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
    "0015",
    "0016",
    "0017",
    "0018",
)  # oldest first; a test compares them with the files in migrations/versions
HEAD = REVISIONS[-1]
READ_REVISION = "SELECT version_num FROM alembic_version"


def is_current(revision: str | None) -> bool:
    """Whether the database needs no migration. One that newer code has migrated is refused."""
    if revision is not None and revision not in REVISIONS:
        raise StoreError(
            f"The database is at revision {revision!r}, which this version of toolwright does not know "
            f"(its newest is {HEAD!r}): install the version that migrated it, or a later one."
        )
    return revision == HEAD


def upgrade_sqlite(path: Path) -> None:
    """Make or migrate an SQLite file; safe when several processes do it at once."""
    _check_place(path)
    try:
        if not is_current(_sqlite_revision(path)):
            _migrate_alone(path)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(sentence(f"The database file {str(path)!r} cannot be opened: {error}")) from error


def _migrate_alone(path: Path) -> None:
    with beside(path, "migrate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current(_sqlite_revision(path)):
            # Loaded by name: alembic takes longer to load than everything else a start needs.
            import_module("toolwright.adapters.store.migrate").migrate_sqlite(path)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise StoreError(f"The database {str(path)!r} is a folder: name a file.")
    if not path.parent.is_dir():
        raise StoreError(f"The database {str(path)!r} cannot be made: its folder is not there.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise StoreError(f"The database {str(path)!r} cannot be written by this user.")


def _sqlite_revision(path: Path) -> str | None:
    if not path.exists():
        return None
    with closing(sqlite3.connect(path, timeout=30.0)) as connection:
        try:
            found = connection.execute(READ_REVISION).fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None
            raise
    return None if found is None else str(found[0])
