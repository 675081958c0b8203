"""A finished run leaves nothing for the garbage collector, for any length of its thread."""

import gc
from collections.abc import Generator
from typing import Any

import pytest

import toolwright as tw
from tests.kit import send_to
from toolwright import testing
from toolwright.runtime.context.context import RunContext
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio
CALLS: list[Any] = [
    {"calls": [{"name": "add", "args": {"a": 1, "b": 2}}]},
    {"calls": [{"name": "child", "args": {"message": "Go on"}}]},
    {"text": "Done."},
]


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
