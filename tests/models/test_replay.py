"""The transcript as it is sent back to each provider in the next request."""

import json
from dataclasses import replace

import pytest

from tests.behaviour.marks import requirement
from tests.models.asking import SEARCH, MakeModel, answer_of, assistant, request, tool, user
from tests.models.wire_server import WireCall, WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.json_value import JSON
from toolwright.core.model import ModelCall, ModelResponse, ToolDefinition
from toolwright.core.schemas.provider_forms import alias_of
from toolwright.core.threads.message import Message, MessageCall

pytestmark = pytest.mark.anyio

CALLED = ModelResponse(
    text="I look.",
    calls=(
        ModelCall(id="call_a", name="search", arguments='{"q": "a"}'),
        ModelCall(id="call_b", name="search", arguments='{"q": "b"}'),
    ),
)


async def sent(model: PydanticAIModel, server: WireServer, *messages: Message) -> list[dict[str, JSON]]:
    """Return the conversation as the provider received it."""
    server.answer(text=("ok",))
    await answer_of(model, request(*messages))
    body = server.requests[-1].body
    items = body.get("messages") or body["input"]
    assert isinstance(items, list)
    return [item for item in items if isinstance(item, dict)]


def through_json(native: JSON) -> JSON:
    """Return the message that a journal would store for it."""
    return json.loads(json.dumps(native))


@requirement("S2-4.3-6")
async def test_results_return_in_the_tool_result_slot_under_the_models_own_ids(
    model: PydanticAIModel, server: WireServer
) -> None:
    items = await sent(
        model, server, user("Find"), assistant(CALLED), tool("call_a", "A!"), tool("call_b", "B!")
    )
    results = [result for item in items for result in _results(item)]
    assert results == [("call_a", "A!"), ("call_b", "B!")]
    assert "ours_" not in str(items)


def _results(item: dict[str, JSON]) -> list[tuple[JSON, JSON]]:
    """Return the tool results in one item of a conversation, for any wire format."""
    match item:
        case {"role": "tool", "tool_call_id": id, "content": text}:
            return [(id, text)]
        case {"type": "function_call_output", "call_id": id, "output": text}:
            return [(id, text)]
        case {"type": "tool_result", "tool_use_id": id, "content": [{"text": text}]}:
            return [(id, text)]
        case {"role": "user", "content": list(blocks)}:
            return [result for block in blocks if isinstance(block, dict) for result in _results(block)]
        case _:
            return []


async def test_malformed_arguments_can_be_replayed(model: PydanticAIModel, server: WireServer) -> None:
    broken = ModelResponse(calls=(ModelCall(id="call_a", name="search", arguments='{"q": oops'),))
    items = await sent(
        model, server, user("Find"), assistant(broken), tool("call_a", '{"error":"bad"}', failed=True)
    )
    assert "oops" in str(items)


async def test_a_failed_result_has_the_providers_error_flag_where_there_is_one(
    make_model: MakeModel, server: WireServer
) -> None:
    failed = (
        user("Find"),
        assistant(CALLED),
        tool("call_a", '{"error":"no"}', failed=True),
        tool("call_b", "B"),
    )
    items = await sent(make_model("anthropic:claude-sonnet-5-5"), server, *failed)
    blocks = items[-1]["content"]
    assert isinstance(blocks, list)
    assert [block.get("is_error") for block in blocks if isinstance(block, dict)] == [True, False]
    items = await sent(make_model("openai-chat:gpt-4o"), server, *failed)
    assert items[-2]["content"] == '{"error":"no"}'


async def test_a_message_that_came_between_a_call_and_its_result_follows_the_results(
    make_model: MakeModel, server: WireServer
) -> None:
    items = await sent(
        make_model("anthropic:claude-sonnet-5-5"),
        server,
        user("Find"),
        assistant(CALLED),
        user("Hurry!", "m9"),
        tool("call_a", "A"),
        tool("call_b", "B"),
    )
    blocks = items[-1]["content"]
    assert isinstance(blocks, list)
    assert [block["type"] for block in blocks if isinstance(block, dict)] == [
        "tool_result",
        "tool_result",
        "text",
    ]


async def test_thinking_returns_with_its_signature_after_the_journal(
    make_model: MakeModel, server: WireServer
) -> None:
    model = make_model("anthropic:claude-sonnet-5-5")
    server.answer(
        thinking=("Let me ", "see"),
        signature="signed-by-claude",
        text=("I look.",),
        calls=[WireCall(name="search", arguments=('{"q":"a"}',), id="call_a")],
    )
    answer = await answer_of(model)
    message = assistant(answer, native=through_json(answer.native))
    fresh = make_model("anthropic:claude-sonnet-5-5")
    items = await sent(fresh, server, user("Find"), message, tool("call_a", "A"))
    assert items[1]["content"] == [
        {"type": "thinking", "thinking": "Let me see", "signature": "signed-by-claude"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "call_a", "name": "search", "input": {"q": "a"}},
    ]


async def test_reasoning_items_return_to_the_responses_api_after_the_journal(
    make_model: MakeModel, server: WireServer
) -> None:
    model = make_model("openai:gpt-6.1-terra")
    server.answer(
        thinking=("Hmm",),
        signature="encrypted",
        calls=[WireCall(name="search", arguments=('{"q":"a"}',), id="call_a")],
    )
    answer = await answer_of(model)
    message = assistant(answer, native=through_json(answer.native))
    items = await sent(make_model("openai:gpt-6.1-terra"), server, user("Find"), message, tool("call_a", "A"))
    [reasoning] = [item for item in items if item.get("type") == "reasoning"]
    assert (reasoning["id"], reasoning["encrypted_content"]) == ("rs_1", "encrypted")
    [call] = [item for item in items if item.get("type") == "function_call"]
    assert (call["id"], call["call_id"]) == ("fc_call_a", "call_a")


async def test_an_answer_that_text_and_calls_say_whole_keeps_nothing_native(
    make_model: MakeModel, server: WireServer
) -> None:
    server.answer(text=("Hi",), calls=[WireCall(name="search")])
    assert (await answer_of(make_model("openai-chat:gpt-4o"))).native is None


async def test_the_journal_decides_ids_names_arguments_and_text_of_a_native_answer(
    make_model: MakeModel, server: WireServer
) -> None:
    model = make_model("anthropic:claude-sonnet-5-5")
    server.answer(
        thinking=("Hmm",),
        text=("the key is hunter22",),
        calls=[WireCall(name="search", arguments=('{"q":"hunter22"}',), id="call_a")],
    )
    answer = await answer_of(model)
    redacted = replace(
        assistant(answer, native=through_json(answer.native)),
        content="the key is [redacted:KEY]",
        calls=(
            MessageCall(id="o", name="search", arguments='{"q":"[redacted:KEY]"}', model_call_id="fresh_id"),
        ),
    )
    items = await sent(model, server, user("Find"), redacted, tool("fresh_id", "A"))
    assert "hunter22" not in str(items)
    blocks = items[1]["content"]
    assert isinstance(blocks, list)
    assert [block["type"] for block in blocks if isinstance(block, dict)] == ["thinking", "text", "tool_use"]
    assert "fresh_id" in str(blocks)


@pytest.mark.parametrize("native", [{"kind": "nonsense"}, "text", {"kind": "response", "parts": []}])
async def test_a_native_form_that_does_not_fit_is_left_out(
    model: PydanticAIModel, server: WireServer, native: JSON
) -> None:
    message = assistant(CALLED, native=native)
    items = await sent(model, server, user("Find"), message, tool("call_a", "A"), tool("call_b", "B"))
    assert "I look." in str(items)
    assert "call_b" in str(items)


async def test_aliases_are_the_same_in_replayed_calls_and_results(
    model: PydanticAIModel, server: WireServer
) -> None:
    name = "suche: Köln"
    called = ModelResponse(calls=(ModelCall(id="call_a", name=name, arguments="{}"),))
    server.answer(calls=[WireCall(name=alias_of(name), id="call_b")])
    odd = ToolDefinition(name=name, description="d", parameters=SEARCH.parameters)
    answer = await answer_of(
        model,
        request(user("Find"), assistant(called), tool("call_a", "A", name=name), tools=(odd,)),
    )
    assert answer.calls[0].name == name
    body = str(server.requests[-1].body)
    assert alias_of(name) in body
    assert "'name': 'suche: Köln'" not in body


async def test_an_alias_of_a_tool_that_is_no_longer_offered_still_maps_back(
    make_model: MakeModel, server: WireServer
) -> None:
    called = ModelResponse(calls=(ModelCall(id="call_a", name="a.b", arguments="{}"),))
    server.answer(calls=[WireCall(name=alias_of("a.b"), id="call_b")])
    answer = await answer_of(
        make_model("openai-chat:gpt-4o"),
        request(user("Find"), assistant(called), tool("call_a", "A", name="a.b")),
    )
    assert answer.calls[0].name == "a.b"


def test_no_real_name_can_be_another_ones_alias() -> None:
    alias = alias_of("a.b")
    assert alias_of("a.b") == alias
    assert alias_of(alias) not in {alias, "a.b"}
    assert alias_of("a_b") == "a_b"
    assert len(alias_of("ä" * 500)) <= 64
