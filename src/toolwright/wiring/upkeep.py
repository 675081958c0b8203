"""Upkeep of a journal by the command line: revision, migration, threads and runs, and its executors."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from toolwright.adapters.bus.memory import MemoryBus
from toolwright.adapters.motor.manual import ManualClock, ManualMotor
from toolwright.adapters.store.locks import FileLock, beside, holder
from toolwright.adapters.store.opening import inspect_sqlite
from toolwright.adapters.store.schema import (
    HEAD,
    MIN_REVISION,
    is_current,
    sqlite_revision,
    steps_after,
    upgrade_sqlite,
)
from toolwright.adapters.store.sqlite.file import is_shrinkable, make_shrinkable
from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.broken_rows import BrokenRow
from toolwright.core.errors import InvalidRequest, StoreError, missing_extra
from toolwright.core.journal.reads import Depths
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Node, Probe
from toolwright.core.text import quantity, sentence
from toolwright.core.threads.event import Event
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.threads.deletion import Deletion
from toolwright.wiring.app import App
from toolwright.wiring.parts import DefaultParts, check_exists, cipher_of, file_store, open_journal
from toolwright.wiring.settings import MEMORY, Settings

ALONE = "a process without TOOLWRIGHT_CLUSTER executes the runs"
COMMITS = 5  # number of commits that are measured
SECRETS = 1_000  # number of secrets whose keys are compared with the configured ones
_POSTGRES = "toolwright.adapters.store.postgres"


async def revision(settings: Settings, *, locks: bool = False) -> str | None:
    """Return the database's revision, or None if it has no tables yet, or its SQLite file does not exist.

    Raises `StoreError` if it cannot be read, if newer code has migrated it so that this code cannot use it, or if this
    process `locks` it but reaches it through a connection pooler.
    """
    path = settings.sqlite_path
    revisions: tuple[str | None, str | None] = HEAD, None  # of a journal in memory
    if path is not None:
        revisions = await asyncio.to_thread(_sqlite_revision, path)
    elif not _in_memory(settings):
        revisions = await _postgres("opening").postgres_revision(settings.database_url, locks=locks)
    is_current(*revisions)
    return revisions[0]


async def upgrade(settings: Settings) -> str:
    """Migrate the database to the newest revision and return the revision. Creates an SQLite file if needed.

    A database migrated by a newer version is unchanged.
    """
    path = settings.sqlite_path
    if path is not None:
        await asyncio.to_thread(upgrade_sqlite, path)
    elif not _in_memory(settings):
        await _postgres("opening").upgrade_postgres(settings.database_url)
    return await revision(settings) or HEAD


def remains_usable(revision: str) -> bool:
    """Return whether processes of the version at that revision can use the database after the upgrade."""
    return revision >= MIN_REVISION


def steps(revision: str | None) -> list[tuple[str, str]]:
    """Return the migrations that a database at this revision needs, each with a sentence that describes it."""
    return steps_after(revision)


async def shrinkable(settings: Settings) -> str | None:
    """Rewrite an SQLite file of an earlier version so that it can shrink. Return what was done or what prevents it.

    Returns None if there is nothing to do. Raises `StoreError`.
    """
    path = settings.sqlite_path
    if path is None or await asyncio.to_thread(is_shrinkable, path):
        return None
    size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
    if free < 3 * size:
        return f"The file cannot shrink yet: rewriting it needs {3 * size} bytes on the disk, but only {free} are free."
    lock = FileLock(path)
    if not await lock.acquire():
        return f"The file cannot shrink yet: {holder(path)} serves it. Stop the server and upgrade again."
    try:
        await asyncio.to_thread(make_shrinkable, path)
    except sqlite3.Error as error:
        return sentence(f"The file cannot shrink yet: {error}")
    finally:
        await lock.release()
    return "The file was rewritten. From now on it shrinks after large deletions."


async def executors(settings: Settings) -> str | None:
    """Return a clause that names the processes currently executing runs, or None if there are none."""
    path = settings.sqlite_path
    if _in_memory(settings) or (path is not None and not beside(path, "lock").exists()):
        return None
    if path is None:
        executors_seen = await _postgres("locks").look_for_executors(settings.database_url)
        if executors_seen.nodes:
            verb = "executes" if executors_seen.nodes == 1 else "execute"
            return f"{quantity(executors_seen.nodes, 'node')} of a cluster {verb} the runs"
        alone = "another process executes the runs" if settings.cluster is None else ALONE
        return alone if executors_seen.is_locked else None
    lock = FileLock(path)
    if await lock.acquire():
        await lock.release()
        return None
    return f"{holder(path)} executes the runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The nodes of a database and its pending work, at the time `now` of the database's clock.

    `is_locked` is true if a process without a cluster executes the runs.
    """

    nodes: Sequence[Node] = ()
    depths: Depths = field(default_factory=lambda: Depths(pending_calls=0, inbox_events=0))
    now: datetime
    is_locked: bool = False

    @property
    def living(self) -> list[Node]:
        """Return the nodes with a recent heartbeat."""
        return [node for node in self.nodes if node.is_alive(self.now)]


async def cluster(settings: Settings) -> Cluster:
    """Return the nodes of the cluster and the pending work, regardless of this process's files and keys."""
    if not settings.database_url.startswith("postgres"):
        return Cluster(now=datetime.now(UTC))
    if await revision(settings) is None:
        return Cluster(now=datetime.now(UTC))  # an empty database stays empty

    def ignore(_: Sequence[Event]) -> None:
        """Do nothing: no units are committed."""

    opening = _postgres("opening")
    store: Store = await opening.open_postgres(settings.database_url, ignore, is_node=True)
    try:
        nodes, depths, now = await store.nodes(), await store.depths(), await store.now()
    finally:
        await store.close()
    seen = await _postgres("locks").look_for_executors(settings.database_url)
    return Cluster(nodes=nodes, depths=depths, now=now, is_locked=seen.is_locked)


async def broken_rows(settings: Settings) -> Sequence[BrokenRow]:
    """Return every row of the journal that cannot be read. The journal must be at the newest revision."""
    path = settings.sqlite_path
    if path is not None:
        return await asyncio.to_thread(inspect_sqlite, path)
    if _in_memory(settings):
        return []
    rows: Sequence[BrokenRow] = await _postgres("opening").inspect_postgres(settings.database_url)
    return rows


async def commit_seconds(settings: Settings, monotonic: Callable[[], float]) -> float:
    """Return the median time of a commit. Raises `StoreError` if the journal cannot be written."""
    if _in_memory(settings):
        return 0.0
    times: list[float] = []
    async with _opened(settings) as store:
        for _ in range(COMMITS):
            started = monotonic()
            await store.commit(Probe(token=new_id("unit"), at=SystemClock().now()))
            times.append(monotonic() - started)
    return median(times)


async def unreadable_secrets(settings: Settings) -> int:
    """Return the number of secrets that the encryption keys cannot decrypt: at most `SECRETS`, 0 for an older journal.

    Raises `CannotSeal` if the key file cannot be read.
    """
    if _in_memory(settings) or await revision(settings) != HEAD:
        return 0
    cipher = cipher_of(settings)
    keys = cipher.keys
    async with _opened(settings) as store:
        rows = await store.sealed_otherwise(cipher.key or "", SECRETS)
    return sum([row.key not in keys for row in rows])


def _in_memory(settings: Settings) -> bool:
    return settings.database_url.startswith("memory:")


def _postgres(part: str) -> Any:  # a module loaded by name has no static type
    try:
        return import_module(f"{_POSTGRES}.{part}")  # lazily: asyncpg is installed only with the extra
    except ImportError as error:
        raise missing_extra("A journal on Postgres", "postgres", error) from error


def _sqlite_revision(path: Path) -> tuple[str | None, str | None]:
    if not path.absolute().parent.is_dir():
        raise StoreError(f"The database {str(path)!r} cannot be created: its folder does not exist.")
    try:
        return sqlite_revision(path)
    except sqlite3.Error as error:
        raise StoreError(sentence(f"The database file {str(path)!r} cannot be read: {error}")) from error


async def delete_thread(settings: Settings, thread_id: str, *, cancel: bool) -> None:
    """Delete a thread of the settings' journal; see `Threads.delete`.

    A run is cancelled by the process that executes it, which reads the request in the journal.
    """
    async with _opened(settings) as store:
        files = file_store(settings)
        try:
            deletion = Deletion(store, _tell_nobody, MemoryBus(), files, SystemClock(), new_id)
            await deletion.delete(thread_id, cancel=cancel)
        finally:
            await files.close()


@asynccontextmanager
async def opened_runtime(settings: Settings, app: App) -> AsyncGenerator[Runtime]:
    """Yield the app's runtime on the settings' journal, without executing runs: other processes execute them.

    Its threads, runs and prompts can be read and changed.
    """
    async with _opened(settings) as store:
        motor = ManualMotor(store, ManualClock())  # never triggered: no run is executed here
        parts = DefaultParts(store=store, motor=motor, bus=MemoryBus())
        yield Runtime(app.catalog, parts, settings)


@asynccontextmanager
async def importing_runtime(settings: Settings, app: App) -> AsyncGenerator[Runtime]:
    """Yield the app's runtime like `opened_runtime`, with its files. A missing database is created."""
    await upgrade(settings)
    async with _opened(settings) as store:
        files = file_store(settings)
        parts = DefaultParts(
            store=store,
            motor=ManualMotor(store, ManualClock()),
            bus=MemoryBus(),
            clock=SystemClock(),
            files=files,
        )
        try:
            yield Runtime(app.catalog, parts, settings)
        finally:
            await files.close()


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncGenerator[Store]:
    """Yield the journal, which must exist. Raises `InvalidRequest` for a journal in memory."""
    if settings.database_url.startswith(MEMORY):
        raise InvalidRequest("A journal in memory belongs to one process: it cannot be reached from here.")
    if settings.sqlite_path is not None:
        check_exists(settings.sqlite_path)
    store, _ = await open_journal(settings, _tell_nobody)
    try:
        yield store
    finally:
        await store.close()


def _tell_nobody(_: str | Sequence[Event]) -> None:
    """Do nothing: workers and followers read wake-ups and events from the journal."""
