"""S3: rules for every tool, built-in tools, and which agents a visible call does not trigger."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.behaviour.house import ENTER, app, by_hand, call, calls, opened, tool
from tests.behaviour.marks import requirement
from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.agents.agent import TOOLKITS
from toolwright.core.agents.config import Identity, read_agent
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.model import ModelEvent, ModelRequest
from toolwright.runtime.agents.inboxes import Deliveries
from toolwright.runtime.spaces.membership import Membership
from toolwright.runtime.spaces.messages import Speech
from toolwright.runtime.toolkits.mind import MindToolkit
from toolwright.runtime.toolkits.spaces import SpacesToolkit
from toolwright.testing import MemoryStore, ScriptedModel

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
BUILT_IN = [*TOOLKITS["spaces"], *TOOLKITS["mind"]]


def configured(**fields: Any) -> dict[str, Any]:  # fields of an agent, any JSON
    return {"agent": {"system": "You host."}, "model": "test:none", **fields}


class Listening(ScriptedModel):
    """A model that records its requests."""

    requests: list[ModelRequest]

    def __init__(self, turns: Any) -> None:  # a script
        super().__init__(turns)
        self.requests = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        async for event in super().respond(request):
            yield event


@requirement("S3-1-1", "S3-1-2", "S3-2.1-2", "S3-2.1-3", "S3-10-2")
async def test_tools_of_every_type_are_offered_called_and_recorded_alike() -> None:
    url = {"url": "http://127.0.0.1:9/"}  # nothing listens at this port: the call is an error
    types = {
        "gateway": {"execution": url},
        "external": {"isAsync": True},
        "space": {"isAsync": True},
        "internal": {},
    }
    tools = [
        tool({"name": kind, "executionType": kind, "visible": True, **fields}, SCHEMA)
        for kind, fields in types.items()
    ]
    asked = [call(kind, city="Tokyo") for kind in types]
    model = Listening([calls(ENTER, *asked, call("get_plans")), {"text": "Done."}])
    prompt = tw.Prompt("host", "You host.", model=model, tools=tools)
    agents = [tw.Agent("host", prompt, toolkits=["spaces", "mind"])]
    async with journals.by_hand(tw.App(agents=agents)) as (rt, motor), opened(rt) as house:
        [run_id] = await house.says("Go")
        await motor.run_until_idle()
        offered = {each.name: each for each in model.requests[0].tools}
        assert [name for name in offered if name in types] == list(types)
        for kind in types:
            assert (offered[kind].description, offered[kind].parameters) == (
                "A tool of the document.",
                SCHEMA,
            )
        [step, _] = (await house.get(f"/api/runs/{run_id}"))["run"]["steps"]
        names = ["enter_space", *types, "get_plans"]
        for message_type in ("tool_call_message", "tool_return_message"):
            found = [each for each in step["messages"] if each["messageType"] == message_type]
            assert [each["toolName"] for each in found] == names
        shown = [each["metadata"] for each in await house.said()][1:]
        assert [(each["toolName"], each["args"]) for each in shown] == [
            (kind, {"city": "Tokyo"}) for kind in types
        ]
        assert [each["status"] for each in shown] == [
            "error", "requires_action", "requires_action", "complete",
        ]  # fmt: skip


@requirement("S3-1-3", "S3-5-2", "S3-5-3")
@pytest.mark.parametrize("visible", [True, False])
async def test_a_call_is_shown_in_the_space_only_if_it_is_visible(visible: bool) -> None:
    chart = {"name": "displayChart", "executionType": "internal", "visible": visible}
    turns = [calls(ENTER, call("displayChart", bars=[1])), {"text": "Done."}]
    async with by_hand(turns, [tool(chart)]) as (house, motor):
        await house.says("Go")
        await motor.run_until_idle()
        told = [each["type"] for each in await house.events("agent.inactive")]
        assert ("tool.started" in told, "tool.done" in told) == (visible, visible)
        assert len(await house.said()) == (2 if visible else 1)
        assert '{"success":true,"args":{"bars":[1]}}' in await house.mind()


@requirement("S3-6-1")
def test_a_configured_agent_has_the_built_in_tools_without_asking() -> None:
    agent = read_agent(configured(), Identity(name="host"), {}, trusted=True)
    assert [name for kit in agent.toolkits for name in TOOLKITS[kit]] == BUILT_IN
    assert len(BUILT_IN) == 12


@requirement("S3-6-1")
async def test_the_model_of_an_agent_with_toolkits_is_offered_all_twelve() -> None:
    model = Listening([{"text": "Hello."}])
    agent = tw.Agent("host", tw.Prompt("host", "You host.", model=model), toolkits=["spaces", "mind"])
    async with journals.by_hand(tw.App(agents=[agent])) as (rt, motor), opened(rt) as house:
        await house.says("Hi")
        await motor.run_until_idle()
        assert sorted(each.name for each in model.requests[0].tools) == sorted(BUILT_IN)


@requirement("S3-6-2")
@pytest.mark.parametrize("name", BUILT_IN)
def test_no_tool_takes_the_place_of_a_built_in_one(name: str) -> None:
    given: dict[str, Any] = {
        "name": name,
        "description": "Mine.",
        "inputSchema": {},
        "executionType": "internal",
    }
    with pytest.raises(InvalidConfiguration, match=f"'{name}' is the name of a built-in tool"):
        read_agent(configured(tools=[given]), Identity(name="host"), {}, trusted=True)
    with pytest.raises(DefinitionError, match="built-in"):
        app([{"text": "."}], [tw.Tool.from_config(given)])


@requirement("S3-6-15")
async def test_built_in_tools_are_invisible() -> None:
    async with journals.by_hand(app([{"text": "."}], [])) as (rt, _):
        store = MemoryStore(lambda _: None)
        agents = rt.agents
        speech = Speech(store, Membership(store, agents), Deliveries(store, agents, SystemClock(), new_id))
        tools = [*SpacesToolkit(rt.spaces, speech).tools, *MindToolkit(store).tools]
        assert [(each.name, each.visible) for each in tools] == [(name, False) for name in BUILT_IN]


@requirement("S3-8-5")
async def test_a_visible_call_wakes_no_other_agent_and_a_message_does() -> None:
    chart = tool({"name": "displayChart", "executionType": "internal", "visible": True})
    script = {
        "host": [calls(ENTER, call("displayChart")), {"text": "Shown."}],
        "scout": [{"text": "I heard."}],
    }
    async with by_hand(script, [chart], others=["scout"]) as (house, motor):
        assert len(await house.says("Show me")) == 2
        await motor.run_until_idle()
        assert [each["metadata"].get("type") for each in await house.said()] == [None, "tool_call"]
        assert len((await house.get("/api/runs"))["runs"]) == 2
        [heard] = [line for line in await house.mind("scout") if line.startswith("INBOX")]
        assert "displayChart" not in json.dumps(heard)
