"""`state.tenvs` as an instance of the declared model, and descriptions of files that are passed between threads."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.kit import DONE, call, ran
from tests.runtime.family_rig import worker
from tests.runtime.test_entry_limit import InTurn
from toolwright import testing

pytestmark = pytest.mark.anyio


class Shop(BaseModel):
    name: str
    floor: int = 1

    @property
    def sign(self) -> str:
        return f"{self.name}, floor {self.floor}"

    def greet(self, who: str) -> str:
        return f"{who} at {self.sign}"


@tw.tool(description="Look.", tenvs=Shop)
async def look(state: tw.ThreadState) -> list[Any]:
    tenvs: Any = state.tenvs
    is_shop = isinstance(state.tenvs, Shop)
    assert is_shop
    return [tenvs.sign, tenvs.greet("Ann"), tenvs.other, tenvs["name"], sorted(tenvs), tenvs.model_dump()]


SEEN = [
    "Tea, floor 1",
    "Ann at Tea, floor 1",
    "more",
    "Tea",
    ["name", "other"],
    {"name": "Tea", "floor": 1},
]
TENVS: dict[str, Any] = {"name": "Tea", "other": "more"}


async def test_tenvs_have_the_properties_and_methods_of_the_declared_model() -> None:
    model = testing.ScriptedModel([call("look"), DONE])
    app = tw.App(agents=[tw.Agent("desk", instructions="", model=model, tools=[look])])
    async with testing.runtime(app) as rt:
        run = await ran(rt, "desk", tenvs=TENVS)
        [made] = (await rt.runs.result(run.id)).calls
    assert made.result is not None
    assert made.result.result == SEEN


async def test_they_have_them_in_a_state_in_memory_too() -> None:
    state = testing.MemoryState(tenvs=TENVS)
    assert (await tw.Toolset([look]).call("look", {}, state)).result == SEEN
    assert type(state.tenvs).__name__ == "Tenvs"
    with pytest.raises(AttributeError, match="no tenv 'colour'"):
        _ = state.tenvs.colour


@tw.tool(description="Draw.")
async def draw(state: tw.ThreadState, way: str) -> tw.ToolResult:
    ref = replace(await state.write_file("/chart.txt", b"x"), description="sales of May")
    if way == "notify":
        await state.notify_parent("Look.", [ref])
    if way == "queue":
        await state.queue_message("Look.", [ref])
    return tw.ToolResult.ok("drawn", (ref,) if way == "result" else ())


@pytest.mark.parametrize("way", ["result", "notify", "queue"])
async def test_a_description_crosses_threads_with_its_file(way: str) -> None:
    child = worker([call("draw", way=way), DONE], [draw])
    named: Any = {"name": "worker", "blocking": False}
    turns = [call("draw", way=way) if way == "queue" else call("worker", message="Do"), DONE, DONE]
    prompt = tw.Prompt("boss", "You lead.", model=InTurn(turns), tools=[named, draw])
    async with testing.by_hand(tw.App(agents=[tw.Agent("boss", prompt), child])) as (rt, motor):
        thread = await rt.threads.create("boss")
        await rt.threads.send(thread.id, "Go")
        await motor.run_until_idle()
        said = await rt.threads.messages(thread.id, 100)
    assert "sales of May" in [ref.description for each in said for ref in each.attachments]
