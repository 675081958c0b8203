"""What a parent gives to its children alone no model below, beside or after them is shown (S0 §5, D6)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.runtime.family_rig import DONE, call, worker
from tests.watched import Watched
from toolwright import testing

pytestmark = pytest.mark.anyio

ENV: Mapping[str, Any] = {
    "API_KEY_A": {"value": "plain-key-of-a", "type": "text"},
    "API_KEY_B": {"value": "plain-key-of-b", "type": "text"},
}
HIDDEN: Mapping[str, Any] = {"name": "worker", "immediate": {"scopedEnv": ["API_KEY"]}}


@tw.tool(description="Tells all that it knows.")
async def tell(state: tw.ThreadState) -> str:
    names = ("API_KEY", "API_KEY_A", "API_KEY_B")
    return "; ".join([f"{name} is {await state.env(name)}" for name in names])


def shown(*models: Watched) -> list[str]:
    """All that these models were told by tools."""
    asked = [request for model in models for request in model.requests]
    return [m.content for request in asked for m in request.messages if m.role == "tool"]


def boss(turns: Sequence[object], *tools: Any) -> tw.Agent:
    return tw.Agent("boss", tw.Prompt("boss", "You lead.", model=Watched(turns), tools=[HIDDEN, *tools]))


@requirement("S0-5-10")
async def test_neither_a_child_nor_who_it_calls_is_shown_what_its_group_or_another_one_got() -> None:
    deep = Watched([call("tell"), DONE] * 4)
    helper = tw.Agent(
        "helper",
        tw.Prompt("helper", "You help.", model=deep, tools=[tell]),
        expose_as_tool=True,
        tool_description="Helps.",
    )
    working = Watched([call("tell"), call("helper", message="Tell"), DONE] * 4)
    prompt = tw.Prompt("worker", "You work.", model=working, tools=[tell, {"name": "helper"}])
    one = tw.Agent("worker", tw.Side(prompt), expose_as_tool=True, tool_description="Works.")
    async with testing.runtime(tw.App(agents=[boss([DONE]), one, helper])) as rt:
        thread = await rt.threads.create("boss", env=dict(ENV))
        run = await rt.threads.send(thread.id, "Go")
        assert (await rt.runs.wait(run.id, 10)).status == "completed"
        assert len(await rt.threads.children(thread.id)) == 2
    for model in (deep, working):
        told = shown(model)
        assert any("[redacted:API_KEY" in text for text in told)
        assert not [text for text in told if "plain-key" in text]


@requirement("S0-5-10")
async def test_who_a_thread_is_handed_over_to_is_shown_none_of_it_either() -> None:
    knows = Watched([call("tell"), DONE, call("tell"), DONE])
    expert = tw.Agent(
        "expert",
        tw.Prompt("knows", "You know.", model=knows, tools=[tell]),
        expose_as_tool=True,
        tool_description="Knows.",
    )
    app = tw.App(agents=[boss([call("expert")], "expert"), worker([DONE] * 2), expert])
    async with testing.runtime(app) as rt:
        thread = await rt.threads.create("boss", env=dict(ENV))
        for _ in range(2):
            run = await rt.threads.send(thread.id, "Go")
            assert (await rt.runs.wait(run.id, 10)).status == "completed"
    told = shown(knows)
    assert any("[redacted:API_KEY_A]" in text for text in told)
    assert not [text for text in told if "plain-key" in text]
