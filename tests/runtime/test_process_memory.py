"""Finished runs leave nothing in the process. Their rows are in the journal, here a file."""

import gc
from collections import Counter
from pathlib import Path

import pytest

import toolwright as tw
from tests.kit import call, send_to
from toolwright import testing

pytestmark = pytest.mark.anyio
BATCH = 100  # runs


@tw.tool(description="Adds.")
async def add(state: tw.ThreadState, a: int, b: int) -> int:
    state.set_value("sum", a + b)
    return a + b


def alive() -> Counter[str]:
    """Return the number of our live objects, by class."""
    gc.collect()
    kinds: list[type[object]] = [type(each) for each in gc.get_objects()]
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("toolwright"))


async def test_finished_runs_leave_no_object_behind(tmp_path: Path) -> None:
    model = testing.ScriptedModel([{"when": "Go", **call("add", a=1, b=2)}, {"text": "Done."}])
    app = tw.App(agents=[tw.Agent("adder", tw.Prompt("adder", "Add.", model=model, tools=[add]))])
    async with app.runtime(tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")) as rt:

        async def batch() -> None:
            for _ in range(BATCH):
                run = await send_to(rt, "adder")
                assert (await rt.runs.wait(run.id, 20)).status == "completed"

        await batch()
        first = alive()
        await batch()
        more = alive() - first
    del more["_Secrets"]  # one for each cancelled timer, until its due time: asyncio keeps at most a hundred
    assert {name: count for name, count in more.items() if count >= BATCH / 10} == {}, (
        "something for each run"
    )
