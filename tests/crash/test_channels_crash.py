"""The process dies at every commit of a round of three agents: each answers once, in its turn.

On SQLite it dies at each commit. On Postgres, where a process takes longer, it dies at every third.
"""

import json

import pytest

from tests.crash.processes import KILLED, Scene, assert_answered, kill_points, processes_of

pytestmark = pytest.mark.anyio

COMMITS = 26  # about as many as an undisturbed round has: the last ones can be missing


processes = processes_of("channels_child")


async def check(scene: Scene) -> None:
    for space_id, said in (("general", ["Ideas?", "michael!", "jim!", "dwight!"]), ("dm", ["Psst", "Yes?"])):
        messages = await scene.rows(
            f"SELECT seq, content FROM space_messages WHERE space_id = '{space_id}' ORDER BY seq"
        )
        assert [json.loads(content) for _, content in messages] == said
        assert [seq for seq, _ in messages] == [*range(1, len(said) + 1)]
    inbox = await scene.rows("SELECT thread_id, event_id, status FROM inbox")
    assert {status for _, _, status in inbox} == {"processed"}
    [(question,)] = await scene.rows("SELECT id FROM space_messages WHERE space_id = 'general' AND seq = 1")
    asked = [thread_id for thread_id, event_id, _ in inbox if event_id == question]
    assert (len(asked), len({*asked}), len(inbox)) == (3, 3, 5)
    [(reacted,)] = await scene.rows("SELECT message_id FROM reactions")
    assert reacted == question
    types = [type for (type,) in await scene.rows("SELECT type FROM space_events")]
    assert (types.count("reaction_added"), types.count("space.message")) == (1, 6)
    assert {status for (status,) in await scene.rows("SELECT status FROM runs")} == {"completed"}
    assert {status for (status,) in await scene.rows("SELECT status FROM calls")} == {"done"}
    threads = [thread_id for (thread_id,) in await scene.rows("SELECT id FROM threads")]
    assert len(threads) == 3
    await assert_answered(scene, threads, "Interrupted")
    assert await scene.rows("SELECT 1 FROM wakes") == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_undisturbed_round(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() <= COMMITS, "the matrix has every commit"
    await check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(1, COMMITS + 1), postgres=range(1, COMMITS + 1, 3))
)
async def test_death_at_a_commit_of_a_round(scene: Scene, unit: int, when: str) -> None:
    first = await scene.run(kill={"unit": unit, "when": when})
    assert first in (KILLED, 0)
    assert await scene.run() == 0
    await check(scene)
