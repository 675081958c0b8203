"""Answers of servers that deviate from their wire: odd chunks of chat completions, bodies that are not streams."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from openai._streaming import SSEDecoder

from tests.models import wire_anthropic, wire_openai_chat, wire_openai_responses
from tests.models.asking import MakeModel, answer_of, ask, assistant, only, request, tool, user
from tests.models.wire_answer import WireAnswer, WireCall
from tests.models.wire_server import WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.adapters.models.providers.streams import Decoder
from toolwright.core.errors import ModelRefused, ModelUnavailable
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import CallDelta, ModelResponse, TextDelta

pytestmark = pytest.mark.anyio

USAGE: JSONObject = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


@pytest.fixture
def chat(make_model: MakeModel) -> PydanticAIModel:
    """A model over chat completions."""
    return make_model("openai-chat:gpt-4o")


def frame(body: JSON) -> str:
    return f"data: {json.dumps(body)}\n\n"


def chunk(delta: JSON = None, finish: JSON = None, **more: JSON) -> str:
    """Return a chunk as a frame; one without a delta has no choices."""
    choices: list[JSON] = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body: JSONObject = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
    }
    return frame({**body, **more})


def stream(*deltas: JSON, finish: JSON = "stop", **more: JSON) -> str:
    """Return a whole stream; the fields of `more` are in each chunk."""
    frames = [chunk(delta, **more) for delta in deltas]
    return "".join([*frames, chunk({}, finish, **more), chunk(usage=USAGE), "data: [DONE]\n\n"])


def piece(arguments: JSON = None, name: JSON = None, **more: JSON) -> JSONObject:
    """Return a delta with one piece of one call."""
    function: JSONObject = {"name": name, "arguments": arguments}
    call: JSONObject = {
        "type": "function",
        "function": {k: v for k, v in function.items() if v is not None},
        **more,
    }
    return {"tool_calls": [call]}


ONE: JSONObject = {"a": 1}
TWO: JSONObject = {"a": 2}
ODD_CALLS: dict[str, tuple[list[JSONObject], list[tuple[str | None, str, JSON]]]] = {
    "the name in each chunk": (
        [
            piece("", "add", index=0, id="c1"),
            piece('{"a"', "add", index=0, id="c1"),
            piece(": 1}", "add", index=0, id="c1"),
        ],
        [("c1", "add", ONE)],
    ),
    "the name in each chunk, without ids": (
        [piece('{"a"', "add", index=0), piece(": 1}", "add", index=0)],
        [(None, "add", ONE)],
    ),
    "the name so far in each chunk": (
        [piece(None, "ad", index=0, id="c1"), piece(None, "add", index=0), piece('{"a": 1}', index=0)],
        [("c1", "add", ONE)],
    ),
    "the name in pieces": (
        [piece(None, "ad", index=0, id="c1"), piece(None, "d", index=0), piece('{"a": 1}', index=0)],
        [("c1", "add", ONE)],
    ),
    "an empty name in later chunks": (
        [piece('{"a"', "add", index=0, id="c1"), piece(": 1}", "", index=0, id="")],
        [("c1", "add", ONE)],
    ),
    "one index for all": (
        [piece('{"a": 1}', "add", index=0, id="c1"), piece('{"a": 2}', "sub", index=0, id="c2")],
        [("c1", "add", ONE), ("c2", "sub", TWO)],
    ),
    "one index for all, in pieces": (
        [
            piece("", "add", index=0, id="c1"),
            piece('{"a": 1}', index=0),
            piece("", "add", index=0, id="c2"),
            piece('{"a"', index=0),
            piece(": 2}", index=0),
        ],
        [("c1", "add", ONE), ("c2", "add", TWO)],
    ),
    "one index for all in one chunk": (
        [
            {
                "tool_calls": [
                    {"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}},
                    {"index": 0, "id": "c2", "function": {"name": "add", "arguments": '{"a": 2}'}},
                ]
            }
        ],
        [("c1", "add", ONE), ("c2", "add", TWO)],
    ),
    "one index for all, without ids": (
        [piece('{"a": 1}', "add", index=0), piece('{"a": 2}', "add", index=0)],
        [(None, "add", ONE), (None, "add", TWO)],
    ),
    "no index": (
        [piece('{"a": 1}', "add", id="c1"), piece('{"a"', "add", id="c2"), piece(": 2}")],
        [("c1", "add", ONE), ("c2", "add", TWO)],
    ),
    "no index, the ids alone": (
        [
            piece("", "add", id="c1"),
            piece("", "sub", id="c2"),
            piece('{"a": 1}', id="c1"),
            piece('{"a": 2}', id="c2"),
        ],
        [("c1", "add", ONE), ("c2", "sub", TWO)],
    ),
    "no index in later chunks": (
        [piece('{"a"', "add", index=0, id="c1"), piece(": 1}")],
        [("c1", "add", ONE)],
    ),
    "another id in each chunk": (
        [piece('{"a"', "add", index=0, id="c1"), piece(": 1}", index=0, id="c2")],
        [("c1", "add", ONE)],
    ),
    "ids that are numbers": (
        [piece('{"a": 1}', "add", index=0, id=7), piece('{"a": 2}', "sub", index=1, id=8)],
        [("7", "add", ONE), ("8", "sub", TWO)],
    ),
    "an index that is text": (
        [
            piece('{"a"', "add", index="0", id="c1"),
            piece('{"a": 2}', "sub", index="1", id="c2"),
            piece(": 1}", index="0"),
        ],
        [("c1", "add", ONE), ("c2", "sub", TWO)],
    ),
    "arguments that are an object": ([piece(ONE, "add", index=0, id="c1")], [("c1", "add", ONE)]),
    "a legacy function call": (
        [{"function_call": {"name": "add", "arguments": '{"a"'}}, {"function_call": {"arguments": ": 1}"}}],
        [(None, "add", ONE)],
    ),
    "a legacy function call with its name in each chunk": (
        [
            {"function_call": {"name": "add", "arguments": '{"a"'}},
            {"function_call": {"name": "add", "arguments": ": 1}"}},
        ],
        [(None, "add", ONE)],
    ),
    "one id for two indices": (
        [piece('{"a": 1}', "add", index=0, id="c"), piece('{"a": 2}', "sub", index=1, id="c")],
        [("c", "add", ONE), ("c", "sub", TWO)],
    ),
}


@pytest.mark.parametrize("kind", ODD_CALLS)
async def test_a_call_is_read_from_odd_chunks(chat: PydanticAIModel, server: WireServer, kind: str) -> None:
    deltas, calls = ODD_CALLS[kind]
    server.send(stream(*deltas, finish="function_call" if "legacy" in kind else "tool_calls"))
    events = await ask(chat)
    response = events[-1]
    assert isinstance(response, ModelResponse)
    assert [(call.name, json.loads(call.arguments)) for call in response.calls] == [
        each[1:] for each in calls
    ]
    for call, (call_id, _, _) in zip(response.calls, calls, strict=True):
        assert isinstance(call.id, str) and call.id == (call_id or call.id)
    streamed = [
        "".join(d.arguments for d in only(events, CallDelta) if d.index == n) for n in range(len(calls))
    ]
    assert [json.loads(each) for each in streamed] == [each[2] for each in calls]
    assert response.finish_reason == "tool_call"


@pytest.mark.parametrize("kind", ["ids that are numbers", "a legacy function call", "one id for two indices"])
async def test_odd_calls_can_be_sent_back(chat: PydanticAIModel, server: WireServer, kind: str) -> None:
    deltas, _ = ODD_CALLS[kind]
    server.send(stream(*deltas, finish="tool_calls"), stream({"content": "Done"}))
    first = await answer_of(chat)
    answer = assistant(first, native=first.native)
    calls = [replace(call, id=f"ours_{number}") for number, call in enumerate(answer.calls)]
    results = [
        replace(tool(call.model_call_id, "3", name=call.name), id=f"r_{call.id}", call_id=call.id)
        for call in calls
    ]
    await answer_of(chat, request(user("Go"), replace(answer, calls=tuple(calls)), *results))
    sent: Any = server.requests[-1].body["messages"]
    ids = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
    assert all(isinstance(each, str) for each in ids) and len({*ids}) == len(first.calls)
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ids


@pytest.mark.parametrize(
    "used",
    [
        [{**USAGE, "completion_tokens": 1, "total_tokens": 11}, USAGE, USAGE],
        [{"prompt_tokens": 10, "completion_tokens": 0}, None, {"prompt_tokens": 0, "completion_tokens": 2}],
        [{**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}, USAGE],
        [{**USAGE, "prompt_tokens_details": None}, {"prompt_tokens": None, "completion_tokens": "none"}],
    ],
)
async def test_usage_in_each_chunk_is_cumulative(
    chat: PydanticAIModel, server: WireServer, used: list[JSON]
) -> None:
    frames = [chunk({"content": "Hi"}, usage=each) for each in used]
    server.send("".join([*frames, chunk({}, "stop"), "data: [DONE]\n\n"]))
    usage = (await answer_of(chat)).usage
    assert (usage.input_tokens, usage.output_tokens) == (10, 2)
    assert usage.cache_read_tokens == (4 if "cached_tokens" in json.dumps(used) else 0)


@pytest.mark.parametrize(
    "odd",
    [
        {"id": 7},
        {"id": None, "model": None, "created": None},
        {"created": "yesterday", "model": 5, "object": None},
        {"service_tier": 3, "system_fingerprint": 4},
        {"usage": "none", "moderation": None},
    ],
)
async def test_odd_fields_of_chunks_do_not_lose_the_answer(
    chat: PydanticAIModel, server: WireServer, odd: JSONObject
) -> None:
    server.send(stream({"content": "Hel"}, {"content": "lo"}, **odd), stream({"content": "Again"}))
    first = await answer_of(chat)
    assert first.text == "Hello"
    again = await answer_of(chat, request(user("Go"), assistant(first, native=first.native), user("More")))
    assert again.text == "Again"


async def test_chunks_of_whole_messages_are_read(chat: PydanticAIModel, server: WireServer) -> None:
    message: JSONObject = {"role": "assistant", "content": "Hello"}
    choice: JSONObject = {"index": 0, "message": message, "finish_reason": "stop"}
    server.send(chunk(choices=[choice]) + "data: [DONE]\n\n")
    events = await ask(chat)
    assert [delta.text for delta in only(events, TextDelta)] == ["Hello"]


async def test_a_message_after_its_pieces_is_not_read_twice(
    chat: PydanticAIModel, server: WireServer
) -> None:
    choice: JSONObject = {"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}
    server.send(chunk({"content": "Hello"}) + chunk(choices=[choice]) + "data: [DONE]\n\n")
    assert (await answer_of(chat)).text == "Hello"


WIRES = {"openai-chat": wire_openai_chat, "openai": wire_openai_responses, "anthropic": wire_anthropic}


def wire(model: PydanticAIModel) -> Any:  # a module
    return WIRES[model.name.partition(":")[0]]


TYPES = pytest.mark.parametrize(
    "content_type", ["application/json", "text/event-stream", "text/html; charset=utf-8"]
)


async def test_an_event_beyond_the_limit_ends_the_answer(model: PydanticAIModel, server: WireServer) -> None:
    server.send(*['data: {"text": "' + "x" * 17 * 1024**2] * 3)
    with pytest.raises(ModelUnavailable, match=r"the server sent an event of more than 16 MiB\."):
        await ask(model)


async def test_others_run_before_a_large_event_is_parsed() -> None:
    """The SDK decodes and parses an event in one go. Each of both takes milliseconds for each megabyte."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def arrived(*frames: str) -> AsyncGenerator[bytes]:
        for each in frames:
            yield each.encode()

    task = asyncio.create_task(others())
    await asyncio.sleep(0)  # it begins
    for size, pauses in ((100, False), (1_000_000, True)):
        decoder = Decoder(SSEDecoder(), "m")
        events = aiter(decoder.aiter_bytes(arrived(chunk({"content": "x" * size}))))
        turns = 0
        event = await anext(events)
        assert len(event.json()["choices"][0]["delta"]["content"]) == size
        assert (turns > 0) is pauses
    task.cancel()


@TYPES
async def test_an_answer_that_is_not_streamed_is_read(
    model: PydanticAIModel, server: WireServer, content_type: str
) -> None:
    answer = WireAnswer(
        text=("Hello",), calls=(WireCall(name="search", arguments=('{"q": "cats"}',), id="c1"),)
    )
    server.send(json.dumps(wire(model).whole(answer, "m"), indent=1), content_type=content_type)
    events = await ask(model)
    response = events[-1]
    assert isinstance(response, ModelResponse)
    assert response.text == "Hello"
    assert [(each.name, json.loads(each.arguments)) for each in response.calls] == [("search", {"q": "cats"})]
    assert "".join(each.text for each in only(events, TextDelta)) == "Hello"
    assert response.usage.input_tokens == 11
    assert response.finish_reason in {"tool_call", "stop"}


async def test_a_legacy_call_that_is_not_streamed_is_read(chat: PydanticAIModel, server: WireServer) -> None:
    message: JSONObject = {"role": "assistant", "function_call": {"name": "search", "arguments": "{}"}}
    choice: JSONObject = {"index": 0, "message": message}
    server.send(json.dumps({"id": 7, "choices": [choice]}), content_type="application/json")
    response = await answer_of(chat)
    assert [(each.name, each.arguments) for each in response.calls] == [("search", "{}")]


@TYPES
async def test_the_message_of_an_error_with_status_200_is_kept(
    model: PydanticAIModel, server: WireServer, content_type: str
) -> None:
    body = json.dumps({"error": {"message": "The cluster sleeps", "type": "odd"}})
    server.send(*[body] * 3, content_type=content_type)
    with pytest.raises(ModelUnavailable, match=r"The cluster sleeps\."):
        await ask(model)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": "No such deployment"}, "No such deployment."),
        ({"message": "No such deployment"}, "No such deployment."),
        ({"detail": "No such deployment"}, "No such deployment"),
        ({"error": {"message": "Out of credit", "code": "insufficient_quota"}}, "Out of credit."),
        ({"error": {"message": "Bad model", "code": 404}}, "Bad model."),
        ([1, 2], "[1,2]."),
    ],
)
async def test_errors_with_status_200_have_their_message(
    model: PydanticAIModel, server: WireServer, body: JSON, message: str
) -> None:
    server.send(*[json.dumps(body)] * 3, content_type="application/json")
    with pytest.raises((ModelUnavailable, ModelRefused)) as caught:
        await ask(model)
    assert message in caught.value.message
    refused = "code" in json.dumps(body)
    assert isinstance(caught.value, ModelRefused if refused else ModelUnavailable)
    assert len(server.requests) == (1 if refused else 3)


@TYPES
async def test_the_text_of_a_page_with_status_200_is_kept(
    model: PydanticAIModel, server: WireServer, content_type: str
) -> None:
    head = "<!doctype html><html><head><title>Proxy</title><style>b {x: y}</style></head>"
    page = f"{head}<body><!-- x > y --><p>Sign &amp; go</p></body></html>"
    server.send(*[page] * 3, content_type=content_type)
    with pytest.raises(ModelUnavailable, match=r"not a stream: Proxy Sign & go\."):
        await ask(model)


async def test_an_error_chunk_without_its_envelope_has_its_message(
    chat: PydanticAIModel, server: WireServer
) -> None:
    server.send(*[frame({"object": "error", "message": "No such model", "code": 404})] * 3)
    with pytest.raises(ModelRefused, match=r"\(404\): No such model\."):
        await ask(chat)


@pytest.mark.parametrize(
    "odd",
    [
        frame(5),
        frame([{}]),
        frame("Hi"),
        chunk(choices="none"),
        chunk(choices=[5]),
        chunk("Hi"),
        chunk({"tool_calls": "none"}),
        chunk({"tool_calls": [5]}),
        chunk({"tool_calls": [{"function": 5}]}),
        chunk({"function_call": "add"}),
        "data: Sign in\n\n",
    ],
)
async def test_a_chunk_of_another_form_is_no_defect(
    chat: PydanticAIModel, server: WireServer, odd: str
) -> None:
    server.send(odd)
    server.answer(text=("Hi",))
    assert (await answer_of(chat)).text == "Hi"


async def test_an_empty_body_is_asked_again(model: PydanticAIModel, server: WireServer) -> None:
    server.send("", ": nothing\n\n")
    server.answer(text=("Hi",))
    assert (await answer_of(model)).text == "Hi"
