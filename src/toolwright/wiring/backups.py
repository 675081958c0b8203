"""Backup and restore of a journal in an SQLite file, with its files and its key.

A copy has the layout that a server expects for that database file: the database, `<file>.files` and `<file>.key`. It is
assembled in the folder `<file>.partial` and moved from there, the database last. The bytes of a file never change, so
additional ones do not harm an older copy: it stays complete until the new database replaces it.
"""

import asyncio
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from glob import escape
from pathlib import Path

from toolwright.adapters.store.locks import FileLock, beside, holder, is_open
from toolwright.adapters.store.schema import HEAD, is_current, sqlite_revision
from toolwright.adapters.store.sqlite.file import copy_database, merge_wal
from toolwright.adapters.system import SystemClock
from toolwright.core.errors import AlreadyExists, InvalidRequest, NotFound, StoreError
from toolwright.core.ports import FileStore
from toolwright.core.text import sentence
from toolwright.core.value import Value
from toolwright.wiring.parts import check_exists, file_store, key_file
from toolwright.wiring.settings import MEMORY, Settings

POSTGRES = (
    "This command cannot back up a journal on Postgres. Use pg_dump, and also copy the files ({files}) and "
    "TOOLWRIGHT_ENCRYPTION_KEYS, without which the secrets cannot be decrypted."
)
POSTGRES_RESTORE = (
    "This command restores a journal in an SQLite file. Restore a dump of Postgres with pg_restore into an empty "
    "database, and set TOOLWRIGHT_DATABASE_URL to that database."
)
_PARTS = ("-wal", "-shm", "-journal", ".lock", ".migrate.lock", ".key", ".files", ".partial")


class Backup(Value):
    """A finished backup: its size in bytes without files, the number of its files, and the damaged files."""

    size: int
    files: int
    damaged: tuple[str, ...]
    has_key: bool


async def back_up(settings: Settings, target: Path, *, force: bool) -> Backup:
    """Copy the settings' journal to `target`. An existing backup is replaced only with `force`.

    Raises `InvalidRequest` for a journal that is not a file, `AlreadyExists` if the target exists, `StoreError` if
    something cannot be read or written.
    """
    source = _source(settings)
    _check_target(source, target, force=force)
    _check_not_in_use(settings, source, target)
    try:
        with _partial(target) as partial:
            return await _copy(settings, source, target, partial)
    except OSError as error:
        raise StoreError(sentence(f"The backup cannot be written: {error}")) from error


def _source(settings: Settings) -> Path:
    path = settings.sqlite_path
    if path is None:
        if settings.database_url.startswith(MEMORY):
            raise InvalidRequest("A journal in memory belongs to one process: there is nothing to back up.")
        raise InvalidRequest(
            POSTGRES.format(files=settings.files_url or f"the folder {settings.files_folder}")
        )
    check_exists(path)
    return path


def _check_not_in_use(settings: Settings, source: Path, target: Path) -> None:
    """Reject a target that SQLite, a server, or the file store would treat as a part of the journal itself."""
    place, database = target.resolve(), source.resolve()
    folder = None if settings.files_folder is None else settings.files_folder.resolve()
    parts = {database.with_name(f"{database.name}{ending}") for ending in _PARTS} | {folder}
    if place in parts or folder in place.parents or beside(target, "files") == folder:
        raise InvalidRequest(
            f"{str(target)!r} belongs to the journal that is being backed up. Name another file."
        )


def _check_target(source: Path, target: Path, *, force: bool) -> None:
    if not target.parent.is_dir():
        raise InvalidRequest(f"The backup {str(target)!r} cannot be created: its folder does not exist.")
    if target.is_dir():
        raise InvalidRequest(f"The backup {str(target)!r} is a folder. Name a file.")
    if target.resolve() == source.resolve():
        raise InvalidRequest("The backup cannot be written to the database itself. Name another file.")
    unfinished = beside(target, "partial").exists()  # files moved by an interrupted backup are ours
    in_the_way = [each for each in (target, beside(target, "files"), beside(target, "key")) if each.exists()]
    if in_the_way and not force and (target.exists() or not unfinished):
        raise AlreadyExists(
            f"{str(in_the_way[0])!r} already exists. Name another file, or replace it with --force."
        )


@contextmanager
def _partial(target: Path) -> Generator[Path]:
    """Yield a new private folder in which the backup is assembled. It is removed afterwards."""
    folder = beside(target, "partial")
    folder.mkdir(mode=0o700, exist_ok=True)
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError as error:
        raise AlreadyExists(
            f"Another backup to {str(target)!r} is in progress. Wait for it to finish."
        ) from error
    finally:
        os.close(opened)


async def _copy(settings: Settings, source: Path, target: Path, partial: Path) -> Backup:
    """Copy the journal and return the backup.

    Files are copied before the database and again after it: every file in the database existed at one of these times.
    """
    files, placed = file_store(settings), beside(target, "files")
    folder = str(placed if placed.is_dir() else partial / "files")
    copies = _Copies(file_store(settings.model_copy(update={"files_url": folder})))
    await copies.add(files)
    database = partial / "database"
    await asyncio.to_thread(copy_database, source, database)
    await copies.add(files)
    await files.close()
    key = key_file(settings)
    has_key = key is not None and await asyncio.to_thread(_copy_key, key, partial / "key")
    size = database.stat().st_size
    await _place(target, partial, has_key=has_key)
    await copies.drop_others()
    return Backup(size=size, files=len(copies.seen), damaged=tuple(sorted(copies.damaged)), has_key=has_key)


class _Copies:
    """The files of a backup: added to the files of an older backup if there is one, which are not changed."""

    def __init__(self, copies: FileStore) -> None:
        self._copies = copies
        self.seen: set[str] = set()
        self.damaged: set[str] = set()

    async def add(self, files: FileStore) -> None:
        """Copy all existing files. A file that is deleted in the meantime is skipped."""
        async for digest in files.digests():
            if digest in self.seen:
                continue
            with suppress(NotFound):
                if await self._copies.put(await files.get(digest)) != digest:
                    self.damaged.add(digest)
                self.seen.add(digest)

    async def drop_others(self) -> None:
        """Delete the files of an older backup."""
        for digest in [each async for each in self._copies.digests()]:
            if digest not in self.seen:
                await self._copies.remove(digest, SystemClock().now() + timedelta(days=1))


def _copy_key(key: Path, target: Path) -> bool:
    try:
        content = key.read_bytes()
    except FileNotFoundError:
        return False
    _write_key(target, content if content.endswith(b"\n") else content + b"\n")
    return True


def _write_key(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


async def _place(target: Path, partial: Path, *, has_key: bool) -> None:
    """Move the parts to their places, the database last. An existing database must not be in use."""
    lock, was_there = FileLock(target), beside(target, "lock").exists()
    if not await lock.acquire():
        raise AlreadyExists(f"A process is serving {str(target)!r}. Stop it, or name another file.")
    try:
        await asyncio.to_thread(move_parts, target, partial, has_key=has_key)
    finally:
        if not was_there:
            beside(target, "lock").unlink()
        await lock.release()


def move_parts(target: Path, partial: Path, *, has_key: bool) -> None:
    """Move the parts of a backup from its folder to their places.

    Until the database is in place, the key file also has the keys of an older copy.
    """
    key = beside(target, "key")
    if target.exists():
        merge_wal(target)
    if (partial / "files").exists():
        (partial / "files").rename(beside(target, "files"))
    if has_key:
        if key.exists():
            _write_key(partial / "keys", (partial / "key").read_bytes() + key.read_bytes())
            (partial / "keys").replace(key)
        else:
            (partial / "key").replace(key)
    (partial / "database").replace(target.resolve())
    if not has_key:
        key.unlink(missing_ok=True)
    elif (partial / "key").exists():
        (partial / "key").replace(key)
    _sync(target.resolve().parent)


def _sync(folder: Path) -> None:
    """Write the names of the folder's files to the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Restored(Value):
    """A finished restore: the database's size in bytes, the number of its files, and what is missing or damaged.

    `aside` is the folder with the previous database, or None if there was none. `missing` counts files of the database
    whose bytes are in no file store. `key` tells whose key file is used: the backup's, the previous one, or none.
    """

    size: int
    files: int
    damaged: tuple[str, ...]
    missing: int
    key: str | None
    aside: Path | None


async def restore(settings: Settings, source: Path) -> Restored:
    """Replace the settings' journal with the backup `source`. Everything of the previous one is moved aside.

    The backup is copied and checked before anything is moved. Raises `InvalidRequest` if the journal is not an SQLite
    file, or is in use, or if `source` is not a backup, and `StoreError` if the backup is damaged or cannot be read.
    """
    database = _place_to_restore(settings, source)
    lock = FileLock(database)
    if not await lock.acquire():
        who = holder(database)
        raise InvalidRequest(f"{who[:1].upper()}{who[1:]} serves {str(database)!r}. Stop it, then restore.")
    try:
        if is_open(database):
            raise InvalidRequest(f"Another process has {str(database)!r} open. Stop it, then restore.")
        with _partial(database) as partial:
            return await _restore(settings, source, database, partial)
    except OSError as error:
        raise StoreError(sentence(f"The backup cannot be restored: {error}")) from error
    finally:
        await lock.release()


def _place_to_restore(settings: Settings, source: Path) -> Path:
    """Return the settings' database file, to be replaced with `source`."""
    path = settings.sqlite_path
    if path is None:
        is_memory = settings.database_url.startswith(MEMORY)
        raise InvalidRequest("A journal in memory cannot be restored." if is_memory else POSTGRES_RESTORE)
    if not source.is_file():
        raise NotFound(f"There is no backup {str(source)!r}.")
    if not path.absolute().parent.is_dir():
        raise InvalidRequest(f"The database {str(path)!r} cannot be restored: its folder does not exist.")
    database = path.resolve()
    if source.resolve() in {database, *[database.with_name(f"{database.name}{each}") for each in _PARTS]}:
        raise InvalidRequest(f"{str(source)!r} belongs to the database itself. Name a backup.")
    return database


async def _restore(settings: Settings, source: Path, database: Path, partial: Path) -> Restored:
    copy = partial / "database"
    await asyncio.to_thread(copy_database, source, copy)
    digests = await asyncio.to_thread(_checked, source, copy)
    keeps_files = settings.files_url is not None  # in a store of their own, to which bytes are only added
    store = file_store(
        settings if keeps_files else settings.model_copy(update={"files_url": str(partial / "files")})
    )
    copies, backed_up = _Copies(store), beside(source, "files")
    if backed_up.is_dir():
        await copies.add(file_store(settings.model_copy(update={"files_url": str(backed_up)})))
    missing = len(digests - {each async for each in store.digests()}) if digests else 0
    await store.close()
    key = await asyncio.to_thread(_key_to_restore, settings, source, database, partial / "key")
    size = copy.stat().st_size
    aside = await asyncio.to_thread(_exchange, database, partial, keeps_files=keeps_files)
    return Restored(
        size=size,
        files=len(copies.seen),
        damaged=tuple(sorted(copies.damaged)),
        missing=missing,
        key=key,
        aside=aside,
    )


def _checked(source: Path, copy: Path) -> set[str]:
    """Return the digests of the files that the copy of a backup refers to. Raises `StoreError` if it is unusable."""
    try:
        with closing(sqlite3.connect(copy)) as connection:
            [(verdict,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
            if verdict != "ok":
                raise StoreError(sentence(f"The backup {str(source)!r} is damaged: {verdict}"))
        revision, least = sqlite_revision(copy)
        if revision is None:
            raise InvalidRequest(f"{str(source)!r} is not a database of Toolwright. Name another file.")
        if not is_current(revision, least) or revision != HEAD:
            return set()  # tables of another revision
        with closing(sqlite3.connect(copy)) as connection:
            return {digest for (digest,) in connection.execute("SELECT DISTINCT digest FROM files")}
    except sqlite3.Error as error:
        raise StoreError(sentence(f"The backup {str(source)!r} cannot be read: {error}")) from error


def _key_to_restore(settings: Settings, source: Path, database: Path, target: Path) -> str | None:
    """Copy the key file of the backup, or the previous one if the backup has none. Return whose it is."""
    if key_file(settings) is None:
        return None
    if _copy_key(beside(source, "key"), target):
        return "backup"
    return "previous" if _copy_key(beside(database, "key"), target) else None


def _exchange(database: Path, partial: Path, *, keeps_files: bool) -> Path | None:
    """Move the parts of the previous database aside and the restored ones in their places. Return the folder aside.

    The previous database is moved first and the restored one last. If this process is killed in between, there is no
    database, and never one with the write-ahead log of another.
    """
    endings = ("", "-wal", "-shm", "-journal", ".key", *(() if keeps_files else (".files",)))
    parts = [part for each in endings if (part := database.with_name(f"{database.name}{each}")).exists()]
    aside = _folder_aside(database, parts) if parts else None
    if os.geteuid() == 0:  # the server's user must be able to use what root restores
        owner = (database if database.exists() else database.parent).stat()
        for part in [beside(database, "lock"), partial, *([] if aside is None else [aside])]:
            for each in [part, *part.rglob("*")]:
                os.chown(each, owner.st_uid, owner.st_gid, follow_symlinks=False)
    for part in parts:
        part.rename((aside or partial) / part.name)
    for name, place in (
        ("key", beside(database, "key")),
        ("files", beside(database, "files")),
        ("database", database),
    ):
        if (partial / name).exists():
            (partial / name).rename(place)
    _sync(database.parent)
    return aside


def _folder_aside(database: Path, parts: Sequence[Path]) -> Path:
    """Return the folder to which the parts are moved: a new one, or that of a restore that was killed in between."""
    earlier = sorted(database.parent.glob(f"{escape(database.name)}.replaced-*"))
    if not database.exists() and earlier and not any((earlier[-1] / part.name).exists() for part in parts):
        return earlier[-1]
    folder = beside(database, f"replaced-{SystemClock().now():%Y%m%d-%H%M%S-%f}")
    folder.mkdir(mode=0o700)
    return folder
