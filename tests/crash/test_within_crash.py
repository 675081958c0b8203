"""The process dies at every commit of a run with calls within calls: it ends as if nothing had happened.

Prompt tools go on from what was said in them; a handler that may run again gets what its calls have given; no effect
happens twice of which nobody knows whether it may.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.test_crash import INTERRUPTED, KILLED, Processes
from tests.crash.test_family_crash import rows

COMMITS = 30
CALLS = {
    "sums": "",
    "sums.1": "work 1",
    "sums.2": "look 2",
    "sums.3": "deep",
    "sums.3.1": "work 3",
    "caller": "",
    "caller.1": "work 4",
    "caller.2": "look 5",
    "caller.3": "deep",
    "caller.3.1": "work 3",
}
ONCE = {"1", "4", "6"}


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    command = [sys.executable, "-m", "tests.crash.within_child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield Processes(server)


def check(folder: Path) -> int:
    """What must be true whatever died when; how many calls were interrupted."""
    calls = rows(folder, "SELECT id, name, status, result FROM calls ORDER BY step, position")
    names = {id_: json.loads(name) for id_, name, _, _ in calls}
    placed = {".".join([names[id_.split(".")[0]], *id_.split(".")[1:]]) for id_ in names}
    assert placed == {*CALLS, "expert", "work", "look"}
    assert {status for _, _, status, _ in calls} <= {"done", "error"}
    broken = [names[id_] for id_, _, _, result in calls if json.loads(result).get("error") == INTERRUPTED]
    assert set(broken) <= {"work"}
    assert not [each for each in calls if "There is no tool" in each[3]], "each with the tools of who made it"
    assert rows(folder, "SELECT status, stop_reason, step_count FROM runs") == [("completed", "end_turn", 3)]
    said = rows(folder, "SELECT role, body FROM messages WHERE within IS NULL ORDER BY seq")
    assert "".join(role[0] for role, _ in said) == "uattttatata"
    bodies = [json.loads(body) for _, body in said]
    assert bodies[-1]["content"] == "All done."
    asked = [each[0] for body in bodies for each in body.get("calls", [])]
    assert asked == [body["call"][0] for body in bodies if "call" in body]
    begun = Counter(line.split()[1] for line in (folder / "witness").read_text().splitlines())
    assert all(begun[n] <= 1 for n in ONCE), "no effect may happen twice"
    assert begun["3"] <= 2  # it is called in two places
    assert set(begun) | {str(n) for n in range(1, 9)} == {str(n) for n in range(1, 9)}
    assert rows(folder, "SELECT 1 FROM wakes") == []
    return len(broken)


def test_an_undisturbed_run(processes: Processes, tmp_path: Path) -> None:
    assert processes.run(folder=str(tmp_path)) == 0
    assert check(tmp_path) == 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("unit", range(2, COMMITS + 1))
def test_death_at_a_commit(processes: Processes, tmp_path: Path, unit: int, when: str) -> None:
    first = processes.run(folder=str(tmp_path), kill={"unit": unit, "when": when})
    assert first in (KILLED, 0)
    assert processes.run(folder=str(tmp_path)) == 0
    assert check(tmp_path) <= 1


@pytest.mark.parametrize("tool", range(1, 9))
def test_death_inside_a_tool(processes: Processes, tmp_path: Path, tool: int) -> None:
    order: dict[str, Any] = {"folder": str(tmp_path)}
    assert processes.run(kill={"tool": tool}, **order) == KILLED
    assert processes.run(**order) == 0
    assert check(tmp_path) == (1 if tool in (1, 3, 4, 6) else 0)


@pytest.mark.parametrize("again", range(1, 12, 2))
@pytest.mark.parametrize("unit", range(6, COMMITS - 4, 5))
def test_a_second_death_while_it_recovers(
    processes: Processes, tmp_path: Path, unit: int, again: int
) -> None:
    order: dict[str, Any] = {"folder": str(tmp_path)}
    assert processes.run(kill={"unit": unit, "when": "after"}, **order) in (KILLED, 0)
    assert processes.run(kill={"unit": again, "when": "after"}, **order) in (KILLED, 0)
    assert processes.run(**order) == 0
    assert check(tmp_path) <= 2


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("unit", range(3, 11))
def test_death_in_the_turn_of_either_side(processes: Processes, tmp_path: Path, unit: int, when: str) -> None:
    order: dict[str, Any] = {"folder": str(tmp_path), "agent": "both"}
    assert processes.run(kill={"unit": unit, "when": when}, **order) == KILLED
    assert processes.run(**order) == 0
    assert rows(tmp_path, "SELECT status, turn, step_count FROM runs") == [("completed", 4, 6)]
    said = [json.loads(body) for _, body in rows(tmp_path, "SELECT role, body FROM messages ORDER BY seq")]
    words = [(body.get("side"), body["content"]) for body in said if body["content"][:1] in ("a", "b")]
    assert words == [("side_a", "a1"), ("side_b", "b1"), ("side_a", "a2"), ("side_b", "b2")]
    begun = Counter(line.split()[1] for line in (tmp_path / "witness").read_text().splitlines())
    assert begun["1"] <= 1
