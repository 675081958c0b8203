"""Streamed answers, over each provider's wire."""

import pytest

from tests.behaviour.marks import requirement
from tests.models.asking import MakeModel, answer_of, ask, only, request, user
from tests.models.wire_server import WireCall, WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.model import (
    CallDelta,
    ModelCall,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
)
from toolwright.core.threads.run import Usage

pytestmark = pytest.mark.anyio


async def test_text_streams_piece_by_piece_and_the_response_comes_last(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.answer(text=("Hel", "lo ", "there"))
    *deltas, response = await ask(model)
    assert deltas == [TextDelta(text="Hel"), TextDelta(text="lo "), TextDelta(text="there")]
    assert isinstance(response, ModelResponse)
    assert (response.text, response.calls, response.finish_reason) == ("Hello there", (), "stop")
    assert response.model.startswith(("gpt-4o", "claude"))


async def test_arguments_stream_as_partial_json(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(calls=[WireCall(name="search", arguments=('{"q"', ': "ca', 'ts"}'), id="call_9")])
    *deltas, response = await ask(model)
    assert deltas == [
        CallDelta(index=0, name="search", arguments=piece) for piece in ("", '{"q"', ': "ca', 'ts"}')
    ]
    assert isinstance(response, ModelResponse)
    assert response.calls == (ModelCall(id="call_9", name="search", arguments='{"q": "cats"}'),)
    assert response.finish_reason in {"tool_call", "stop"}


async def test_several_calls_keep_their_order_and_their_indices(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.answer(
        text=("Two at once",),
        calls=[
            WireCall(name="search", arguments=('{"q":"a"}',), id="call_a"),
            WireCall(name="search", arguments=('{"q":', '"b"}'), id="call_b"),
        ],
    )
    events = await ask(model)
    response = events[-1]
    assert isinstance(response, ModelResponse)
    assert [(call.id, call.arguments) for call in response.calls] == [
        ("call_a", '{"q":"a"}'),
        ("call_b", '{"q":"b"}'),
    ]
    assert [delta.index for delta in only(events, CallDelta)] == [0, 0, 1, 1, 1]
    assert response.text == "Two at once"


async def test_malformed_arguments_are_handed_over_as_written(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.answer(calls=[WireCall(name="search", arguments=('{"q": ', "oops"))])
    response = await answer_of(model)
    assert response.calls[0].arguments == '{"q": oops'


@pytest.mark.parametrize("written", ["", "null", " null\n", "{}"])
async def test_a_call_without_arguments_has_an_empty_object(
    model: PydanticAIModel, server: WireServer, written: str
) -> None:
    server.answer(calls=[WireCall(name="search", arguments=(written,))])
    assert [call.arguments for call in (await answer_of(model)).calls] == ["{}"]


async def test_thinking_streams_apart_from_the_text(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(thinking=("Hm", "mm"), text=("Yes",))
    events = await ask(model)
    assert "".join(delta.text for delta in only(events, ReasoningDelta)) == "Hmmm"
    assert "".join(delta.text for delta in only(events, TextDelta)) == "Yes"
    assert [each.reasoning for each in only(events, ModelResponse)] == ["Hmmm"]


async def test_usage_counts_cached_tokens_within_the_input(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.answer(text=("Hi",), input_tokens=100, output_tokens=20, cached_tokens=60)
    response = await answer_of(model)
    assert response.usage == Usage(input_tokens=100, output_tokens=20, cache_read_tokens=60)
    assert response.cost is not None
    assert 0 < response.cost < 0.01


async def test_the_cost_of_an_unknown_model_is_none(make_model: MakeModel, server: WireServer) -> None:
    model = make_model("openai-chat:no-such-model-anywhere")
    server.answer(text=("Hi",))
    assert (await answer_of(model)).cost is None


@requirement("S2-1-2", "S2-2.2-3")
async def test_system_text_tools_and_limits_reach_the_provider(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.answer(text=("Hi",))
    await ask(model, request(user("Hello")))
    [sent] = server.requests
    assert sent.body["stream"] is True
    assert "Be brief." in str(
        sent.body.get("system") or sent.body.get("instructions") or sent.body["messages"]
    )
    assert "Search the docs" in str(sent.body["tools"])
    if sent.path == "/v1/messages":
        assert sent.body["max_tokens"] == 16_384


@requirement("S2-8.3-1")
async def test_odd_tool_names_go_out_as_aliases_and_come_back_as_themselves(
    model: PydanticAIModel, server: WireServer
) -> None:
    names = ("wetter für Köln?", "a.b", "a/b", "x" * 80, "fine_name")
    tools = tuple(ToolDefinition(name=n, description=n, parameters={"type": "object"}) for n in names)
    server.answer(text=("Hi",))
    await ask(model, request(user("Hello"), tools=tools))
    sent = server.requests[0].body["tools"]
    assert isinstance(sent, list)
    aliases = [_tool_name(tool) for tool in sent]
    assert len(set(aliases)) == len(names)
    server.answer(
        calls=[WireCall(name=alias, id=f"call_{n}", arguments=("{}",)) for n, alias in enumerate(aliases)]
    )
    events = await ask(model, request(user("Hello"), tools=tools))
    response = events[-1]
    assert isinstance(response, ModelResponse)
    assert tuple(call.name for call in response.calls) == names
    assert {delta.name for delta in only(events, CallDelta)} == set(names)


def _tool_name(tool: object) -> str:
    match tool:
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            return name
        case _:
            raise AssertionError(tool)
