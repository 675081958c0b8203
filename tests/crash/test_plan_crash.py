"""A process is killed while it sets or fires a plan: the next one fires it once."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.crash.processes import KILLED, Processes, processes_of
from tests.databases import opened
from tests.runtime.mind_rig import thinking
from toolwright.adapters.motor.manual import START
from toolwright.testing import ManualClock, MemoryBus

pytestmark = pytest.mark.anyio


processes = processes_of("plan_child")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("effect", ["SetPlan", "FirePlan"])
async def test_a_killed_process_has_set_and_fired_a_plan_once(
    processes: Processes, when: str, effect: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    assert processes.run(folder=str(tmp_path), when=when, effect=effect) == KILLED
    store = await opened(url, MemoryBus())
    async with thinking(store, ManualClock(START + timedelta(hours=3))) as mind:
        await mind.motor.run_until_idle()
        set_again = effect == "SetPlan" and when == "before"
        assert [plan.next_run_at for plan in await mind.rt.minds.plans("thinker")] == (
            [START + timedelta(hours=4)] if set_again else []
        )
        await mind.turn_to(START + timedelta(hours=5))
        [event] = await mind.fired()
        assert (event.status, event.content["name"]) == ("processed", "Tea")
        assert await mind.rt.minds.plans("thinker") == []
    await store.close()
