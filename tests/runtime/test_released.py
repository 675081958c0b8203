"""A finished run leaves nothing in the process, nor for its garbage collector. Its rows are in the journal."""

import gc
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

import toolwright as tw
from tests.kit import DONE, call, send_to
from toolwright import testing
from toolwright.runtime.context.context import RunContext
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio
CALLS = [call("add", a=1, b=2), call("child", message="Go on"), DONE]
BATCH = 100  # runs


@tw.tool(description="Add.")
async def add(state: tw.ThreadState, a: int, b: int) -> int:
    state.set_value("sum", a + b)
    return a + b


@pytest.fixture
def collected() -> Generator[list[object]]:
    """The garbage that the collector finds; it is disabled until the end of the test."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("toolkits", [[], ["spaces", "mind"], ["channels", "memory"]])
async def test_the_context_of_a_run_is_free_at_its_end(toolkits: list[str], collected: list[object]) -> None:
    child = tw.Agent("child", tw.Prompt("child", model=ScriptedModel([{"text": "Yes."}])))
    prompt = tw.Prompt("boss", "Work.", model=ScriptedModel(CALLS), tools=[add, child.as_tool("Ask it.")])
    boss = tw.Agent("boss", prompt, toolkits=toolkits)
    async with testing.by_hand(tw.App(agents=[boss, child])) as (rt, motor):
        run = await send_to(rt, "boss")
        await motor.run_until_idle()
        assert (await rt.runs.get(run.id)).output == "Done."
        gc.collect()
        assert [each for each in collected if isinstance(each, RunContext)] == []


def alive() -> Counter[str]:
    """Return the number of our live objects, by class."""
    gc.collect()
    kinds: list[type[object]] = [type(each) for each in gc.get_objects()]
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("toolwright"))


async def test_finished_runs_leave_no_object_behind(tmp_path: Path) -> None:
    model = ScriptedModel([{"when": "Go", **call("add", a=1, b=2)}, DONE])
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
