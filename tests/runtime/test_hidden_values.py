"""Values that a parent passes to its children alone are never shown to other models of the thread tree (S0 §5, D6)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.kit import DONE, Watched, call, send_to
from tests.runtime.family_rig import journal, worker
from toolwright import testing
from toolwright.runtime.threads.thread_tree import child_id_of

pytestmark = pytest.mark.anyio


class Wants(BaseModel):
    topic: str


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
    """Return all tool results in the requests of these models."""
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
        run = await send_to(rt, "boss", env=dict(ENV))
        assert (await rt.runs.wait(run.id, 10)).status == "completed"
        assert len(await rt.threads.children(run.thread_id)) == 2
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


@requirement("S0-5-10")
async def test_nor_is_who_takes_over_shown_what_comes_in_that_very_run() -> None:
    @tw.tool(description="Sets one more.")
    async def put(state: tw.ThreadState) -> str:
        state.set_env("API_KEY_C", "plain-key-of-c", "text")
        return "put"

    @tw.tool(description="Tells the new one.")
    async def show(state: tw.ThreadState) -> str:
        return f"API_KEY_C is {await state.env('API_KEY_C')}"

    knows = Watched([call("put"), call("show"), DONE])
    expert = tw.Agent(
        "expert",
        tw.Prompt("knows", "You know.", model=knows, tools=[put, show]),
        expose_as_tool=True,
        tool_description="Knows.",
    )
    app = tw.App(agents=[boss([call("expert")], "expert"), worker([DONE] * 2), expert])
    async with testing.runtime(app) as rt:
        run = await send_to(rt, "boss", env=dict(ENV))
        assert (await rt.runs.wait(run.id, 10)).status == "completed"
    assert shown(knows)[-1] == "API_KEY_C is [redacted:API_KEY_C]"


@requirement("S0-5-10")
async def test_a_child_that_never_begins_leaves_none_of_the_values_meant_for_it() -> None:
    prompt = tw.Prompt("worker", model=Watched([DONE]), required_schema=Wants)
    needs = tw.Agent("worker", prompt, expose_as_tool=True, tool_description="Works.")
    async with testing.runtime(tw.App(agents=[boss([DONE]), needs])) as rt:
        run = await send_to(rt, "boss", env=dict(ENV))
        assert (await rt.runs.wait(run.id, 10)).status == "completed"
        made = [message for message in await rt.threads.messages(run.thread_id) if message.role == "tool"]
        assert len(made) == 2
        assert all("invalid_arguments" in message.content for message in made)
        for message in made:
            assert await journal(rt).env_of(child_id_of(str(message.call_id))) == []


@requirement("S0-5-10")
async def test_nor_does_one_that_is_refused_by_the_one_who_would_begin_it() -> None:
    lasting = worker([DONE] * 2)
    limited: Mapping[str, Any] = {
        "name": "worker",
        "immediate": {"scopedEnv": ["API_KEY"]},
        "resumable": {"receives_messages": "side_a", "maxInstances": 1},
    }
    lead = tw.Agent("boss", tw.Prompt("boss", "You lead.", model=Watched([DONE]), tools=[limited]))
    async with testing.runtime(tw.App(agents=[lead, lasting])) as rt:
        run = await send_to(rt, "boss", env=dict(ENV))
        assert (await rt.runs.wait(run.id, 10)).status == "completed"
        made = [message for message in await rt.threads.messages(run.thread_id) if message.role == "tool"]
        [refused] = [message for message in made if "max_instances" in message.content]
        assert await journal(rt).env_of(child_id_of(str(refused.call_id))) == []
        [child] = await rt.threads.children(run.thread_id)
        assert [row.name for row in await journal(rt).env_of(child.id)] == ["API_KEY"]


@requirement("S0-5-10")
async def test_nor_is_one_shown_that_was_set_by_the_very_call() -> None:
    @tw.tool(description="Sets and tells.")
    async def put(state: tw.ThreadState) -> str:
        state.set_env("API_KEY", "plain-key-of-d", "text")
        return f"now {await state.env('API_KEY')}"

    leads = tw.Prompt("boss", "You lead.", model=Watched([call("put"), DONE]), tools=[put, HIDDEN])
    async with testing.runtime(tw.App(agents=[tw.Agent("boss", leads), worker([DONE])])) as rt:
        run = await send_to(rt, "boss")
        assert (await rt.runs.wait(run.id, 10)).status == "completed"
        [told] = [
            message.content for message in await rt.threads.messages(run.thread_id) if message.role == "tool"
        ]
        assert told == "now [redacted:API_KEY]"
