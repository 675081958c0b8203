"""A cancellation before and after every unit of a run with nested calls, and of a run with two sides."""

from typing import Any

import pytest

import toolwright as tw
from tests.databases import OpenStore, store_on
from tests.kit import Watched, add, call, calls
from tests.runtime.interfering import cancelled_at
from tests.runtime.rig import Rig, assert_valid, running
from tests.runtime.talk import says
from toolwright.core.value import changed

pytestmark = pytest.mark.anyio

UNITS = 21  # of the undisturbed run after its PostMessage


store = store_on("memory", "postgres")


@tw.tool(description="Call.")
async def caller(state: tw.ThreadState) -> str:
    state.queue_tool("add", {"a": 3, "b": 3})
    await state.invoke_tool("add", {"a": 1, "b": 1})
    await state.invoke_tool("deep", {"message": "x"})
    return "called"


def parts() -> dict[str, Any]:
    """Return the agent's tools: a prompt that calls another, and a handler that calls both."""
    shown: dict[str, Any] = {"tool_description": "Sums.", "expose_as_tool": True}
    below = Watched([calls(call("add", a=1, b=2), call("deep", message="x")), {"text": "Sum."}])
    deep = Watched([call("add", a=1, b=2), {"text": "Deep."}])
    return {
        "model": Watched([calls(call("sums", message="x"), call("caller")), {"text": "Done."}]),
        "tools": [add, caller, "sums", "deep"],
        "prompts": [
            tw.Prompt("sums", model=below, tools=[add, "deep"], **shown),
            tw.Prompt("deep", model=deep, tools=[add], **shown),
        ],
    }


async def cancel_at(rig: Rig, n: int, when: str) -> None:
    """Cancel the run at that unit, and check the remaining state."""
    thread_id, _ = await cancelled_at(rig, n, when)
    said = await rig.transcript(thread_id)
    assert_valid([changed(message, seq=place) for place, message in enumerate(said, 1)])
    left = await rig.rt.calls.list(status=None, limit=200)
    assert {each.status for each in left} <= {"done", "error"}
    assert (await rig.rt.threads.get(thread_id)).run_id is None


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(1, UNITS + 1))
async def test_a_cancel_at_any_point_leaves_nothing_open_within(n: int, when: str, store: OpenStore) -> None:
    async with running(store=store, **parts()) as rig:
        await cancel_at(rig, n, when)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(1, 7))
async def test_a_cancel_in_the_turn_of_either_side(n: int, when: str, store: OpenStore) -> None:
    other = tw.Prompt("other", model=Watched([call("add", a=1, b=2), {"text": "b1"}]), tools=[add])
    options = {"type": "dual_ai", "side_b": other, "max_session_turns": 1}
    model = Watched([call("add", a=1, b=2), {"text": "a1"}])
    async with running(model, [add], store=store, options=options) as rig:
        await cancel_at(rig, n, when)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(1, 5))
async def test_a_cancel_while_a_thread_is_handed_over(n: int, when: str, store: OpenStore) -> None:
    knows = tw.Agent(
        "expert", tw.Prompt("knows", model=says("Hi.")), expose_as_tool=True, tool_description="Knows."
    )
    async with running(Watched([call("expert")]), ["expert"], store=store, agents=[knows]) as rig:
        await cancel_at(rig, n, when)
