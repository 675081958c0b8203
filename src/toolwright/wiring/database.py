"""The journal from outside: its revision, its migration, and whether a process drives it."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from toolwright.adapters.store.inspection import inspect_sqlite
from toolwright.adapters.store.locks import FileLock, beside
from toolwright.adapters.store.schema import HEAD, READ_REVISION, is_current, upgrade_sqlite
from toolwright.core.broken_rows import BrokenRow
from toolwright.core.errors import MissingExtra, StoreError
from toolwright.core.text import sentence
from toolwright.wiring.settings import Settings

_POSTGRES = "toolwright.adapters.store.postgres"


async def revision(settings: Settings) -> str | None:
    """The database's revision; None if it has no tables yet, or is an SQLite file that is not there.

    Raises `StoreError` if it cannot be read, or newer code has migrated it.
    """
    path = settings.sqlite_path
    found: str | None = HEAD  # of a journal in memory
    if path is not None:
        found = await asyncio.to_thread(_sqlite_revision, path)
    elif not _in_memory(settings):
        found = await _postgres("opening").postgres_revision(settings.database_url)
    is_current(found)
    return found


async def upgrade(settings: Settings) -> str:
    """Bring the database to the newest revision, which is returned; an SQLite file is made if need be."""
    path = settings.sqlite_path
    if path is not None:
        await asyncio.to_thread(upgrade_sqlite, path)
    elif not _in_memory(settings):
        await _postgres("opening").upgrade_postgres(settings.database_url)
    return HEAD


async def owner(settings: Settings) -> str | None:
    """Process that drives the journal at this moment, in words; None if none does."""
    path = settings.sqlite_path
    if _in_memory(settings) or (path is not None and not beside(path, "lock").exists()):
        return None
    lock = FileLock(path) if path is not None else _postgres("lock").PostgresLock(settings.database_url)
    if await lock.acquire():
        await lock.release()
        return None
    return _holder(path) if path is not None else "another process"


async def broken_rows(settings: Settings) -> Sequence[BrokenRow]:
    """Every row of the journal that cannot be read; it must be at the newest revision."""
    path = settings.sqlite_path
    if path is not None:
        return await asyncio.to_thread(inspect_sqlite, path)
    if _in_memory(settings):
        return []
    rows: Sequence[BrokenRow] = await _postgres("inspection").inspect_postgres(settings.database_url)
    return rows


def _in_memory(settings: Settings) -> bool:
    return settings.database_url.startswith("memory:")


def _postgres(part: str) -> Any:  # a module loaded by name has no static type
    try:
        return import_module(f"{_POSTGRES}.{part}")  # by name: asyncpg is there only with the extra
    except ImportError as error:
        raise MissingExtra("A journal on Postgres needs an extra: install toolwright[postgres].") from error


def _sqlite_revision(path: Path) -> str | None:
    if not path.exists():
        if not path.absolute().parent.is_dir():
            raise StoreError(f"The database {str(path)!r} cannot be made: its folder is not there.")
        return None
    try:
        with closing(sqlite3.connect(path, timeout=5.0)) as connection:
            if not connection.execute(
                "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"
            ).fetchone():
                return None
            found = connection.execute(READ_REVISION).fetchone()
    except sqlite3.Error as error:
        raise StoreError(sentence(f"The database file {str(path)!r} cannot be read: {error}")) from error
    return None if found is None else str(found[0])


def _holder(path: Path) -> str:
    """The process that holds the file's lock, by its id where the system tells it."""
    inode = beside(path, "lock").stat().st_ino
    try:
        held = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return "another process"
    for fields in map(str.split, held):  # "1: FLOCK ADVISORY WRITE <pid> <device>:<inode> 0 EOF"
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            return f"process {fields[4]}"
    return "another process"
