"""A process is killed while it sets a plan, or fires it: the next one fires it, once."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.crash.test_crash import KILLED, Processes
from tests.databases import opened
from tests.runtime.mind_rig import thinking
from toolwright.adapters.motor.manual import START
from toolwright.testing import ManualClock, MemoryBus

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    command = [sys.executable, "-m", "tests.crash.plan_child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield Processes(server)


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
