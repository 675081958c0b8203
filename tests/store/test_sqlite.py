"""The journal in an SQLite file: its writer, its file, its lock."""

import asyncio
import errno
import os
import resource
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from tests.databases import create_file, sqlite_journal
from tests.play import begun, committed, create_thread, draft, dump, post, settle

from toolwright.adapters.memory import MemoryFiles
from toolwright.adapters.motor.manual import ManualClock
from toolwright.adapters.store.locks import FileLock, NoLock
from toolwright.adapters.store.opening import open_sqlite
from toolwright.adapters.store.postgres.locks import PostgresLock
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.adapters.store.sqlite.driver import SqliteDriver
from toolwright.adapters.store.sqlite.file import connect
from toolwright.adapters.store.store import SqlStore
from toolwright.adapters.system import new_id
from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.journal.units import Committed, Conflict, Result, SubmitResult
from toolwright.core.ports import JournalLock
from toolwright.runtime.health import FRESH, Health

pytestmark = pytest.mark.anyio


class Deadly(SubmitResult):
    """A unit that terminates the thread that reads it."""

    @property
    def outcome(self) -> Literal["resolved"]:
        raise SystemExit("the writer dies")


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def test_when_the_writer_dies_all_waiting_and_later_callers_get_an_error(tmp_path: Path):
    store = await sqlite_journal(tmp_path / "journal.db", lambda _: None)
    drain = await begun(store)
    await drain.answer(call := drain.call("waiting"))
    before = await dump(store)
    units = [settle(Deadly, "th_1", call.id), *(post("th_1") for _ in range(600))]
    outcomes = await asyncio.gather(*(store.commit(unit) for unit in units), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreError}
    with pytest.raises(StoreError):
        await store.commit(post("th_1"))
    assert await dump(store) == before
    await store.close()


async def test_every_commit_is_synced(tmp_path: Path):
    driver = SqliteDriver(tmp_path / "journal.db", lambda _: None)
    assert driver.synchronous == 2
    await driver.close()


async def test_units_that_wait_are_committed_before_the_store_closes(tmp_path: Path):
    store = await sqlite_journal(tmp_path / "journal.db", lambda _: None)
    await create_thread(store)
    commits = [asyncio.create_task(store.commit(post("th_1"))) for _ in range(20)]
    await asyncio.sleep(0)
    await store.close()
    assert {type(outcome) for outcome in await asyncio.gather(*commits)} == {Committed}


async def test_a_unit_that_cannot_be_written_fails_alone(tmp_path: Path):
    store = await sqlite_journal(tmp_path / "journal.db", lambda _: None)
    drains = [await begun(store, f"th_{number}") for number in range(10)]
    units = [drain.unit(Result, events=(draft("message", n=1),)) for drain in drains]
    units[4] = drains[4].unit(Result, events=(draft("message"), draft("message", n=float("nan"))))
    outcomes = await asyncio.gather(*(store.commit(unit) for unit in units), return_exceptions=True)
    assert isinstance(outcomes[4], Unwritable)
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 9
    thread = await store.thread("th_4")
    assert thread is not None
    assert thread.ev == 2 - 1
    await store.close()


async def test_a_file_locked_by_another_process_delays_but_loses_nothing(tmp_path: Path):
    store = await sqlite_journal(tmp_path / "journal.db", lambda _: None)
    await create_thread(store)
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        commit = asyncio.create_task(store.commit(post("th_1")))
        await asyncio.sleep(0)
        assert await store.unread("th_1") == []
        other.execute("COMMIT")
        assert isinstance(await commit, Committed)
    await store.close()


async def test_a_place_where_no_database_can_be_is_named(tmp_path: Path):
    (tmp_path / "text.db").write_text("this is not a database, but some text " * 100)
    for path in (tmp_path, tmp_path / "none" / "x.db", tmp_path / "text.db"):
        with pytest.raises(StoreError, match=path.name):
            await open_sqlite(path, lambda _: None)


async def test_the_file_lock_is_held_by_one(tmp_path: Path):
    first, second = FileLock(tmp_path / "journal.db"), FileLock(tmp_path / "journal.db")
    assert await first.acquire()
    assert await first.acquire()
    assert not await second.acquire()
    await first.release()
    assert await second.acquire()
    assert (first.held, second.held) == (False, True)
    await second.release()


async def test_the_file_lock_is_one_for_all_links_to_a_database(tmp_path: Path):
    upgrade_sqlite(tmp_path / "real.db")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(tmp_path / "real.db")
    first, second = FileLock(tmp_path / "real.db"), FileLock(link)
    assert await first.acquire()
    assert not await second.acquire()
    await first.release()


async def test_migrating_waits_for_who_migrates_by_another_name(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(tmp_path / "real.db")
    upgrade_sqlite(link)
    assert (tmp_path / "real.db.migrate.lock").exists()
    assert [path.name for path in link.parent.iterdir()] == ["link.db"]


async def test_a_lock_file_that_cannot_be_opened_is_named(tmp_path: Path):
    (tmp_path / "journal.db.lock").mkdir()
    with pytest.raises(StoreError, match=r"journal\.db\.lock' cannot be used: Is a directory"):
        await FileLock(tmp_path / "journal.db").acquire()


async def test_a_lock_that_the_system_refuses_leaves_no_descriptor_behind(tmp_path: Path):
    # A file cannot cause any other failure of flock, so the call itself is replaced.
    def refuse(_: int, __: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    before = open_descriptors()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fcntl.flock", refuse)
        with pytest.raises(StoreError, match="No locks available"):
            await FileLock(tmp_path / "journal.db").acquire()
    assert open_descriptors() == before


async def check_anew(health: Health, clock: ManualClock) -> None:
    """Check health a second later, so that the result is not cached."""
    clock.advance(FRESH)
    await health.check()


async def test_health_sees_a_disk_that_holds_a_row_but_no_message(tmp_path: Path):
    opened: list[sqlite3.Connection] = []

    def remember(path: Path) -> sqlite3.Connection:
        opened.append(connect(path))
        return opened[0]

    create_file(tmp_path / "journal.db")
    store = SqlStore(SqliteDriver(tmp_path / "journal.db", lambda _: None, remember))
    await begun(store)
    clock = ManualClock()
    health = Health(store, MemoryFiles(), clock, new_id)
    for _ in range(3):
        await check_anew(health, clock)
    [(pages,)] = opened[0].execute("PRAGMA page_count").fetchall()
    opened[0].execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="database or disk is full"):
        while True:
            await store.commit(post("th_1"))
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be written: database or disk is full"):
            await check_anew(health, clock)
    opened[0].execute(f"PRAGMA max_page_count = {pages + 100}")
    await check_anew(health, clock)
    assert isinstance(await store.commit(post("th_1")), Committed)
    await store.close()


async def test_health_leaves_one_row_behind(tmp_path: Path):
    store = await sqlite_journal(tmp_path / "journal.db", lambda _: None)
    clock = ManualClock()
    health = Health(store, MemoryFiles(), clock, new_id)
    for _ in range(5):
        await check_anew(health, clock)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        assert connection.execute("SELECT count(*) FROM commits").fetchone() == (1,)


async def test_health_sees_a_full_disk(tmp_path: Path):
    store = await sqlite_journal(tmp_path / "journal.db", lambda _: None)
    clock = ManualClock()
    health = Health(store, MemoryFiles(), clock, new_id)
    await check_anew(health, clock)
    full = (tmp_path / "journal.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
    try:
        with pytest.raises(StoreError):
            await check_anew(health, clock)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    await check_anew(health, clock)
    await store.close()
    with pytest.raises(StoreError):
        await check_anew(health, clock)


async def test_a_journal_in_memory_needs_no_lock():
    ports: list[JournalLock] = [NoLock(), FileLock(Path("x")), PostgresLock("x")]
    assert await ports[0].acquire()
    assert ports[0].held
    await ports[0].release()
    assert not ports[0].held


async def test_a_conflict_is_an_answer_and_not_an_error(tmp_path: Path):
    store = await sqlite_journal(tmp_path / "journal.db", lambda _: None)
    assert await store.commit(post("th_none")) == Conflict(guard="thread")
    await create_thread(store)
    await committed(store, post("th_1"))
    await store.close()
