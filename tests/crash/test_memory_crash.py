"""A process is killed while it writes to an agent's memory: everything is stored once, and indexed."""

from pathlib import Path

import pytest

from tests.crash.memory_child import AGENT
from tests.crash.processes import KILLED, Processes, processes_of
from tests.databases import opened
from tests.runtime.mind_rig import thinking
from toolwright.adapters.motor.manual import START
from toolwright.testing import ManualClock, MemoryBus

pytestmark = pytest.mark.anyio


processes = processes_of("memory_child")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("effect", ["SetBlock", "AddPassage"])
async def test_a_killed_process_has_written_to_the_memory_once(
    processes: Processes, when: str, effect: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    assert processes.run(folder=str(tmp_path), when=when, effect=effect) == KILLED
    store = await opened(url, MemoryBus())
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
