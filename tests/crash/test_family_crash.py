"""The process dies at every commit of a parent and of its children: all end as if nothing had happened (S0 §5)."""

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.crash.test_crash import KILLED, Processes

COMMITS = 52  # of an undisturbed run, about: the last ones may not be reached


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    command = [sys.executable, "-m", "tests.crash.family_child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield Processes(server)


def rows(folder: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "journal.db")) as connection:
        return connection.execute(query).fetchall()


def check(folder: Path) -> None:
    threads = rows(folder, "SELECT id, agent, state, run_id, report FROM threads ORDER BY created_at, id")
    boss, *children = threads
    assert len(children) == 4
    assert sorted(str(state) for _, _, state, _, _ in children) == [
        "idle",
        "terminated",
        "terminated",
        "terminated",
    ]
    assert [(run, report) for _, _, _, run, report in threads] == [(None, None)] * 5
    assert {status for (status,) in rows(folder, "SELECT status FROM runs")} == {"completed"}
    calls = Counter(rows(folder, "SELECT name, status FROM calls"))
    assert calls == {
        ('"prepare"', "resolved"): 1,
        ('"subagent_create"', "resolved"): 1,
        ('"later"', "done"): 1,
        ('"direct"', "resolved"): 1,
        ('"poke"', "done"): 1,
        ('"look"', "done"): 5,
    }
    inbox = rows(folder, f"SELECT type, status, event_id FROM inbox WHERE thread_id = '{boss[0]}'")
    assert Counter((type_, status) for type_, status, _ in inbox) == {
        ("message", "processed"): 1,
        ("subagent", "processed"): 1,
    }
    for thread_id, *_ in threads:
        said = rows(folder, f"SELECT role, body FROM messages WHERE thread_id = '{thread_id}' ORDER BY seq")
        bodies = [(role, json.loads(body)) for role, body in said]
        asked = [call[0] for _, body in bodies for call in body.get("calls", [])]
        answered = [body["call"][0] for role, body in bodies if role == "tool"]
        assert sorted(asked) == sorted(answered)
        assert not [body for _, body in bodies if "Interrupted" in str(body)]
    assert rows(folder, "SELECT 1 FROM wakes") == []


def test_an_undisturbed_family(processes: Processes, tmp_path: Path) -> None:
    assert processes.run(folder=str(tmp_path)) == 0
    check(tmp_path)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("unit", range(3, COMMITS + 1))
def test_death_at_a_commit_of_a_family(processes: Processes, tmp_path: Path, unit: int, when: str) -> None:
    first = processes.run(folder=str(tmp_path), kill={"unit": unit, "when": when})
    assert first in (KILLED, 0)
    assert processes.run(folder=str(tmp_path)) == 0
    check(tmp_path)
