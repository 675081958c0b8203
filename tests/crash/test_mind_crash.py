"""A process is killed while its agent writes its memory, or sets or fires a plan: each is stored, and fires, once."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.crash.mind_child import AGENT
from tests.crash.processes import KILLED, Processes, processes_of
from tests.databases import opened
from tests.runtime.mind_rig import thinking
from toolwright.adapters.motor.manual import START
from toolwright.testing import ManualClock, MemoryBus

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("when", ["before", "after"])]

processes = processes_of("mind_child")


@pytest.mark.parametrize("effect", ["SetBlock", "AddPassage"])
async def test_a_killed_process_has_written_to_the_memory_once(
    processes: Processes, when: str, effect: str, tmp_path: Path
) -> None:
    assert processes.run(folder=str(tmp_path), when=when, effect=effect) == KILLED
    store = await opened(f"sqlite:///{tmp_path / 'journal.db'}", MemoryBus())
    async with thinking(store, ManualClock(START), agents=[AGENT]) as mind:
        kept = (await mind.rt.blocks.list("thinker"), await mind.rt.passages.search("thinker", "green"))
        before = (effect == "AddPassage", False) if when == "before" else (True, effect == "AddPassage")
        assert tuple(bool(each) for each in kept) == before
        mind.clock.advance(3_600)
        await mind.motor.run_until_idle()
        [block] = await mind.rt.blocks.list("thinker")
        assert block.content == "glad"
        found = await mind.rt.passages.search("thinker", "green")
        assert [each.content for each in found] == ["Tea is green."] * (effect == "AddPassage")
    await store.close()


@pytest.mark.parametrize("effect", ["SetPlan", "FirePlan"])
async def test_a_killed_process_has_set_and_fired_a_plan_once(
    processes: Processes, when: str, effect: str, tmp_path: Path
) -> None:
    assert processes.run(folder=str(tmp_path), when=when, effect=effect) == KILLED
    store = await opened(f"sqlite:///{tmp_path / 'journal.db'}", MemoryBus())
    async with thinking(store, ManualClock(START + timedelta(hours=3)), agents=[AGENT]) as mind:
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
