"""The process dies at every commit of a parent and of its children: all runs end as without the crash (S0 §5).

On SQLite it dies at each commit. On Postgres, where a process takes longer, it dies at every third.
"""

from collections import Counter

import pytest

from tests.crash.processes import KILLED, Scene, assert_answered, kill_points, processes_of

pytestmark = pytest.mark.anyio

COMMITS = 46  # about as many as an undisturbed run has: the last ones can be missing
SURE = 40  # the number that always exists


processes = processes_of("family_child")


async def check(scene: Scene) -> None:
    threads = await scene.rows("SELECT id, agent, state, run_id, report FROM threads ORDER BY created_at, id")
    boss, *children = threads
    assert len(children) == 4
    assert sorted(str(state) for _, _, state, _, _ in children) == [
        "idle",
        "terminated",
        "terminated",
        "terminated",
    ]
    assert [(run, report) for _, _, _, run, report in threads] == [(None, None)] * 5
    assert {status for (status,) in await scene.rows("SELECT status FROM runs")} == {"completed"}
    calls = Counter(await scene.rows("SELECT name, status FROM calls"))
    assert calls == {
        ('"prepare"', "resolved"): 1,
        ('"subagent_create"', "resolved"): 1,
        ('"later"', "done"): 1,
        ('"direct"', "resolved"): 1,
        ('"poke"', "done"): 1,
        ('"look"', "done"): 5,
    }
    inbox = await scene.rows(f"SELECT type, status, event_id FROM inbox WHERE thread_id = '{boss[0]}'")
    assert Counter((type_, status) for type_, status, _ in inbox) == {
        ("message", "processed"): 1,
        ("subagent", "processed"): 1,
    }
    await assert_answered(scene, [each[0] for each in threads], "Interrupted")
    assert await scene.rows("SELECT 1 FROM wakes") == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_undisturbed_family(scene: Scene) -> None:
    assert await scene.run() == 0
    assert SURE <= scene.commits() <= COMMITS, "the matrix has every commit"
    await check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(3, COMMITS + 1), postgres=range(3, COMMITS + 1, 3))
)
async def test_death_at_a_commit_of_a_family(scene: Scene, unit: int, when: str) -> None:
    first = await scene.run(kill={"unit": unit, "when": when})
    assert first == KILLED or (unit > SURE and first == 0)
    assert await scene.run() == 0
    await check(scene)
