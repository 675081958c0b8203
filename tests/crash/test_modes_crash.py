"""The process dies while children live on, talk, report or are deferred: all runs end as without it (S0 §5, §6).

On SQLite it dies at every third commit, on Postgres at every ninth.
"""

from collections import Counter

import pytest

from tests.crash.modes_child import KEY
from tests.crash.processes import KILLED, Scene, assert_answered, kill_points, processes_of

pytestmark = pytest.mark.anyio

COMMITS = 69  # about as many as an undisturbed run has on a busy machine: the last ones can be missing
SURE = 55  # the number that always exists


processes = processes_of("modes_child")


async def check(scene: Scene) -> None:
    threads = await scene.rows("SELECT id, name, state, run_id, report FROM threads ORDER BY created_at, id")
    boss, *children = threads
    assert sorted((str(name), str(state)) for _, name, state, _, _ in children) == [
        ('"Alpha"', "terminated"),
        ('"Beta"', "terminated"),
        ('"Bob"', "idle"),
        ('"Eve"', "idle"),
        ('"Needy"', "idle"),
        ("None", "terminated"),  # the pair of agents
    ]
    assert [(run, report) for _, _, _, run, report in threads] == [(None, None)] * 7
    assert {status for (status,) in await scene.rows("SELECT status FROM runs")} == {"completed"}
    calls = Counter(await scene.rows("SELECT name, status FROM calls"))
    assert calls == {
        ('"clerk"', "resolved"): 2,
        ('"code"', "done"): 2,
        ('"subagent_create"', "done"): 1,
        ('"subagent_create"', "resolved"): 1,
        ('"subagent_create"', "error"): 1,
        ('"pair"', "resolved"): 1,
        ('"again"', "done"): 1,
        ('"subagent_message"', "resolved"): 1,
        ('"tell"', "done"): 2,
        ('"key"', "done"): 1,
    }
    inbox = await scene.rows(f"SELECT type, status FROM inbox WHERE thread_id = '{boss[0]}'")
    assert Counter(inbox) == {("message", "processed"): 1, ("subagent", "processed"): 4}
    await assert_answered(scene, [each[0] for each in threads], "Interrupted", KEY)
    for table in ("wakes", "requests"):
        assert await scene.rows(f"SELECT 1 FROM {table}") == [], table


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_undisturbed_modes(scene: Scene) -> None:
    assert await scene.run() == 0
    assert SURE <= scene.commits() <= COMMITS, "the matrix has every commit"
    await check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(3, COMMITS + 1, 3), postgres=range(3, COMMITS + 1, 9))
)
async def test_death_at_a_commit(scene: Scene, unit: int, when: str) -> None:
    first = await scene.run(kill={"unit": unit, "when": when})
    assert first == KILLED or (unit > SURE and first == 0)
    assert await scene.run() == 0
    await check(scene)
