"""What a prompt runs at once, once for each activation: the thread's first step, or the one after a handoff (S0 §5)."""

from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.runtime.family_rig import DONE, Watched, call, home, worker
from tests.runtime.talk import talking

pytestmark = pytest.mark.anyio
FLAGGED: dict[str, Any] = {"immediate": True, "optional": "FLAG"}


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
        thread = await at.thread()
        await at.run(thread.id)
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
