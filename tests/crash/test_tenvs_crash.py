"""The process dies while a child with tenvs starts and runs: there is one child, and it has all tenvs, encrypted."""

import pytest

from tests.crash.processes import KILLED, Scene, kill_points, processes_of
from tests.crash.tenvs_child import KEY

pytestmark = pytest.mark.anyio

COMMITS = 13
"""The approximate number of commits of an undisturbed run."""
processes = processes_of("tenvs_child")


async def check(scene: Scene) -> None:
    [(child,)] = await scene.rows("SELECT id FROM threads WHERE parent_id IS NOT NULL")
    kept = await scene.rows(f"SELECT name, type, key IS NULL FROM env WHERE owner = '{child}' ORDER BY name")
    assert kept == [("api_key", "secret", 0), ("shop", "text", 1), ("size", "text", 1)]
    said = str(await scene.rows(f"SELECT body FROM messages WHERE thread_id = '{child}'"))
    assert "tea 3 True" in said
    assert KEY not in said
    [(parent,)] = await scene.rows("SELECT id FROM threads WHERE parent_id IS NULL")
    brought = await scene.rows(f"SELECT name, type FROM env WHERE owner = '{parent}' ORDER BY name")
    assert brought == [("api_key", "secret"), ("shop", "text")]
    assert await scene.rows("SELECT DISTINCT status FROM runs") == [("completed",)]
    assert KEY not in str(await scene.rows("SELECT value FROM env"))


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_undisturbed_tenvs_of_a_child(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() == COMMITS, "the matrix has every commit"
    await check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("kind", "unit"), kill_points(sqlite=range(1, COMMITS + 1), postgres=range(0)))
async def test_death_at_a_commit_while_a_child_begins(scene: Scene, unit: int, when: str) -> None:
    assert await scene.run(kill={"unit": unit, "when": when}) == KILLED
    assert await scene.run() == 0
    await check(scene)
