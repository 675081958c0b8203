"""Imported conversations of each form over the wire of each provider, sent by the real client libraries."""

from typing import Any

import pytest

import toolwright as tw
from tests.core.test_imports import ANTHROPIC, FORMS, PIXEL
from tests.models.test_wire_rules import SAFE
from tests.models.wire_server import WireServer
from tests.runtime.rig import running
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.adapters.models.providers.transcript import ANSWER_OPENS
from toolwright.core.json_value import JSON

pytestmark = pytest.mark.anyio


@tw.tool(description="Tell the weather.")
async def weather(city: str) -> str:
    return "Sun"


async def sent(model: PydanticAIModel, server: WireServer, messages: list[object]) -> list[dict[str, Any]]:
    """Return the conversation as the provider received it, with a message after it."""
    server.answer(text=("Sun.",))
    async with running(model, [weather]) as rig:
        thread = await rig.rt.threads.create("tester", messages=messages)
        run = await rig.rt.threads.send(thread.id, "And now?")
        run = await rig.rt.runs.wait(run.id, 60)
        assert run.status == "completed", run.error
    body: dict[str, Any] = server.requests[-1].body
    items: list[dict[str, Any]] = body.get("messages") or body["input"]
    return [item for item in items if item.get("role") != "system"]


def told(items: list[Any]) -> list[str]:  # of dictionaries
    """Return who says what in a conversation, for any wire format: texts, calls and results, with the calls' ids."""
    found: list[str] = []
    for item in items:
        match item:
            case {"type": "function_call", "call_id": id}:
                found.append(f"call {id}")
            case {"type": "function_call_output", "call_id": id} | {"role": "tool", "tool_call_id": id}:
                found.append(f"result {id}")
            case {"role": role, "content": list()}:
                found += [_block(each, role) for each in item["content"]]
            case {"role": role}:
                found += [role] * bool(item["content"])
                found += [f"call {each['id']}" for each in item.get("tool_calls") or ()]
            case _:
                found.append(str(item))
    return found


def _block(block: dict[str, Any], role: str) -> str:
    match block:
        case {"type": "tool_use", "id": id}:
            return f"call {id}"
        case {"type": "tool_result", "tool_use_id": id}:
            return f"result {id}"
        case _:
            return role


@pytest.mark.parametrize("form", FORMS)
async def test_a_conversation_of_each_form_is_valid_for_each_provider(
    form: str, model: PydanticAIModel, server: WireServer
) -> None:
    items = await sent(model, server, FORMS[form])
    assert told(items) == ["user", "assistant", "call c1", "result c1", "assistant", "user"]


async def test_open_calls_strange_ids_and_arguments_that_are_no_json_are_valid(
    model: PydanticAIModel, server: WireServer
) -> None:
    made: list[JSON] = [
        {
            "id": f"an id, of {'many ' * 20} characters",
            "function": {"name": "look here!", "arguments": "{bro"},
        },
        {"id": "same", "function": {"name": "weather", "arguments": ""}},
        {"id": "same", "function": {"name": "weather", "arguments": "{}"}},
    ]
    answer: JSON = {"role": "assistant", "tool_calls": made}
    result: JSON = {"role": "tool", "tool_call_id": "same", "content": ""}
    items = await sent(model, server, [answer, result])
    assert ANSWER_OPENS in str(items[0])  # no provider takes an answer first
    first, *pairs, last = told(items)
    assert (first, last) == ("user", "user")
    calls, results = pairs[:3], pairs[3:]
    ids = [each.removeprefix("call ") for each in calls]
    assert results == [f"result {id}" for id in ids] and len({*ids}) == 3
    assert all(SAFE.fullmatch(id) for id in ids)


async def test_a_picture_of_an_imported_message_is_shown(model: PydanticAIModel, server: WireServer) -> None:
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    source: JSON = {"type": "base64", "media_type": "image/png", "data": png}
    items = await sent(model, server, [{"role": "user", "content": [{"type": "image", "source": source}]}])
    assert png in str(items[0]) and PIXEL not in str(items)


async def test_reasoning_of_another_program_is_not_replayed(
    model: PydanticAIModel, server: WireServer
) -> None:
    assert "Ask the tool." not in str(await sent(model, server, ANTHROPIC))
