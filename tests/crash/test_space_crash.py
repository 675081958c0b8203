"""The process dies at every commit of a talk in a space: every message is posted once, every call shown to its end.

On SQLite it dies at each commit. On Postgres, where a process takes longer, it dies at every third.
"""

import json

import pytest

from tests.crash.processes import KILLED, Scene, kill_points, processes_of

pytestmark = pytest.mark.anyio

COMMITS = 22  # about as many as an undisturbed talk has: the last ones can be missing


processes = processes_of("space_child")


async def check(scene: Scene) -> None:
    said = await scene.rows("SELECT seq, content, metadata FROM space_messages ORDER BY seq")
    assert [json.loads(content) for _, content, _ in said] == ["Book", "", "Moment", "Booked"]
    assert [seq for seq, _, _ in said] == [1, 2, 3, 4]
    shown = json.loads(said[1][2])
    assert (shown["status"], shown["result"]) == ("complete", {"confirmed": True})
    assert {status for (status,) in await scene.rows("SELECT status FROM inbox")} == {"processed"}
    assert {status for (status,) in await scene.rows("SELECT status FROM runs")} <= {"completed", "skipped"}
    assert {status for (status,) in await scene.rows("SELECT status FROM calls")} <= {"done", "resolved"}
    numbers = [n for (n,) in await scene.rows("SELECT n FROM space_events ORDER BY n")]
    assert numbers == list(range(1, len(numbers) + 1))
    types = [type for (type,) in await scene.rows("SELECT type FROM space_events ORDER BY n")]
    assert types.count("space.message") == 4
    assert types.count("tool.done") == types.count("message_updated") == 1
    assert await scene.rows("SELECT 1 FROM wakes") == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_undisturbed_talk(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() <= COMMITS, "the matrix has every commit"
    await check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(3, COMMITS + 1), postgres=range(3, COMMITS + 1, 3))
)
async def test_death_at_a_commit_of_a_talk(scene: Scene, unit: int, when: str) -> None:
    first = await scene.run(kill={"unit": unit, "when": when})
    assert first in (KILLED, 0)
    assert await scene.run() == 0
    await check(scene)
