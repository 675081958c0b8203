"""The process dies at every commit of a talk in a space: every word is said once, every call shown to its end."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.crash.test_crash import KILLED, Processes

COMMITS = 22  # of an undisturbed talk, about: the last ones may not be reached


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    command = [sys.executable, "-m", "tests.crash.space_child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield Processes(server)


def rows(folder: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "journal.db")) as connection:
        return connection.execute(query).fetchall()


def check(folder: Path) -> None:
    said = rows(folder, "SELECT seq, content, metadata FROM space_messages ORDER BY seq")
    assert [json.loads(content) for _, content, _ in said] == ["Book", "", "Moment", "Booked"]
    assert [seq for seq, _, _ in said] == [1, 2, 3, 4]
    shown = json.loads(said[1][2])
    assert (shown["status"], shown["result"]) == ("complete", {"confirmed": True})
    assert {status for (status,) in rows(folder, "SELECT status FROM inbox")} == {"processed"}
    assert {status for (status,) in rows(folder, "SELECT status FROM runs")} <= {"completed", "skipped"}
    assert {status for (status,) in rows(folder, "SELECT status FROM calls")} <= {"done", "resolved"}
    numbers = [n for (n,) in rows(folder, "SELECT n FROM space_events ORDER BY n")]
    assert numbers == list(range(1, len(numbers) + 1))
    types = [type for (type,) in rows(folder, "SELECT type FROM space_events ORDER BY n")]
    assert types.count("space.message") == 4
    assert types.count("tool.done") == types.count("message_updated") == 1
    assert rows(folder, "SELECT 1 FROM wakes") == []


def test_an_undisturbed_talk(processes: Processes, tmp_path: Path) -> None:
    assert processes.run(folder=str(tmp_path)) == 0
    check(tmp_path)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("unit", range(3, COMMITS + 1))
def test_death_at_a_commit_of_a_talk(processes: Processes, tmp_path: Path, unit: int, when: str) -> None:
    first = processes.run(folder=str(tmp_path), kill={"unit": unit, "when": when})
    assert first in (KILLED, 0)
    assert processes.run(folder=str(tmp_path)) == 0
    check(tmp_path)
