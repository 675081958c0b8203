"""The process dies while dependencies are open: the next one opens its own, cleans up, and the run completes."""

from collections import Counter

import pytest

from tests.crash.dying import Witness
from tests.crash.processes import KILLED, Scene, assert_answered, kill_points, processes_of

pytestmark = pytest.mark.anyio

COMMITS = 10
"""Of an undisturbed run: thread, message, claim, two answers with two results each, the last answer."""
processes = processes_of("depends_child")


async def check(scene: Scene) -> None:
    """Check that each process has opened at most one pool, and that the last one has left nothing open."""
    lines = Witness(scene.folder / "witness").lines()
    by_process = [
        Counter(line[0] for line in lines if line[-1] == pid) for pid in {line[-1] for line in lines}
    ]
    assert all(each["open"] <= 1 for each in by_process)
    last = [line[0] for line in lines if line[-1] == lines[-1][-1]]
    reads = last.count("read")
    kept = ["open", *["begin", "read", "end"] * reads, "close"] if reads else []
    assert last == [*kept, "stopped"]
    assert await scene.rows("SELECT status FROM runs") == [("completed",)]
    [(thread_id,)] = await scene.rows("SELECT id FROM threads")
    await assert_answered(scene, [thread_id], "Interrupted")


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_undisturbed_dependencies(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() == COMMITS, "the matrix has every commit"
    await check(scene)
    assert len(Witness(scene.folder / "witness").lines()) == 15


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("kind", "unit"), kill_points(sqlite=range(1, COMMITS + 1), postgres=range(0)))
async def test_death_at_a_commit_while_dependencies_are_open(scene: Scene, unit: int, when: str) -> None:
    assert await scene.run(kill={"unit": unit, "when": when}) == KILLED
    assert await scene.run() == 0
    await check(scene)
