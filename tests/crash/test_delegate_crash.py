"""The process dies at every commit of a request and its delegates: another one solves it, without repeated writes."""

import json

import pytest

from tests.crash.processes import KILLED, Scene, kill_points, processes_of
from tests.runtime.solving import DONE

pytestmark = pytest.mark.anyio

COMMITS = 20
SHORT = {"summary": "short"}

processes = processes_of("delegate_child")


async def check(scene: Scene) -> None:
    """Check what must hold after any crash."""
    solution = json.loads((scene.folder / "solution").read_text())
    assert solution == {"output": DONE, "results": [SHORT, SHORT], "state": {"sums": [SHORT, SHORT]}}
    runs = await scene.rows("SELECT status, stop_reason, step_count FROM runs")
    assert runs == [("completed", "end_turn", 2)] * 3
    assert await scene.rows("SELECT kind, status FROM calls") == [("delegate", "resolved")] * 2
    assert len(await scene.rows("SELECT 1 FROM threads WHERE parent_id IS NOT NULL")) == 2
    assert await scene.rows("SELECT 1 FROM wakes") == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_undisturbed_delegates(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() <= COMMITS, "the matrix has every commit"
    await check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(1, COMMITS + 1), postgres=range(1, COMMITS + 1, 3))
)
async def test_death_at_a_commit(scene: Scene, unit: int, when: str) -> None:
    assert await scene.run(kill={"unit": unit, "when": when}) in (KILLED, 0)
    assert await scene.run() == 0
    await check(scene)
