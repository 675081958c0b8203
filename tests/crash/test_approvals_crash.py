"""A process is killed while calls wait for their approval, and right after it: each is executed once, or never."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.crash.approvals_child import COMMITS
from tests.crash.processes import INTERRUPTED, KILLED, Processes, Scene, kill_points, processes_of, scene_of

pytestmark = pytest.mark.anyio

processes = processes_of("approvals_child")


@pytest.fixture
async def scene(kind: str, processes: Processes, tmp_path: Path) -> AsyncGenerator[Scene]:
    async with scene_of(kind, processes, tmp_path) as made:
        yield made


async def check(scene: Scene) -> list[str]:
    """Check that nothing was paid twice or without an approval. Return the numbers of the payments, in order."""
    assert await scene.rows("SELECT status FROM runs") == [("completed",)]
    assert await scene.rows("SELECT 1 FROM wakes") == []
    witness = scene.folder / "witness"
    paid = [line.split()[1] for line in witness.read_text().splitlines()] if witness.exists() else []
    assert len(paid) == len(set(paid)), "no effect may happen twice"
    assert set(paid) <= {"1", "3", "5"}
    calls = await scene.rows("SELECT name, status, approval, result FROM calls ORDER BY step, position, id")
    payments = [(status, approval) for name, status, approval, _ in calls if json.loads(name) == "pay"]
    assert {status for status, _ in payments} <= {"done", "resolved", "error"}
    # the refused payment
    assert [status for status, approval in payments if approval == "asked"] == ["resolved"]
    interrupted = [each for each in calls if json.loads(each[3]).get("error") == INTERRUPTED]
    assert len(paid) + len(interrupted) >= 3
    said = await scene.rows("SELECT body FROM messages WHERE role = 'tool' ORDER BY seq")
    assert len(said) == 4
    assert "The call was not approved: no" in said[1][0]
    return paid


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_undisturbed_run(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() <= COMMITS, "the matrix has every commit"
    assert await check(scene) == ["1", "3", "5"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("waits", [1, 3, 4])
async def test_killed_while_it_waits_it_is_approved_in_the_next_process(scene: Scene, waits: int) -> None:
    assert await scene.run(waits=waits) == KILLED
    asked = await scene.rows(
        "SELECT status, attempts FROM calls WHERE approval = 'asked' AND status = 'waiting'"
    )
    assert asked == [("waiting", 0)]
    assert await scene.run(waits=waits) == KILLED  # a second crash changes nothing
    assert await scene.run() == 0
    assert await check(scene) == ["1", "3", "5"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("approved", [1, 2, 3, 4])
async def test_killed_right_after_the_answer_the_question_is_not_repeated(
    scene: Scene, approved: int
) -> None:
    assert await scene.run(approved=approved) == KILLED
    assert await scene.run() == 0
    assert await check(scene) == ["1", "3", "5"]
    events = await scene.rows("SELECT payload FROM events WHERE type = 'tool.waiting'")
    assert len(events) == 4


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(2, COMMITS + 1), postgres=range(2, COMMITS + 1, 3))
)
async def test_death_at_a_commit(scene: Scene, unit: int, when: str) -> None:
    assert await scene.run(kill={"unit": unit, "when": when}) in (KILLED, 0)
    assert await scene.run() == 0
    await check(scene)
