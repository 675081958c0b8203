"""Threads that an older version left stuck, because their model refused what had become too long, go on."""

import gzip
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.runtime.narrow import Narrow, bytes_of, check_valid

import toolwright as tw
from toolwright.adapters.store.opening import open_sqlite
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.core.journal.store import Store
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus, by_hand_on

pytestmark = pytest.mark.anyio

WRITTEN = Path(__file__).parent / "journal_stuck.sql.gz"  # at the revision 0017
LIMIT = 12_000  # bytes that Michael's and the talker's model take


def answer(request: ModelRequest) -> ModelResponse:
    """Whoever hears something in the channel says so there."""
    last = request.messages[-1]
    if last.role != "user" or "spaceId: g" not in last.content:
        return ModelResponse(text="I see.")
    arguments = f'{{"channelId": "g", "text": "{request.who[0]} goes on"}}'
    return ModelResponse(calls=(ModelCall(id="c", name="send_message", arguments=arguments),))


def app(narrow: Narrow, wide: Narrow) -> tw.App:
    """The app whose threads the journal holds."""
    prompts = [
        tw.Prompt("michael", "You are Michael.", model=narrow),
        tw.Prompt("jim", "You are Jim.", model=wide),
    ]
    talker = tw.Agent("talker", tw.Prompt("talker", "You talk.", model=narrow))
    return tw.App(agents=[*[tw.Agent(each.name, each, toolkits=["channels"]) for each in prompts], talker])


async def unfinished(rt: Runtime) -> Sequence[Run]:
    return [each for each in await rt.runs.list(limit=100) if not each.over]


@pytest.mark.parametrize("says", [True, False])
async def test_stuck_threads_go_on_after_the_upgrade(says: bool, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as file:
        file.executescript(gzip.decompress(WRITTEN.read_bytes()).decode())
    upgrade_sqlite(path)

    async def opening(bus: MemoryBus) -> Store:
        return await open_sqlite(path, bus.publish)

    narrow = Narrow(answer, limit=LIMIT, says=says, counting=bytes_of)
    wide = Narrow(answer, limit=10**9, name="test:wide")
    async with by_hand_on(opening, app(narrow, wide)) as (rt, motor):
        assert (
            len(await unfinished(rt)) == 2
        )  # Michael's, which is asked again and again, and the one behind it
        await motor.run_timers()
        await motor.run_until_idle(500)
        assert await unfinished(rt) == []
        said = [each.message.content for each in await rt.spaces.messages("g", 100)]
        assert {"michael goes on", "jim goes on"} <= {*said}
        for name in ("michael", "jim"):
            assert {each.status for each in await rt.inboxes.list(name)} == {"processed"}
        [stuck] = [
            each for each in await rt.threads.list() if each.agent == (await rt.agents.get("talker")).id
        ]
        before = await rt.threads.messages(stuck.id, 100)
        for number in range(3):
            run = await rt.threads.send(stuck.id, f"And now? {number}")
            await motor.run_until_idle(500)
            assert (await rt.runs.get(run.id)).status == "completed"
        assert (await rt.threads.messages(stuck.id, 100))[: len(before)] == before
    assert narrow.refused and narrow.asked
    for request in narrow.asked:
        check_valid(request.messages)
