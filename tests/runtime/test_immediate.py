"""Immediate calls of a prompt, once per activation: at the thread's first step, or after a handoff (S0 §5)."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.kit import DONE, Watched, call
from tests.runtime.family_rig import RESUMABLE, home, until, worker
from tests.runtime.talk import talking
from toolwright.core.errors import DefinitionError
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse

pytestmark = pytest.mark.anyio
FLAGGED: dict[str, Any] = {"immediate": True, "optional": "FLAG"}


class ByThread:
    """A model that passes on its message, and says that it is done once it has an answer."""

    name = "test:passes-on"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        if request.messages[-1].role == "tool":
            yield ModelResponse(text="Done.")
        else:
            yield ModelResponse(calls=(ModelCall(id="c", name="worker", arguments='{"message": "Go on"}'),))


@tw.tool(description="Turns the flag on.")
async def turn_on(state: tw.ThreadState) -> str:
    state.set_env("FLAG", "yes", "text")
    return "on"


@requirement("S0-5-4")
@pytest.mark.parametrize("neighbour", [False, True])
async def test_what_is_turned_on_after_the_first_step_is_not_run_at_once(neighbour: bool) -> None:
    other = tw.Agent(
        "other",
        tw.Prompt("other", "You help.", model=Watched([DONE])),
        expose_as_tool=True,
        tool_description="Helps.",
    )
    one: Any = {"name": "worker", **FLAGGED}
    tools = [turn_on, one, *([{"name": "other", "immediate": True}] if neighbour else [])]
    prompt = tw.Prompt("boss", "You lead.", model=Watched([call("turn_on"), DONE, DONE]), tools=tools)
    app = tw.App(agents=[tw.Agent("boss", prompt), worker([DONE]), other])
    async with talking(app, "boss") as talk:
        await talk.say()
        await talk.say()
        made = [each.agent for each in await talk.rt.threads.children(talk.thread_id)]
        assert made == ([other.id] if neighbour else [])


@requirement("S0-5-4")
async def test_values_that_come_after_the_first_step_make_no_children() -> None:
    immediate = {"nameEnv": "SITE", "scopedEnv": ["SITE"]}
    async with home(worker([DONE]), {"immediate": immediate}, [DONE, DONE]) as at:
        thread = await at.ran()
        await at.rt.threads.set_env(thread.id, {"SITE_A": {"value": "Alpha", "type": "text"}})
        await at.run(thread.id)
        assert await at.children(thread.id) == []


@requirement("S0-1-3", "S0-5-4")
async def test_who_takes_over_from_the_other_side_runs_its_children_once() -> None:
    expert = tw.Agent(
        "expert",
        tw.Prompt(
            "knows", "You know.", model=Watched([DONE] * 3), tools=[{"name": "worker", "immediate": True}]
        ),
        expose_as_tool=True,
        tool_description="Knows.",
    )
    asks = tw.Prompt("asks", "You ask.", model=Watched([{"text": "What now?"}]))
    hands = tw.Prompt("hands", "You hand over.", model=Watched([call("expert")]), tools=["expert"])
    pair = tw.Agent("pair", type="dual_ai", side_a=tw.Side(asks), side_b=tw.Side(hands), max_session_turns=4)
    app = tw.App(agents=[pair, expert, worker([DONE] * 3)])
    async with talking(app, "pair") as talk:
        first = await talk.say()
        assert (first.status, first.side, first.output) == ("completed", "side_a", "Done.")
        second = await talk.say()
        assert (second.status, second.output) == ("completed", "Done.")
        assert len(await talk.rt.threads.children(talk.thread_id)) == 1


@requirement("S0-1-3")
async def test_who_takes_over_has_steps_of_its_own() -> None:
    knows = Watched([call("turn_on"), call("turn_on"), call("turn_on"), DONE])
    expert = tw.Agent(
        "expert",
        tw.Side(tw.Prompt("knows", "You know.", model=knows, tools=[turn_on]), max_steps=2),
        expose_as_tool=True,
        tool_description="Knows.",
    )
    asks = Watched([call("turn_on"), call("turn_on"), call("expert")])
    front = tw.Agent(
        "front", tw.Side(tw.Prompt("asks", "You ask.", model=asks, tools=[turn_on, "expert"]), max_steps=4)
    )
    async with talking(tw.App(agents=[front, expert]), "front") as talk:
        run = await talk.say()
        assert (run.stop_reason, run.step_count, len(knows.requests)) == ("max_steps", 5, 2)


class Topic(BaseModel):
    topic: str
    question: str = ""


@requirement("S0-5-4")
async def test_an_agent_with_a_schema_gets_what_the_thread_was_begun_with() -> None:
    agent = worker([DONE], required_schema=Topic)
    config = {"immediate": True, "initUserMessageProperty": "question"}
    async with home(agent, config, [DONE]) as at:
        thread = await at.ran("Why?", arguments={"topic": "rain", "other": 1})
        [child] = await at.children(thread.id)
        assert child.arguments == {"topic": "rain", "question": "Why?"}
        assert await at.heard(child.id) == ["Why?"]


@requirement("S0-5-4")
async def test_one_that_lives_on_and_has_a_schema_gets_the_same() -> None:
    async with home(
        worker([DONE], required_schema=Topic), {"immediate": True, **RESUMABLE}, [DONE, DONE]
    ) as at:
        thread = await at.ran("Why?", arguments={"topic": "rain"})
        [child] = await at.children(thread.id)
        assert (child.name, child.arguments) == ("worker", {"topic": "rain", "question": ""})
        assert await at.heard(child.id) == ["Why?"]


@requirement("S0-5-6")
async def test_a_designated_name_is_asked_for_as_text() -> None:
    needs = [tw.Variable("SITE", type="secret")]
    config = {"immediate": {"nameEnv": "SITE", "scopedEnv": ["SITE"]}}
    async with home(worker([DONE]), config, [DONE], variables=needs) as at:
        thread = await at.thread()
        run = await at.rt.threads.send(thread.id, "Go")

        async def asked() -> bool:
            return bool(await at.rt.requests.list(thread.id))

        await until(at.rt, thread.id, asked)
        [request] = await at.rt.requests.list(thread.id)
        assert [(each.name, each.type) for each in request.required] == [("SITE", "text")]
        await at.rt.requests.answer(thread.id, request.id, {"SITE": "Alpha"})
        assert (await at.rt.runs.wait(run.id, 10)).status == "completed"
        assert [child.name for child in await at.children(thread.id)] == ["Alpha"]


@requirement("S0-5-5")
async def test_a_blank_name_or_description_is_none() -> None:
    immediate = {"nameEnv": "SITE", "descriptionEnv": "ABOUT", "scopedEnv": ["SITE", "ABOUT"]}
    env = {name: {"value": value, "type": "text"} for name, value in {"SITE": "  ", "ABOUT": ""}.items()}
    async with home(worker([DONE]), {"immediate": immediate}, [DONE]) as at:
        thread = await at.ran("Begin", env=env)
        [child] = await at.children(thread.id)
        assert (child.name, child.tags) == (None, ())
        assert await at.heard(child.id) == ["Begin"]


def test_agents_that_start_each_other_without_end_are_refused() -> None:
    def agent(name: str, other: str) -> tw.Agent:
        prompt = tw.Prompt(name, model=Watched([]), tools=[{"name": other, "immediate": True}])
        return tw.Agent(name, prompt, expose_as_tool=True, tool_description="Runs.")

    with pytest.raises(
        DefinitionError, match=r"^Agents start each other immediately, without end: a → b → a\.$"
    ):
        tw.App(agents=[agent("a", "b"), agent("b", "a")])
    with pytest.raises(DefinitionError, match=r"without end: a → a\.$"):
        tw.App(agents=[agent("a", "a")])
    itself = tw.Prompt("b", model=Watched([]), tools=[{"name": "a", "immediate": True}])
    pair: dict[str, Any] = {"type": "dual_ai", "side_a": tw.Prompt("a", model=Watched([])), "side_b": itself}
    with pytest.raises(DefinitionError, match=r"without end: a → a\.$"):
        tw.App(agents=[tw.Agent("a", **pair, expose_as_tool=True, tool_description="Runs.")])


async def test_agents_that_call_each_other_in_a_circle_come_to_an_end() -> None:
    model = ByThread()
    prompt = tw.Prompt("worker", "You pass it on.", model=model, tools=[{"name": "worker"}])
    agent = tw.Agent("worker", prompt, expose_as_tool=True, tool_description="Works.")
    async with talking(tw.App(agents=[agent]), "worker", tw.Settings(max_subagent_depth=3)) as talk:
        assert (await talk.say()).status == "completed"
        depth, below = 0, await talk.rt.threads.children(talk.thread_id)
        while below:
            depth, last = depth + 1, below[0]
            below = await talk.rt.threads.children(last.id)
        assert depth == 3
    refused = [m.content for request in model.requests for m in request.messages if m.role == "tool"]
    error = "Agents can call each other at most 3 deep, and this one is at that depth."
    assert json.loads(refused[0]) == {"error": error, "error_code": "too_deep"}


@requirement("S0-1-3")
async def test_who_takes_over_at_the_last_step_of_the_one_before_speaks_all_the_same() -> None:
    expert = tw.Agent(
        "expert",
        tw.Prompt("knows", "You know.", model=Watched([{"text": "I know."}])),
        expose_as_tool=True,
        tool_description="Knows.",
    )
    asks = tw.Prompt("asks", "You ask.", model=Watched([call("expert")]), tools=["expert"])
    front = tw.Agent("front", tw.Side(asks, max_steps=1))
    async with talking(tw.App(agents=[front, expert]), "front") as talk:
        run = await talk.say()
        assert (run.stop_reason, run.output) == ("end_turn", "I know.")
