"""The process dies at every point of a run, and again during recovery: nothing is lost, nothing happens twice.

The effects of the tools are read from a synced file outside the database. The state of the journal is read from the
file that the dead processes left.
"""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crash.child import CALLS
from tests.crash.dying import Witness
from tests.crash.processes import INTERRUPTED, KILLED, Processes, commits, processes_of, rows, sampled

FLAVOURS = ["plain", "read_only", "idempotent", "parallel"]
OVER_HTTP = ["http", "http_read_only", "http_idempotent"]
ONCE = ("plain", "http")  # flavours whose calls might not be safe to repeat
UNITS = 5 + CALLS  # create, send, claim, answer, one result each, answer


processes = processes_of("child")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_undisturbed_run_is_what_the_others_are_measured_by(
    processes: Processes, tmp_path: Path, flavour: str
) -> None:
    assert processes.run(action="start", folder=str(tmp_path), flavour=flavour) == 0
    assert commits(tmp_path) == UNITS
    journal = Journal(tmp_path)
    assert journal.contents() == expected(interrupted=set())
    assert journal.begun() == Counter(dict.fromkeys(journal.call_ids(), 1))


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("unit", sampled(range(1, UNITS + 1)))
def test_death_at_a_commit(processes: Processes, tmp_path: Path, unit: int, when: str, flavour: str) -> None:
    kill = {"unit": unit, "when": when}
    assert processes.run(action="start", folder=str(tmp_path), flavour=flavour, kill=kill) == KILLED
    assert processes.run(action="recover", folder=str(tmp_path), flavour=flavour) == 0
    check(Journal(tmp_path), flavour)


@pytest.mark.parametrize("flavour", [*FLAVOURS, *OVER_HTTP])
@pytest.mark.parametrize("call", range(1, CALLS + 1))
def test_death_inside_a_tool(processes: Processes, tmp_path: Path, call: int, flavour: str) -> None:
    kill = {"tool": call}
    assert processes.run(action="start", folder=str(tmp_path), flavour=flavour, kill=kill) == KILLED
    assert processes.run(action="recover", folder=str(tmp_path), flavour=flavour) == 0
    journal = Journal(tmp_path)
    check(journal, flavour)
    died = journal.call_ids()[call - 1]
    assert journal.interrupted() == ({died} if flavour in ONCE else set())
    assert journal.begun()[died] == (1 if flavour in ONCE else 2)


@pytest.mark.parametrize("step", [1, 2])
def test_death_during_the_models_answer(processes: Processes, tmp_path: Path, step: int) -> None:
    order = {"folder": str(tmp_path), "flavour": "plain"}
    assert processes.run(action="start", kill={"model": step}, **order) == KILLED
    assert processes.run(action="recover", **order) == 0
    journal = Journal(tmp_path)
    check(journal, "plain")
    assert journal.contents() == expected(interrupted=set())


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("unit", sampled(range(2, UNITS + 1)))
def test_a_second_death_at_every_commit_of_the_recovery(
    processes: Processes, tmp_path: Path, unit: int, flavour: str
) -> None:
    left = tmp_path / "left"
    left.mkdir()
    kill = {"unit": unit, "when": "after"}
    assert processes.run(action="start", folder=str(left), flavour=flavour, kill=kill) == KILLED
    for when in ("before", "after"):
        for again in range(1, UNITS + 2):
            folder = shutil.copytree(left, tmp_path / f"{when}{again}")
            order = {"action": "recover", "folder": str(folder), "flavour": flavour}
            second = processes.run(kill={"unit": again, "when": when}, **order)
            if second == KILLED:
                assert processes.run(**order) == 0
            check(Journal(folder), flavour)
            if second == 0:
                break
        else:
            pytest.fail("The recovery took more commits than the run itself.")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("unit", sampled(range(3, 19)))
def test_death_at_a_commit_of_runs_that_fail(
    processes: Processes, tmp_path: Path, unit: int, when: str
) -> None:
    order = {"action": "poison", "folder": str(tmp_path), "flavour": "plain"}
    died = processes.run(kill={"unit": unit, "when": when}, **order)
    assert died in (KILLED, 0)
    assert processes.run(**order) == 0
    journal = Journal(tmp_path)
    events = journal.rows(
        "SELECT status, attempts FROM inbox WHERE type = 'tool_result' ORDER BY content LIKE '%good%'"
    )
    assert events == [("failed", 3), ("processed", events[1][1])]
    assert journal.column("SELECT thread_id FROM wakes") == []
    kept = journal.rows("SELECT role, body FROM messages WHERE kept ORDER BY seq")
    said = [json.loads(body)["content"] for role, body in kept if role == "user"]
    assert len(said) == 2
    assert said[1].endswith('"good"')
    failed = journal.column("SELECT count(*) FROM runs WHERE status = 'failed'")
    assert failed == [3]
    assert set(journal.column("SELECT status FROM runs")) == {"completed", "failed"}


def check(journal: "Journal", flavour: str) -> None:
    """Check what must hold after any crash."""
    run_ids = journal.column("SELECT id FROM runs")
    for acknowledged in journal.acknowledged():
        assert acknowledged in run_ids, "what was acknowledged is there"
    if not run_ids:
        assert journal.contents() == []
        return
    assert journal.column("SELECT status FROM runs") == ["completed"]
    interrupted = journal.interrupted()
    assert journal.contents() == expected({journal.call_ids().index(call_id) for call_id in interrupted})
    begun = journal.begun()
    assert set(begun) | interrupted == set(journal.call_ids())
    if flavour in ONCE:
        assert set(begun.values()) == {1}, "no effect may happen twice"
        assert len(interrupted) <= 2
    else:
        assert not interrupted
        assert all(count <= 3 for count in begun.values())
    assert journal.column("SELECT thread_id FROM wakes") == []
    assert set(journal.column("SELECT status FROM inbox")) == {"processed"}
    numbers = journal.column("SELECT n FROM events ORDER BY n")
    assert numbers == list(range(1, len(numbers) + 1))
    assert set(journal.column("SELECT status FROM calls")) <= {"done", "error"}


def expected(interrupted: set[int]) -> list[tuple[str, str]]:
    """Return the transcript in which the calls of those numbers were interrupted."""
    results = [
        ("tool", INTERRUPTED) if n in interrupted else ("tool", f"worked {n + 1}") for n in range(CALLS)
    ]
    return [("user", "Go"), ("assistant", "I shall work."), *results, ("assistant", "All done, at last.")]


class Journal:
    """The state on disk."""

    def __init__(self, folder: Path) -> None:
        self._witness = Witness(folder / "witness")
        self._folder = folder

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return rows(self._folder, query)

    def column(self, query: str) -> list[Any]:
        return [row[0] for row in self.rows(query)]

    def contents(self) -> list[tuple[str, str]]:
        said: list[tuple[str, str]] = []
        for role, body in self.rows("SELECT role, body FROM messages ORDER BY seq"):
            content = json.loads(body)["content"]
            if role == "tool" and content.startswith("{"):
                content = json.loads(content)["error"]
            said.append((role, content))
        return said

    def call_ids(self) -> list[str]:
        return self.column("SELECT id FROM calls ORDER BY position")

    def interrupted(self) -> set[str]:
        return {
            call_id
            for call_id, result in self.rows("SELECT id, result FROM calls")
            if json.loads(result).get("error") == INTERRUPTED
        }

    def begun(self) -> Counter[str]:
        return Counter(line[1] for line in self._witness.lines() if line[0] == "begin")

    def acknowledged(self) -> list[str]:
        return [line[1] for line in self._witness.lines() if line[0] == "acknowledged"]
