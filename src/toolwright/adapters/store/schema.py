"""The revision of a database and its migration to the newest. Opening a current database costs one query."""

import ast
import fcntl
import os
import re
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path

from toolwright.adapters.store.locks import beside, give_to_owner
from toolwright.core.errors import StoreError
from toolwright.core.text import sentence

VERSIONS = Path(__file__).parent / "migrations" / "versions"
REVISIONS = tuple(sorted(path.name[:4] for path in VERSIONS.glob("0*.py")))  # oldest first
HEAD = REVISIONS[-1]
MIN_REVISION = "0024"
"""The oldest revision whose code can use a database at `HEAD`.

A migration that only adds to the schema does not change it, so that processes of the previous version continue during
an upgrade. A migration that removes or changes anything that older code uses sets it to its own revision.
"""
_NUMBER = re.compile(r"\d{4}", re.ASCII)
READ_REVISION = "SELECT version_num FROM alembic_version"
READ_LEAST = "SELECT least FROM compatibility"


def is_current(revision: str | None, least: str | None = None) -> bool:
    """Return whether the database needs no migration by this code.

    `least` is the oldest revision whose code can use the database, if newer code has migrated it. Raises `StoreError`
    if this code cannot use it.
    """
    if revision is None or revision in REVISIONS:
        return revision == HEAD
    is_newer = _NUMBER.fullmatch(revision) is not None and revision > HEAD
    if is_newer and least in REVISIONS:
        return True
    raise StoreError(
        f"The database is at revision {revision!r}, which this version of toolwright does not know "
        f"(its newest is {HEAD!r}): install the version that migrated it, or a later one."
    )


def steps_after(revision: str | None) -> list[tuple[str, str]]:
    """Return the revisions after the given one, oldest first, each with its description."""
    missing = [each for each in REVISIONS if revision is None or each > revision]
    steps: list[tuple[str, str]] = []
    for each in missing:
        [written] = VERSIONS.glob(f"{each}_*.py")
        steps.append((each, ast.get_docstring(ast.parse(written.read_text(encoding="utf-8"))) or ""))
    return steps


def upgrade_sqlite(path: Path) -> None:
    """Create or migrate an SQLite file; safe when several processes do it at once."""
    _check_place(path)
    try:
        if not is_current(*sqlite_revision(path)):
            _migrate_alone(path)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(sentence(f"The database file {str(path)!r} cannot be opened: {error}")) from error


def _migrate_alone(path: Path) -> None:
    with beside(path, "migrate.lock").open("w") as lock:
        give_to_owner(lock.fileno(), path)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current(*sqlite_revision(path)):
            # Imported by name: loading alembic takes longer than the rest of the startup.
            import_module("toolwright.adapters.store.migrate").migrate_sqlite(path)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise StoreError(f"The database {str(path)!r} is a folder: name a file.")
    if not path.parent.is_dir():
        raise StoreError(f"The database {str(path)!r} cannot be created: its folder does not exist.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise StoreError(f"The database {str(path)!r} cannot be written by this user.")


def sqlite_revision(path: Path) -> tuple[str | None, str | None]:
    """Return the file's revision, or None if it has no tables yet, and `least` of `is_current` for a newer revision."""
    if not path.exists():
        return None, None
    with closing(sqlite3.connect(path, timeout=30.0)) as connection:
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if "alembic_version" not in tables:
            return None, None
        [revision] = connection.execute(READ_REVISION).fetchone() or [None]
        if revision is None or revision in REVISIONS or "compatibility" not in tables:
            return revision, None
        [least] = connection.execute(READ_LEAST).fetchone() or [None]
        return revision, least
