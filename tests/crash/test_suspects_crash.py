"""A run kills each process that executes it: it fails in the end, and no other run waits for it or fails."""

import pytest

from tests.crash.processes import KILLED, Scene, processes_of
from tests.crash.suspects_child import FRESH
from tests.databases import opened
from toolwright.runtime.runs.worker import LAST_ISOLATED, SUSPECT_LIVES
from toolwright.testing import MemoryBus

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILLS = SUSPECT_LIVES + LAST_ISOLATED

processes = processes_of("suspects_child")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_runs_beside_one_that_kills_the_process_are_not_held_off(scene: Scene) -> None:
    for generation in range(1, KILLS + 1):
        assert await scene.run(generation=generation) == KILLED, generation
    assert await scene.run(generation=KILLS + 1) == 0
    store = await opened(scene.url, MemoryBus())
    runs = await store.runs(limit=1_000)
    await store.close()
    [harmful] = [each for each in runs if each.status == "failed"]
    assert harmful.error == f"The process died {LAST_ISOLATED} times while it executed this run."
    harmless = [each for each in runs if each.id != harmful.id]
    assert len(harmless) == (KILLS + 1) * (FRESH + 1)
    assert [each.status for each in harmless if each.status != "completed"] == [
        "running"
    ]  # of the last generation


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_suspect_can_be_cancelled_before_it_ends_another_process(scene: Scene) -> None:
    for generation in range(1, SUSPECT_LIVES + 2):
        assert await scene.run(generation=generation) == KILLED, generation
    assert await scene.run(generation=SUSPECT_LIVES + 2, cancels=True) == 0
