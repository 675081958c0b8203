"""The process dies at every commit of a composed request, and within its handlers: another process solves it."""

import json
from collections import Counter

import pytest

from tests.crash.processes import KILLED, Scene, kill_points, processes_of
from tests.runtime.solving import DONE

pytestmark = pytest.mark.anyio

COMMITS = 10
NAMES = ("Ada", "Bob", "Cy")

processes = processes_of("composed_child")


async def check(scene: Scene) -> int:
    """Check what must hold after any crash. Return the number of interrupted calls."""
    solution = json.loads((scene.folder / "solution").read_text())
    assert (solution["output"], solution["steps"]) == (DONE, 4)
    results = solution["results"]
    assert len(results) == len(NAMES)
    wrong = [each for each, name in zip(results, NAMES, strict=True) if each != f"Hello {name}"]
    assert wrong in ([], [None])
    assert await scene.rows("SELECT status, stop_reason, step_count FROM runs") == [
        ("completed", "end_turn", 4)
    ]
    said = await scene.rows("SELECT role FROM messages ORDER BY seq")
    assert "".join(role[0] for (role,) in said) == "uauauattat"
    begun = Counter(line.split()[1] for line in (scene.folder / "witness").read_text().splitlines())
    assert all(begun[name] <= 1 for name in NAMES), "no effect may happen twice"
    assert await scene.rows("SELECT 1 FROM wakes") == []
    return len(wrong)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_undisturbed_request(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() <= COMMITS, "the matrix has every commit"
    assert await check(scene) == 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(1, COMMITS + 1), postgres=range(1, COMMITS + 1, 3))
)
async def test_death_at_a_commit(scene: Scene, unit: int, when: str) -> None:
    assert await scene.run(kill={"unit": unit, "when": when}) in (KILLED, 0)
    assert await scene.run() == 0
    assert await check(scene) <= 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_death_in_a_handler(scene: Scene, name: str) -> None:
    assert await scene.run(kill={"tool": name}) == KILLED
    assert await scene.run() == 0
    assert await check(scene) == 1
