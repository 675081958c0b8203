"""A thread is handed over (S0 §1): the same thread and history, with another agent from the next step on."""

from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests import journals
from tests.behaviour.doors import over_http
from tests.behaviour.marks import requirement
from tests.kit import Watched, add, call, calls
from tests.runtime.talk import Talk, assert_answered, heard, says, talking

pytestmark = pytest.mark.anyio


class Needs(BaseModel):
    project: str


@tw.tool(description="Needs a project.", tenvs=Needs)
async def needy(state: tw.ThreadState) -> str:
    return "needy"


ask = tw.Tool(
    name="ask", description="Ask outside.", kind="external", timeout=20.0, parameters={"type": "object"}
)


def expert(model: object, tools: Any = (), **options: Any) -> tw.Agent:
    prompt = tw.Prompt("knows", "You know.", model=model, tools=tools)
    return tw.Agent("expert", prompt, expose_as_tool=True, tool_description="Knows.", **options)


def front(model: object, *tools: Any, **options: Any) -> tw.Agent:
    return tw.Agent("front", tw.Prompt("greets", "You greet.", model=model, tools=list(tools)), **options)


@requirement("S0-1-3")
async def test_the_next_step_is_the_other_agents_in_the_same_thread_with_the_same_history() -> None:
    asks, knows = (
        Watched([{"text": "One moment.", **call("expert")}]),
        Watched([call("add", a=1, b=2), {"text": "3."}]),
    )
    app = tw.App(agents=[front(asks, "expert"), expert(knows, [add])])
    async with talking(app, "front") as talk:
        run = await talk.say("Go")
        assert (run.status, run.output, run.step_count) == ("completed", "3.", 3)
        answers = "expert answers from now on."
        assert heard(knows, 0) == [("user", "Go"), ("assistant", "One moment."), ("tool", answers)]
        assert knows.requests[0].system == "You know."
        assert [tool.name for tool in knows.requests[0].tools] == ["add"]
        assert [tool.name for tool in asks.requests[0].tools] == ["expert"]
        assert_answered(knows)
        thread = await talk.rt.threads.get(talk.thread_id)
        assert thread.active_agent == (await talk.rt.agents.get("expert")).id != thread.agent


async def test_what_is_left_of_the_same_answer_is_executed_with_the_old_tools() -> None:
    asks = Watched([calls(call("expert"), call("add", a=1, b=2))])
    async with talking(tw.App(agents=[front(asks, "expert", add), expert(says("Hello."))]), "front") as talk:
        await talk.say("Go")
        assert (await talk.results())[1] == "3"


async def test_that_holds_over_a_wait_that_parks_the_run() -> None:
    asks, knows = Watched([calls(call("expert"), call("ask"), call("add", a=1, b=2))]), says("Hello.")
    app = tw.App(agents=[front(asks, "expert", ask, add), expert(knows)])
    async with journals.by_hand(app) as (rt, motor):
        talk = Talk(rt, (await rt.threads.create("front")).id)
        sent = await rt.threads.send(talk.thread_id, "Go")
        await motor.run_until_idle()
        [waiting] = await rt.calls.list()
        await rt.calls.submit(sent.id, waiting.id, "said")
        await motor.run_until_idle()
        assert (await talk.results())[1:] == ["said", "3"]
        assert (await rt.runs.get(sent.id)).output == "Hello."
        assert len(knows.requests) == 1


async def test_it_stays_over_runs() -> None:
    asks, knows = Watched([call("expert")]), Watched([{"when": "Go", "text": "b"}, {"text": "Hello."}])
    async with talking(tw.App(agents=[front(asks, "expert"), expert(knows)]), "front") as talk:
        await talk.say("First")
        await talk.say("Go")
        assert len(asks.requests) == 1
        assert len(knows.requests) == 2


async def test_a_handler_hands_over_by_queueing_the_agent() -> None:
    @tw.tool(description="Route.")
    async def route(state: tw.ThreadState) -> str:
        state.queue_tool("expert")
        return "routed"

    knows = says("Hello.")
    app = tw.App(agents=[front(Watched([call("route")]), route, "expert"), expert(knows)])
    async with talking(app, "front") as talk:
        run = await talk.say("Go")
        assert (run.output, await talk.results()) == ("Hello.", ["routed", "expert answers from now on."])
        assert_answered(knows)


async def test_or_by_calling_it() -> None:
    @tw.tool(description="Route.")
    async def route(state: tw.ThreadState) -> str:
        return str((await state.invoke_tool("expert")).result)

    app = tw.App(agents=[front(Watched([call("route")]), route, "expert"), expert(says("Hello."))])
    async with talking(app, "front") as talk:
        assert (await talk.say("Go")).output == "Hello."


async def test_agents_hand_over_back_and_forth() -> None:
    asks = Watched([{"when": "Go", **call("expert")}, {"when": "front answers", "text": "I am back."}])
    knows = Watched([{"when": "expert answers", **call("front")}])
    shown = {"expose_as_tool": True, "tool_description": "Greets."}
    app = tw.App(agents=[front(asks, "expert", **shown), expert(knows, ["front"])])
    async with talking(app, "front") as talk:
        run = await talk.say("Go")
        assert run.output == "I am back."
        assert await talk.results() == ["expert answers from now on.", "front answers from now on."]


async def test_an_agent_without_required_tenvs_does_not_take_over() -> None:
    asks = Watched([call("expert"), {"text": "I stay."}])
    async with talking(
        tw.App(agents=[front(asks, "expert"), expert(says("Never."), [needy])]), "front"
    ) as talk:
        run = await talk.say("Go")
        assert run.output == "I stay."
        [error] = await talk.results()
        assert "project" in error
        assert (await talk.rt.threads.get(talk.thread_id)).active_agent is None


async def test_it_may_use_what_the_thread_brings() -> None:
    asks = Watched([call("expert")])
    app = tw.App(agents=[front(asks, "expert"), expert(Watched([call("needy"), {"text": "Hi."}]), [needy])])
    async with talking(app, "front", tenvs={"project": "x"}) as talk:
        await talk.say("Go")
        assert (await talk.results())[1] == "needy"


async def test_from_within_a_prompt_tool() -> None:
    below = tw.Prompt(
        "routes", tool_description="Routes.", expose_as_tool=True, tools=["expert"],
        model=Watched([call("expert"), {"text": "Routed."}]),
    )  # fmt: skip
    asks = Watched([call("routes", message="x"), {"text": "Never."}])
    app = tw.App(agents=[front(asks, "routes"), expert(says("Hello."))], prompts=[below])
    async with talking(app, "front") as talk:
        assert (await talk.say("Go")).output == "Hello."
        assert await talk.made() == [("", "routes", "done"), ("1", "expert", "done")]


async def test_a_home_thread_is_handed_over_with_the_toolkits_of_either() -> None:
    asks, knows = Watched([call("expert")]), Watched([call("set_memories", memories=[]), {"text": "Hello."}])
    app = tw.App(agents=[front(asks, "expert", toolkits=["spaces"]), expert(knows, toolkits=["mind"])])
    async with journals.runtime(app) as rt:
        event = await rt.inboxes.trigger("front", "billing")
        [run] = await rt.runs.list()
        assert (await rt.runs.wait(run.id, 10)).output == "Hello."
        assert "enter_space" in [tool.name for tool in asks.requests[0].tools]
        assert [tool.name for tool in knows.requests[0].tools if tool.name == "enter_space"] == []
        [memories] = [m for m in await rt.threads.messages(event.thread_id) if m.tool_name == "set_memories"]
        assert memories.status == "success"


async def test_the_calls_of_the_new_agent_are_its_own() -> None:
    app = tw.App(
        agents=[
            front(Watched([call("expert")]), "expert"),
            expert(Watched([call("add", a=1, b=1), {"text": "."}]), [add]),
        ]
    )
    async with talking(app, "front") as talk:
        await talk.say("Go")
        thread = await talk.rt.threads.get(talk.thread_id)
        assert [each.agent for each in await talk.calls()] == [thread.agent, thread.active_agent]


async def test_a_thread_over_http_says_who_answers_in_it() -> None:
    app = tw.App(agents=[front(Watched([call("expert")]), "expert"), expert(says("Hello."))])
    async with journals.runtime(app) as rt, over_http(rt) as client:
        front_id, expert_id = [(await rt.agents.get(name)).id for name in ("front", "expert")]
        thread = (await client.post("/api/threads", json={"agentId": "front"})).json()["thread"]
        assert (thread["agentId"], thread["activeAgentId"]) == (front_id, None)
        sent = (await client.post(f"/api/threads/{thread['id']}/messages", json={"content": "Go"})).json()
        await rt.runs.wait(sent["runId"], 10)
        thread = (await client.get(f"/api/threads/{thread['id']}")).json()["thread"]
        assert (thread["agentId"], thread["activeAgentId"]) == (front_id, expert_id)
