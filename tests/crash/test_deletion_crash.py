"""A process is killed while it deletes a thread: the thread is complete or gone, its rest is deleted later."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.deletion_child import MESSAGES
from tests.crash.processes import KILLED, Processes, processes_of
from tests.databases import opened
from tests.play import new_id
from toolwright.adapters.memory import MemoryFiles
from toolwright.runtime.threads.deletion import Deletion
from toolwright.testing import ManualClock, MemoryBus

pytestmark = pytest.mark.anyio


processes = processes_of("deletion_child")

TABLES = ("inbox", "events", "runs", "wakes", "dropped_threads")


def rows(folder: Path) -> dict[str, int]:
    with closing(sqlite3.connect(folder / "journal.db")) as connection:
        count = "SELECT count(*) FROM {}"
        return {name: connection.execute(count.format(name)).fetchone()[0] for name in TABLES}


@pytest.mark.parametrize(
    ("unit", "when", "left"),
    [
        (1, "before", MESSAGES + 1),
        (1, "after", MESSAGES + 1),
        (2, "before", MESSAGES + 1),
        (2, "after", MESSAGES + 1 - 1_000),
        (3, "after", 1),
    ],
)
async def test_what_a_killed_process_has_left_of_a_thread_goes_with_the_next_sweep(
    processes: Processes, unit: int, when: str, left: int, tmp_path: Path
) -> None:
    assert processes.run(folder=str(tmp_path), unit=unit, when=when) == KILLED
    assert rows(tmp_path)["inbox"] == left
    store = await opened(f"sqlite:///{tmp_path / 'journal.db'}", MemoryBus())
    there = await store.thread("th_1") is not None
    assert there == (unit == 1 and when == "before")
    deletion = Deletion(store, lambda _: None, MemoryBus(), MemoryFiles(), ManualClock(), new_id)
    if there:
        await deletion.delete("th_1", cancel=False)
    else:
        await deletion.sweep()
    assert rows(tmp_path) == {"inbox": 1, "events": 1, "runs": 1, "wakes": 0, "dropped_threads": 0}
    await store.close()
