"""The process dies at every commit of a run with nested calls: it ends as without the crash.

Prompt tools continue from their recorded messages. A handler that is allowed to run again receives the recorded results
of its calls. An effect that might not be repeatable is never repeated. On SQLite it dies at each commit. On Postgres,
where a process takes longer, it dies at every third, and at fewer points during recovery and while either side is
active.
"""

import json
from collections import Counter

import pytest

from tests.crash.processes import INTERRUPTED, KILLED, Scene, kill_points, processes_of, sampled

pytestmark = pytest.mark.anyio

COMMITS = 31
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


processes = processes_of("within_child")


async def check(scene: Scene) -> int:
    """Check what must hold after any crash. Return the number of interrupted calls."""
    calls = await scene.rows("SELECT id, name, status, result FROM calls ORDER BY step, position")
    names = {id_: json.loads(name) for id_, name, _, _ in calls}
    placed = {".".join([names[id_.split(".")[0]], *id_.split(".")[1:]]) for id_ in names}
    assert placed == {*CALLS, "expert", "work", "look"}
    assert {status for _, _, status, _ in calls} <= {"done", "error"}
    broken = [names[id_] for id_, _, _, result in calls if json.loads(result).get("error") == INTERRUPTED]
    assert set(broken) <= {"work"}
    assert not [each for each in calls if "There is no tool" in each[3]], "each with the tools of who made it"
    assert await scene.rows("SELECT status, stop_reason, step_count FROM runs") == [
        ("completed", "end_turn", 3)
    ]
    said = await scene.rows("SELECT role, body FROM messages WHERE within IS NULL ORDER BY seq")
    assert "".join(role[0] for role, _ in said) == "uattttatata"
    bodies = [json.loads(body) for _, body in said]
    assert bodies[-1]["content"] == "All done."
    asked = [each[0] for body in bodies for each in body.get("calls", [])]
    assert asked == [body["call"][0] for body in bodies if "call" in body]
    begun = Counter(line.split()[1] for line in (scene.folder / "witness").read_text().splitlines())
    assert all(begun[n] <= 1 for n in ONCE), "no effect may happen twice"
    assert begun["3"] <= 2  # it is called in two places
    assert set(begun) | {str(n) for n in range(1, 9)} == {str(n) for n in range(1, 9)}
    assert await scene.rows("SELECT 1 FROM wakes") == []
    return len(broken)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_undisturbed_run(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() <= COMMITS, "the matrix has every commit"
    assert await check(scene) == 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(2, COMMITS + 1), postgres=range(2, COMMITS + 1, 3))
)
async def test_death_at_a_commit(scene: Scene, unit: int, when: str) -> None:
    first = await scene.run(kill={"unit": unit, "when": when})
    assert first in (KILLED, 0)
    assert await scene.run() == 0
    assert await check(scene) <= 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("tool", sampled(range(1, 9)))
async def test_death_inside_a_tool(scene: Scene, tool: int) -> None:
    assert await scene.run(kill={"tool": tool}) == KILLED
    assert await scene.run() == 0
    assert await check(scene) == (1 if tool in (1, 3, 4, 6) else 0)


@pytest.mark.parametrize("again", sampled(range(1, 12, 2)))
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(6, COMMITS - 4, 5), postgres=range(6, COMMITS - 4, 10))
)
async def test_a_second_death_while_it_recovers(scene: Scene, unit: int, again: int) -> None:
    assert await scene.run(kill={"unit": unit, "when": "after"}) in (KILLED, 0)
    assert await scene.run(kill={"unit": again, "when": "after"}) in (KILLED, 0)
    assert await scene.run() == 0
    assert await check(scene) <= 2


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("kind", "unit"), kill_points(sqlite=range(3, 11), postgres=range(3, 11, 2)))
async def test_death_in_the_turn_of_either_side(scene: Scene, unit: int, when: str) -> None:
    assert await scene.run(agent="both", kill={"unit": unit, "when": when}) == KILLED
    assert await scene.run(agent="both") == 0
    assert await scene.rows("SELECT status, turn, step_count FROM runs") == [("completed", 4, 6)]
    said = [json.loads(body) for _, body in await scene.rows("SELECT role, body FROM messages ORDER BY seq")]
    words = [(body.get("side"), body["content"]) for body in said if body["content"][:1] in ("a", "b")]
    assert words == [("side_a", "a1"), ("side_b", "b1"), ("side_a", "a2"), ("side_b", "b2")]
    begun = Counter(line.split()[1] for line in (scene.folder / "witness").read_text().splitlines())
    assert begun["1"] <= 1
