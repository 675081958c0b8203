"""Content that the provider refuses: sent again without pictures and reasoning; errors name the message."""

import json
from dataclasses import replace

import pytest
from pydantic_ai.models.fallback import FallbackModel

from tests.models.asking import MakeModel, answer_of, ask, assistant, request, tool, user
from tests.models.test_wire_rules import png, shots, shown
from tests.models.wire_server import WireCall, WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel, adapt
from toolwright.core.errors import ModelRefused
from toolwright.core.model import ModelRequest

pytestmark = pytest.mark.anyio

THREE = shots(png(1, 1, 0), png(1, 1, 1), png(1, 1, 2))


def apart(asked: ModelRequest) -> ModelRequest:
    """Return the request with an answer after each message."""
    answers = [replace(user("Seen.", f"a{number}"), role="assistant") for number in range(9)]
    pairs = [each for pair in zip(asked.messages, answers, strict=False) for each in pair]
    return replace(asked, messages=tuple(pairs[:-1]))


async def test_a_refused_picture_is_left_out_from_then_on_and_the_others_stay(
    model: PydanticAIModel, server: WireServer
) -> None:
    asked = apart(THREE)
    at = {"openai-chat:gpt-4o": "messages[3]", "openai:gpt-4o": "input[2]"}.get(model.name, "messages.2")
    server.fail(400, f"Invalid {at}: Could not process image")
    server.answer(text=("Seen.",))
    assert (await answer_of(model, asked)).text == "Seen."
    server.answer(text=("Seen.",))
    await ask(model, asked)
    assert [shown(each.body) for each in server.requests] == [3, 2, 2]
    assert json.dumps(server.requests[1].body).count("[File /attachments/") == 3
    for body in (server.requests[1].body, server.requests[2].body):
        sent = json.dumps(body)
        second = sent[sent.index("/1.png") : sent.index("/2.png")]
        assert "base64" not in second


async def test_where_no_message_is_named_all_pictures_are_left_out(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.fail(400, "Could not process image")
    server.answer(text=("Seen.",))
    assert (await answer_of(model, THREE)).text == "Seen."
    assert [shown(each.body) for each in server.requests] == [3, 0]


async def test_after_the_named_picture_all_are_left_out_and_then_the_run_fails_with_the_name(
    model: PydanticAIModel, server: WireServer
) -> None:
    asked = apart(THREE)
    at = {"openai-chat:gpt-4o": "messages[3]", "openai:gpt-4o": "input[2]"}.get(model.name, "messages.2")
    server.fail(400, f"Invalid {at}: no.", times=3)
    with pytest.raises(
        ModelRefused, match="It names the message 'm1'; `hide_message` takes it out"
    ) as raised:
        await ask(model, asked)
    assert raised.value.message_id == "m1"
    assert [shown(each.body) for each in server.requests] == [3, 2, 0]
    server.answer(text=("Seen.",))
    await ask(model, asked)
    assert shown(server.requests[-1].body) == 3  # they were not the cause


async def test_reasoning_that_is_refused_is_left_out(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(thinking=("Hm",), signature="sig-old", calls=[WireCall(name="search", id="c1")])
    response = await answer_of(model)
    answer = assistant(response, native=response.native)
    asked = request(user("Go"), answer, tool("c1", "Found"))
    server.fail(400, "messages.1.content.0: Invalid `signature` in `thinking` block")
    server.answer(text=("Seen.",))
    assert (await answer_of(model, asked)).text == "Seen."
    before, after = [json.dumps(each.body) for each in server.requests[1:]]
    assert "Hm" in before or "sig-old" in before
    assert "Hm" not in after and "sig-old" not in after
    assert "c1" in after


@pytest.mark.parametrize("status", [401, 403, 404, 402])
async def test_another_refusal_is_not_sent_again(
    model: PydanticAIModel, server: WireServer, status: int
) -> None:
    server.fail(status, "No.")
    with pytest.raises(ModelRefused):
        await ask(model, THREE)
    assert len(server.requests) == 1


async def test_a_request_without_pictures_and_reasoning_is_not_sent_again(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.fail(400, "messages.0: No.")
    with pytest.raises(ModelRefused):
        await ask(model, request(user("Go")))
    assert len(server.requests) == 1


async def test_a_model_of_a_chain_leaves_the_refused_picture_out_before_the_next_one_is_asked(
    make_model: MakeModel, server: WireServer
) -> None:
    chain = FallbackModel(make_model("openai-chat:gpt-4o").native, make_model("openai:gpt-4o").native)
    server.fail(400, "Could not process image")
    server.answer(text=("Seen.",))
    assert (await answer_of(adapt(chain), THREE)).text == "Seen."
    assert [each.path for each in server.requests] == ["/v1/chat/completions"] * 2
