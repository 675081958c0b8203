"""S4: the six tools as offered to a model, the records of each, and the channels that they reach."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.behaviour.marks import requirement
from tests.kit import Watched, call, calls
from toolwright.core.agents.agent import ALTERNATIVE_TOOLKITS
from toolwright.core.json_value import JSONObject
from toolwright.core.spaces import SpaceKind

pytestmark = pytest.mark.anyio

SIGNATURES = {
    "send_message": {"channelId": "string", "text": "string"},
    "react_to_message": {"messageId": "string", "emoji": "string"},
    "do_nothing": {},
    "update_memory": {"label": "string", "content": "string"},
    "search_memory": {"query": "string"},
    "store_memory": {"content": "string", "tags": "array"},
}


def app_of(model: Watched) -> tw.App:
    michael = tw.Agent("michael", tw.Prompt("michael", "Be.", model=model), toolkits=ALTERNATIVE_TOOLKITS)
    return tw.App(agents=[michael])


async def spoken_to(
    model: Watched, spaces: Mapping[str, SpaceKind] = MappingProxyType({})
) -> tuple[list[tuple[str, Any]], list[str]]:  # any JSON
    """Return the calls of the run that Pam's message starts, with their results, and the messages by channel."""
    async with journals.by_hand(app_of(model)) as (rt, motor):
        pam = await rt.entities.create(external_id="pam", display_name="Pam")
        kinds: dict[str, SpaceKind] = {"general": "public", **spaces}
        for name, kind in kinds.items():
            await rt.spaces.create(name, kind, id=name, members=[pam.id, "michael"])
        spoken = await rt.spaces.say("general", pam.id, "Anyone?")
        await motor.run_until_idle()
        [run_id] = spoken.runs.values()
        run = await rt.runs.get(run_id)
        assert run.status == "completed", run.error
        messages = await rt.threads.messages(run.thread_id, 100)
        made = [each for message in messages for each in message.calls]
        returned = [each for each in messages if each.role == "tool"]
        assert [each.id for each in made] == [each.call_id for each in returned]
        said = [
            f"{name}: {each.message.content}" for name in kinds for each in await rt.spaces.messages(name)
        ]
        results = [json.loads(each.content) for each in returned]
        return [(one.name, result) for one, result in zip(made, results, strict=True)], said


def types_of(parameters: JSONObject) -> Mapping[str, object]:
    """Return the type of each parameter, without the null that can stand for an optional one."""
    properties: Any = parameters["properties"]  # JSON Schemas by name
    return {
        name: (schema if "type" in schema else schema["anyOf"][0])["type"]
        for name, schema in properties.items()
    }


@requirement("S4-2-1", "S4-4-1")
async def test_an_agent_is_offered_the_six_tools_with_the_printed_signatures_at_every_step() -> None:
    model = Watched([call("do_nothing"), {"text": "."}])
    await spoken_to(model)
    assert len(model.requests) == 2
    for request in model.requests:
        assert {each.name: types_of(each.parameters) for each in request.tools} == SIGNATURES
        required = [each.parameters.get("required", []) for each in request.tools]
        assert required.count([*SIGNATURES["send_message"]]) == 1
        assert ["content"] in required  # of store_memory: tags are optional


@requirement("S4-2.1-2", "S4-2.1-3")
async def test_a_message_reaches_a_public_a_private_and_a_direct_channel() -> None:
    sent = [call("send_message", channelId=each, text=f"To {each}") for each in ("general", "team", "dm-pam")]
    model = Watched([calls(*sent), {"text": "."}])
    records, said = await spoken_to(model, {"team": "private", "dm-pam": "dm"})
    assert said == ["general: Anyone?", "general: To general", "team: To team", "dm-pam: To dm-pam"]
    assert [[*result] for _, result in records] == [["messageId"]] * 3


@requirement("S4-3-3")
async def test_each_call_of_the_six_and_each_return_is_recorded_once_and_in_order() -> None:
    made = [
        call("store_memory", content="Tea", tags=["Pam"]),
        call("search_memory", query="tea"),
        call("update_memory", label="mood", content="Calm"),
        call("send_message", channelId="general", text="Hello"),
        call("react_to_message", messageId="nowhere", emoji="👍"),
        call("do_nothing"),
    ]
    records, _ = await spoken_to(Watched([calls(*made), {"text": "."}]))
    assert [name for name, _ in records] == [each["calls"][0]["name"] for each in made]
    results = [result for _, result in records]
    assert [[*each] for each in results] == [
        ["passageId"], ["passages"], ["success"], ["messageId"], ["error", "error_code"], ["action"],
    ]  # fmt: skip
    [passage] = results[1]["passages"]
    assert (passage["id"], passage["content"], passage["tags"]) == (results[0]["passageId"], "Tea", ["Pam"])


@requirement("S4-3-1")
@pytest.mark.parametrize(
    ("name", "args", "fault"),
    [
        ("send_message", {"channelId": 7, "text": "x"}, "channelId"),
        ("send_message", {"channelId": "general", "text": ["x"]}, "text"),
        ("send_message", {"channelId": "general"}, "text"),
        ("react_to_message", {"messageId": None, "emoji": "x"}, "messageId"),
        ("react_to_message", {"messageId": "x", "emoji": {"x": 1}}, "emoji"),
        ("do_nothing", {"because": "x"}, "because"),
    ],
)
async def test_arguments_that_the_schema_does_not_allow_are_an_error_that_names_them(
    name: str, args: dict[str, Any], fault: str
) -> None:
    records, said = await spoken_to(Watched([call(name, **args), {"text": "."}]))
    [(_, result)] = records
    assert fault in result["error"]
    assert said == ["general: Anyone?"]
