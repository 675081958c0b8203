"""The process dies at every commit of a run that fails and is retried: it completes, and no effect is repeated."""

import pytest

from tests.crash.dying import Witness
from tests.crash.processes import INTERRUPTED, KILLED, Scene, kill_points, processes_of
from tests.databases import opened
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio

COMMITS = 9  # of an undisturbed run: thread, message, claim, answer, result, failure, retry, claim, answer

processes = processes_of("retry_child")


async def check(scene: Scene) -> None:
    store = await opened(scene.url, MemoryBus())
    [run] = await store.runs()
    [call] = await store.calls(limit=10)
    messages = await store.run_messages(run.id)
    await store.close()
    assert (run.status, run.stop_reason, run.error, run.output) == ("completed", "end_turn", None, "Paid.")
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    effects = [line[0] for line in Witness(scene.folder / "effects").lines()]
    if call.status == "error":
        assert call.result is not None and call.result["error"] == INTERRUPTED
        assert effects in ([], [call.id])
    else:
        assert effects == [call.id]
    assert await scene.rows("SELECT 1 FROM wakes") == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_undisturbed_retry(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() <= COMMITS, "the matrix has every commit"
    await check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(1, COMMITS + 1), postgres=range(5, COMMITS + 1))
)
async def test_death_at_a_commit_of_a_retried_run(scene: Scene, unit: int, when: str) -> None:
    assert await scene.run(kill={"unit": unit, "when": when}) in (KILLED, 0)
    assert await scene.run() == 0
    await check(scene)
