"""Conversations from elsewhere: the form is recognized, calls are paired with results, and errors name the place."""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from pydantic_ai import messages as pydantic_ai

from toolwright.core.errors import InvalidRequest
from toolwright.core.imports.conversation import NO_RESULT, opened, read_conversation, recognized
from toolwright.core.imports.message import MAX_IMPORTED, ImportedMessage
from toolwright.core.json_value import JSON
from toolwright.core.threads.message import Message, MessageCall

PIXEL = base64.b64encode(b"pixel").decode()
NOW = datetime(2026, 11, 20, tzinfo=UTC)

OWN: list[object] = [
    {"id": "m1", "role": "user", "content": "Weather?", "createdAt": "2026-11-20T00:00:00Z"},
    {
        "role": "assistant",
        "content": "I look.",
        "toolCalls": [{"id": "c1", "name": "weather", "arguments": '{"city": "Bern"}'}],
        "reasoning": "Ask the tool.",
    },
    {"role": "tool", "content": "Rain", "toolCallId": "c1", "toolName": "weather", "toolStatus": "success"},
    {"role": "assistant", "content": "It rains."},
]
CHAT: list[object] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Ask the tool.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "Rain"},
    {"role": "assistant", "content": "It rains."},
]
RESPONSES: list[object] = [
    {"role": "developer", "content": "Be brief."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Ask the tool."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Bern"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "Rain"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It rains."}],
    },
]
ANTHROPIC: list[object] = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Ask the tool.", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Bern"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "Rain"}]}
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "It rains."}]},
]
OBJECTS: list[pydantic_ai.ModelMessage] = [
    pydantic_ai.ModelRequest(
        [pydantic_ai.SystemPromptPart("Be brief."), pydantic_ai.UserPromptPart("Weather?", timestamp=NOW)],
        instructions="Be brief.",
    ),
    pydantic_ai.ModelResponse(
        [
            pydantic_ai.ThinkingPart("Ask the tool."),
            pydantic_ai.TextPart("I look."),
            pydantic_ai.ToolCallPart("weather", {"city": "Bern"}, "c1"),
        ]
    ),
    pydantic_ai.ModelRequest([pydantic_ai.ToolReturnPart("weather", "Rain", "c1")]),
    pydantic_ai.ModelResponse([pydantic_ai.TextPart("It rains.")]),
]
JSON_OF_OBJECTS: list[object] = pydantic_ai.ModelMessagesTypeAdapter.dump_python(OBJECTS, mode="json")
ROWS: list[object] = [
    Message(id="m1", role="user", content="Weather?", seq=1, run_id="run_1", created_at=NOW),
    Message(
        id="m2",
        role="assistant",
        content="I look.",
        calls=(MessageCall(id="c1", name="weather", arguments='{"city": "Bern"}', model_call_id="x"),),
        reasoning="Ask the tool.",
        created_at=NOW,
    ),
    Message(
        id="m3",
        role="tool",
        content="Rain",
        call_id="c1",
        tool_name="weather",
        status="success",
        created_at=NOW,
    ),
    Message(id="m4", role="assistant", content="It rains.", created_at=NOW),
]

FORMS = {
    "toolwright": OWN,
    "openai": CHAT,
    "openai-responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "pydantic-ai": JSON_OF_OBJECTS,
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_recognized(form: str) -> None:
    assert recognized(opened(FORMS[form])) == form


@pytest.mark.parametrize("messages", [*FORMS.values(), OBJECTS, ROWS], ids=[*FORMS, "objects", "rows"])
def test_one_conversation_reads_the_same_in_each_form(messages: Sequence[object]) -> None:
    said, called, result, answered = read_conversation(messages)
    assert (said.role, said.content) == ("user", "Weather?")
    assert (called.role, called.content, called.reasoning) == ("assistant", "I look.", "Ask the tool.")
    [call] = called.calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("c1", "weather", {"city": "Bern"})
    assert (result.role, result.call_id, result.tool_name) == ("tool", "c1", "weather")
    assert (result.content, result.status) == ("Rain", "success")
    assert (answered.role, answered.content) == ("assistant", "It rains.")


def test_ids_and_times_of_the_source_are_kept() -> None:
    assert (read_conversation(OWN)[0].id, read_conversation(OWN)[0].created_at) == ("m1", NOW)
    assert read_conversation(RESPONSES)[-1].id == "msg_2"
    assert read_conversation(OBJECTS)[0].created_at == NOW


@pytest.mark.parametrize(
    ("form", "messages"),
    [
        ("openai", [CHAT[2]]),
        ("openai-responses", [RESPONSES[4]]),
        ("anthropic", [ANTHROPIC[1]]),
        ("pydantic-ai", [JSON_OF_OBJECTS[1]]),
        ("toolwright", [OWN[1]]),
    ],
)
def test_a_call_without_a_result_gets_an_error_as_its_result(form: str, messages: list[object]) -> None:
    _, result = read_conversation(messages, form)
    assert (result.role, result.call_id, result.status) == ("tool", "c1", "error")
    assert json.loads(result.content) == {"error": NO_RESULT}


def calling(*ids: str) -> JSON:
    """Return an answer with calls of these ids."""
    function: JSON = {"name": "look", "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": id, "function": function} for id in ids]}


def result(id: str, text: str) -> JSON:
    return {"role": "tool", "tool_call_id": id, "content": text}


def contents(messages: Sequence[JSON], form: str | None = None) -> list[str]:
    return [each.content for each in read_conversation(messages, form)]


def test_results_follow_their_calls_in_the_order_of_the_calls_and_messages_between_them_come_after() -> None:
    hurry: JSON = {"role": "user", "content": "Hurry"}
    messages = [calling("a", "b"), hurry, result("b", "B"), result("a", "A")]
    assert contents(messages) == ["", "A", "B", "Hurry"]


def test_an_id_that_a_model_uses_twice_is_paired_in_order() -> None:
    messages = [calling("a"), result("a", "1"), calling("a", "a"), result("a", "2"), result("a", "3")]
    assert contents(messages) == ["", "1", "", "2", "3"]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([result("a", "A")], "messages.0 answers the call 'a', which no earlier message makes."),
        (
            [calling("a"), result("a", "A"), result("a", "A")],
            "messages.2 answers the call 'a', which has a result already.",
        ),
        ([{"role": "user", "content": "Hi"}, "Hello"], "messages.1 must be an object, not 'Hello'."),
        ([{"content": "Hi"}], "messages.0.role is missing."),
        ([{"role": "robot", "content": "Hi"}], "messages.0.role is 'robot', which cannot be imported."),
        ([{"role": "user", "content": 7}], "messages.0.content must be text or a list of parts, not 7."),
        (
            [{"role": "user", "content": [{"type": "hologram"}]}],
            "messages.0.content.0.type is 'hologram', which cannot be imported.",
        ),
        (
            [calling("")],
            "messages.0.tool_calls.0.id must have 1 to 1000 characters, without NUL or lone surrogates.",
        ),
        (
            [{"type": "item_reference", "id": "x"}, RESPONSES[4]],
            "messages.0.type is 'item_reference', which cannot be imported.",
        ),
        (
            [{"kind": "request", "parts": [{"part_kind": "x"}]}],
            "messages.0.parts.0.part_kind is 'x', which cannot be imported.",
        ),
        (
            [{"role": "user", "content": "Hi", "createdAt": "soon"}],
            "messages.0.createdAt must be a timestamp, not 'soon'.",
        ),
        ([{"role": "user", "content": float("nan")}], "messages.0 must be JSON: "),
        ({"role": "user"}, "messages must be a list of messages, not a value of the type dict."),
        ("Hi", "messages must be a list of messages, not 'Hi'."),
        (
            [CHAT[3], ANTHROPIC[1]],
            "messages must have one form, but messages.0 that of openai and messages.1 that of anthropic: "
            "name it with format.",
        ),
    ],
)
def test_an_error_is_one_sentence_that_names_the_message(messages: object, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_conversation(messages)
    assert caught.value.message.startswith(message)
    assert caught.value.details[0]["path"] in message


@pytest.mark.parametrize(
    ("form", "message", "error"),
    [
        ("anthropic", calling("a"), "messages.0 must have content."),
        (
            "anthropic",
            {"role": "assistant", "content": "Well", "tool_calls": [{"id": "a"}]},
            "messages.0 has calls in the form of Chat Completions",
        ),
        ("openai", {"role": "user"}, "messages.0 must have content."),
        ("openai", {"role": "assistant"}, "messages.0 must have content or tool_calls or "),
    ],
)
def test_a_message_that_would_lose_its_content_in_a_form_is_refused(
    form: str, message: JSON, error: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_conversation([message], form)
    assert caught.value.message.startswith(error)


def test_an_unknown_form_is_refused_with_those_that_exist() -> None:
    with pytest.raises(
        InvalidRequest, match=r"format must be 'toolwright', .* or 'pydantic-ai', not 'gemini'\."
    ):
        read_conversation([], "gemini")


def test_a_conversation_has_a_maximum_number_of_messages_with_the_results_that_it_gets() -> None:
    said: JSON = {"role": "user", "content": "Hi"}
    assert len(read_conversation([said] * MAX_IMPORTED)) == MAX_IMPORTED
    for messages in ([said] * (MAX_IMPORTED + 1), [said] * (MAX_IMPORTED - 1) + [calling("a")]):
        with pytest.raises(InvalidRequest, match=f"messages must be at most {MAX_IMPORTED} messages"):
            read_conversation(messages)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
    ],
)
def test_pictures_become_files(part: JSON) -> None:
    [message] = read_conversation([{"role": "user", "content": [{"type": "text", "text": "See"}, part]}])
    [file] = message.files
    assert (message.content, file.name, file.mime_type, file.data) == ("See", "image.png", "image/png", PIXEL)


def test_a_picture_of_pydantic_ai_becomes_a_file_and_an_address_a_line() -> None:
    picture = pydantic_ai.BinaryContent(data=b"pixel", media_type="image/png")
    content = ["See", picture, pydantic_ai.ImageUrl("https://example.com/a.png"), pydantic_ai.CachePoint()]
    message, called, seen = read_conversation(
        [
            pydantic_ai.ModelRequest([pydantic_ai.UserPromptPart(content)]),
            pydantic_ai.ModelResponse([pydantic_ai.ToolCallPart("look", None, "c1")]),
            pydantic_ai.ModelRequest([pydantic_ai.ToolReturnPart("look", ["Here", picture], "c1")]),
        ]
    )
    assert message.content == "See\n[image: https://example.com/a.png]"
    assert [file.data for file in message.files] == [file.data for file in seen.files] == [PIXEL]
    assert (called.calls[0].arguments, seen.content) == ("{}", "Here")


def test_addresses_and_ids_of_files_elsewhere_are_named_not_fetched() -> None:
    parts: list[JSON] = [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    [message] = read_conversation([{"role": "user", "content": parts}])
    assert (message.content, message.files) == ("[image: https://example.com/a.png]\n[file: file-1]", ())


def failed(messages: Sequence[object]) -> ImportedMessage:
    return read_conversation(messages)[-1]


def test_failed_results_are_errors() -> None:
    block: JSON = {"type": "tool_result", "tool_use_id": "c1", "content": "Down", "is_error": True}
    of_anthropic = failed([ANTHROPIC[1], {"role": "user", "content": [block]}])
    of_pydantic_ai = failed(
        [
            pydantic_ai.ModelResponse([pydantic_ai.ToolCallPart("weather", {}, "c1")]),
            pydantic_ai.ModelRequest([pydantic_ai.ToolReturnPart("weather", "Down", "c1", outcome="failed")]),
        ]
    )
    for each in (of_anthropic, of_pydantic_ai):
        assert (each.status, json.loads(each.content)) == ("error", {"error": "Down"})


def test_messages_that_a_thread_does_not_send_are_left_out() -> None:
    hidden: JSON = {"role": "user", "content": "Secret", "hiddenBy": "service"}
    nested: JSON = {"role": "assistant", "content": "Within", "parentCallId": "c9"}
    assert contents([hidden, nested, {"role": "user", "content": "Hi"}], "toolwright") == ["Hi"]
    assert contents([{"role": "assistant", "content": None}, {"role": "user", "content": "Hi"}]) == ["Hi"]


def test_results_and_the_text_of_one_message_of_anthropic_are_messages_of_their_own() -> None:
    text: JSON = {"type": "text", "text": "And Bern?"}
    block: JSON = {"type": "tool_result", "tool_use_id": "c1", "content": "Rain"}
    messages = [ANTHROPIC[1], {"role": "user", "content": [text, block]}]
    assert [(each.role, each.content) for each in read_conversation(messages)[1:]] == [
        ("tool", "Rain"),
        ("user", "And Bern?"),
    ]


def test_calls_in_the_form_before_tool_calls_had_ids_are_read() -> None:
    call: JSON = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    answer: JSON = {"role": "function", "name": "look", "content": "Seen"}
    _, seen = read_conversation([call, answer])
    assert (seen.tool_name, seen.content) == ("look", "Seen")


def test_characters_that_hide_what_a_model_reads_are_removed() -> None:
    assert contents([{"role": "user", "content": "a\x00b\u202ec\U000e0041"}]) == ["abc"]
