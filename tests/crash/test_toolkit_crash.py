"""The process dies at every commit of a custom loop: every call is recorded once with its result (`rt.toolkit`).

On SQLite it dies at each commit. On Postgres, where a process takes longer, it dies at every third.
"""

import pytest

from tests.crash.dying import Witness
from tests.crash.processes import INTERRUPTED, KILLED, Scene, kill_points, processes_of
from tests.crash.toolkit_child import CALLS
from tests.databases import opened
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio

COMMITS = 24  # the approximate number of an undisturbed loop


processes = processes_of("toolkit_child")


async def check(scene: Scene) -> None:
    store = await opened(scene.url, MemoryBus())
    [run] = await store.runs()
    calls = sorted(await store.calls(limit=100), key=lambda call: (call.step, call.position))
    messages = await store.run_messages(run.id)
    await store.close()
    assert (run.status, run.stop_reason, run.step_count) == ("completed", "end_turn", len(CALLS))
    assert [call.name for call in calls] == [name for name, _ in CALLS]
    asked = [call.id for message in messages for call in message.calls]
    answered = [message.call_id for message in messages if message.role == "tool"]
    assert asked == answered == [call.id for call in calls]
    effects = [line[0] for line in Witness(scene.folder / "effects").lines()]
    by_name = {call.name: call for call in calls}
    effect = by_name.pop("effect")
    assert {call.status for call in by_name.values()} == {"done"}
    if effect.status == "error":
        assert effect.result is not None and effect.result["error"] == INTERRUPTED
        assert effects in ([], [effect.id])
    else:
        assert effects == [effect.id]
    assert set(Witness(scene.folder / "looks").lines()[0][:1]) == {by_name["look"].id}
    assert len(await scene.rows("SELECT 1 FROM space_messages")) == 1
    assert len(await scene.rows("SELECT 1 FROM passages")) == 1
    assert {status for (status,) in await scene.rows("SELECT status FROM inbox")} == {"processed"}
    assert await scene.rows("SELECT 1 FROM wakes") == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_undisturbed_loop(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() <= COMMITS, "the matrix has every commit"
    await check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), kill_points(sqlite=range(1, COMMITS + 1), postgres=range(1, COMMITS + 1, 3))
)
async def test_death_at_a_commit_of_a_loop(scene: Scene, unit: int, when: str) -> None:
    first = await scene.run(kill={"unit": unit, "when": when})
    assert first in (KILLED, 0)
    assert await scene.run() == 0
    await check(scene)
