"""An SQLite file releases the space of deleted rows."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.databases import create_file, sqlite_journal
from tests.play import committed, create_thread, post
from tests.runtime.test_retention import DAYS, keeper

from toolwright.adapters.store.opening import open_sqlite
from toolwright.adapters.store.sqlite.file import RELEASED_AT_ONCE, RESERVE, is_shrinkable, make_shrinkable

pytestmark = pytest.mark.anyio

PAGE = 4096
FREED = (RESERVE + 8 * RELEASED_AT_ONCE) * PAGE  # bytes


def leave_free_space(path: Path) -> int:
    """Delete enough for the file to have free space. Return its size."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("CREATE TABLE bulk (content BLOB)")
        file.execute("INSERT INTO bulk VALUES (zeroblob(?))", (FREED,))
        file.execute("DROP TABLE bulk")
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def made_before(path: Path) -> None:
    """Create a file as earlier versions did, which does not shrink."""
    create_file(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA auto_vacuum = NONE")
        file.execute("VACUUM")
    assert not is_shrinkable(path)


async def test_after_a_sweep_the_file_is_as_short_as_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = await sqlite_journal(path, lambda _: None)
    await create_thread(store)
    before = leave_free_space(path)
    await keeper(store, 30 * DAYS).sweep()
    assert path.stat().st_size < before - FREED + 2 * RESERVE * PAGE
    assert await store.thread("th_1") is not None
    assert not await store.shrink()
    await store.close()
    assert not await store.shrink()


async def test_the_space_is_released_in_pieces_between_which_others_write(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = await sqlite_journal(path, lambda _: None)
    await create_thread(store)
    leave_free_space(path)
    pieces = 0
    more = True
    while more:
        more, _ = await asyncio.gather(store.shrink(), committed(store, post("th_1")))
        pieces += 1
    assert pieces >= 8
    await store.close()


async def test_pieces_that_are_asked_for_when_the_store_closes_are_answered(tmp_path: Path) -> None:
    store = await sqlite_journal(tmp_path / "journal.db", lambda _: None)
    await create_thread(store)
    asked = [asyncio.create_task(store.shrink()) for _ in range(3)]
    posted = asyncio.create_task(store.commit(post("th_1")))
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*asked) == [False] * 3
    await posted


async def test_a_file_of_an_earlier_version_stays_as_long_as_it_was_until_it_is_rewritten(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    made_before(path)
    before = leave_free_space(path)
    store = await open_sqlite(path, lambda _: None)
    assert not await store.shrink()
    await store.close()
    assert path.stat().st_size == before
    make_shrinkable(path)
    assert is_shrinkable(path)
    assert path.stat().st_size < before - FREED + RESERVE * PAGE
