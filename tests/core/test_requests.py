"""Composed requests (S1) as written: accepted forms, rejected forms, and how a model reads the errors."""

import gc
import json
import weakref
from datetime import UTC, datetime
from typing import Any

import pytest

from toolwright.core.agents.catalog import REQUESTS, Catalog
from toolwright.core.errors import InvalidConfiguration
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.requests.conversation import GO_ON, as_sent, message_of, opening_of, system_of
from toolwright.core.requests.request import RequestForm, read_request
from toolwright.core.requests.speaker import MAX_RELEASED, RequestAgents
from toolwright.core.schemas.output import Output
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.tools.tool import Tool

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OUTPUT: JSONObject = {"type": "object", "properties": {}}
TOOL: JSONObject = {"type": "object", "properties": {"userName": {"type": "string"}}}


def request(*context: JSON, **config: JSON) -> RequestForm:
    return read_request("The request", {"config": config, "schema": OUTPUT, "context": [*context]})


def faults(context: object = (), config: object = None) -> dict[str, str]:
    with pytest.raises(InvalidConfiguration) as caught:
        read_request("The request", {"config": config or {}, "schema": OUTPUT, "context": context})
    assert caught.value.message.startswith("The request: ")
    assert "\n" not in caught.value.message
    return {each["path"]: each["message"] for each in caught.value.details}


def said(form: RequestForm) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in opening_of(form, NOW)] + [("user", message_of(form))]


def test_a_context_that_is_a_text_is_that_text() -> None:
    form = read_request("The request", {"schema": OUTPUT, "context": "Go"})
    assert said(form) == [("user", "Go")]


def test_fields_are_taken_in_both_spellings() -> None:
    snake, camel = request(max_steps=3, top_p=0.5), request(maxSteps=3, topP=0.5)
    assert snake == camel
    assert (snake.config.max_steps, snake.config.settings.top_p) == (3, 0.5)


@pytest.mark.parametrize(
    ("config", "path", "words"),
    [
        ({"modell": "x"}, "config.modell", "is not a known field"),
        ({"model": ""}, "config.model", "must not be empty"),
        ({"temperature": "1"}, "config.temperature", "must be a number"),
        ({"temperature": -1}, "config.temperature", "must be at least 0"),
        ({"topP": 2}, "config.topP", "must be at most 1"),
        ({"max_tokens": 0}, "config.max_tokens", "must be at least 1"),
        ({"max_tokens": 1.5}, "config.max_tokens", "must be a whole number"),
        ({"seed": True}, "config.seed", "must be a whole number"),
        ({"seed": 2**63}, "config.seed", "must be less than"),
        ({"reasoning": "hard"}, "config.reasoning", "must be one of 'minimal', 'low'"),
        ({"reasoning": 1}, "config.reasoning", "true or false"),
        ({"call_reasoning": "yes"}, "config.call_reasoning", "must be true or false"),
        ({"system": None}, "config.system", "must be text"),
        ({"max_steps": 0}, "config.max_steps", "must be at least 1"),
    ],
)
def test_an_error_of_the_config_has_its_path(config: JSONObject, path: str, words: str) -> None:
    found = faults(config=config)
    assert [*found] == [path]
    assert words in found[path]


@pytest.mark.parametrize(
    ("item", "path", "words"),
    [
        (5, "context.0", "must have a type: text, tool, data, input, state, message"),
        ({"type": "txt", "text": "a"}, "context.0", "must have a type"),
        ({"type": 5}, "context.0", "must have a type"),
        ({"type": "text"}, "context.0.text", "is required"),
        ({"type": "text", "text": 5}, "context.0.text", "must be text"),
        ({"type": "text", "text": "a", "role": "robot"}, "context.0.role", "must be"),
        ({"type": "text", "text": "a", "more": 1}, "context.0.more", "is not a known field"),
        ({"role": "user"}, "context.0.content", "is required"),
        ({}, "context.0.role", "is required"),
        ({"type": "tool"}, "context.0.tool", "is required"),
        ({"type": "tool", "tool": 5}, "context.0.tool", "must be schemas by name"),
        ({"type": "tool", "tool": ["a", 5]}, "context.0.tool", "must be schemas by name"),
        ({"type": "tool", "tool": ""}, "context.0.tool", "must be schemas by name"),
        ({"type": "data"}, "context.0.data", "is required"),
        ({"type": "input", "input": []}, "context.0.input", "must be an object"),
        ({"type": "state", "state": "a"}, "context.0.state", "must be an object"),
        ({"type": "state", "state": {}, "instance": ""}, "context.0.instance", "must not be empty"),
        ({"type": "state", "state": {}, "instance": "a\nb"}, "context.0.instance", "line breaks"),
        ({"type": "text", "text": "a\x00b"}, "context.0.text", "must be text without NUL"),
        ({"role": "user", "content": "\x00"}, "context.0.content", "must be text without NUL"),
        ({"type": "text", "text": "\ud800"}, "context.0.text", "halves of characters"),
        ({"type": "data", "data": ["\ud800"]}, "context.0.data.0", "halves of characters"),
        ({"type": "data", "data": {"\ud800": 1}}, "context.0.data", "halves of characters"),
    ],
)
def test_an_error_of_the_context_has_its_path(item: JSON, path: str, words: str) -> None:
    found = faults([item])
    assert path in found
    assert words in found[path]


def test_all_errors_are_reported_together() -> None:
    found = faults([{"type": "text"}, {"type": "data"}], {"seed": "a"})
    assert [*found] == ["config.seed", "context.0.text", "context.1.data"]


@pytest.mark.parametrize("context", [5, None, {"type": "text"}])
def test_a_context_is_a_text_or_a_list(context: object) -> None:
    assert [*faults(context)] == ["context"]


def test_what_json_cannot_carry_is_refused_in_words() -> None:
    for value in (float("nan"), b"x", object()):
        [(_, words)] = faults([{"type": "data", "data": value}]).items()
        assert "context.0.data" in words


def test_a_request_is_kept_as_it_was_written() -> None:
    context: list[JSON] = [
        {"type": "text", "text": "a", "role": "assistant"},
        {"role": "user", "content": "b"},
        {"type": "tool", "tool": {"greetUser": TOOL}},
        {"type": "data", "data": None, "name": "d"},
        {"type": "input", "input": {"a": None}},
        {"type": "state", "state": {"b": [1.0, 2]}, "instance": "i"},
    ]
    form = request(*context, model="m", max_steps=2, reasoning=False, temperature=0)
    kept = json.loads(json.dumps(form.as_json))
    assert kept["config"] == {"model": "m", "maxSteps": 2, "reasoning": False, "temperature": 0}
    assert read_request("The request", kept) == form
    assert form.instances == ("i",)


def test_the_conversation_begins_with_what_was_said_before() -> None:
    form = request(
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"type": "data", "data": {"a": 1}, "name": "facts"},
        {"type": "text", "text": "And now?"},
        {"type": "tool", "tool": "greetUser"},
    )
    assert said(form) == [
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("user", "Data 'facts':\n{\"a\":1}\n\nAnd now?"),
    ]
    assert system_of(form, []).startswith("Be kind.\n\nAnswer with one JSON object")


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"type": "text", "text": "a", "instance": "i"}, "Of the instance 'i': a"),
        ({"type": "data", "data": [1]}, "Data:\n[1]"),
        ({"type": "data", "data": "ä", "instance": "i"}, "Data of the instance 'i':\n\"ä\""),
        ({"type": "input", "input": {"a": 1}}, 'Input (†input):\n{"a":1}'),
        ({"type": "state", "state": {}, "instance": "i"}, "State (†state) of the instance 'i':\n{}"),
    ],
)
def test_each_kind_of_context_is_read_as_text(item: JSON, text: str) -> None:
    assert message_of(request(item)) == text


@pytest.mark.parametrize(
    "context",
    [
        [],
        [{"type": "text", "text": " "}],
        [{"role": "system", "content": "a"}],
        [{"type": "tool", "tool": "greetUser"}],
        [{"role": "assistant", "content": "Hi"}],
    ],
)
def test_a_model_without_a_question_is_told_to_go_on(context: list[Any]) -> None:
    assert message_of(request(*context)) == GO_ON


def test_the_system_prompt_tells_of_latent_tools_and_instances_where_there_are_some() -> None:
    output: JSONObject = {"type": "object", "properties": {"_output": {"type": "string"}}}
    plain, latent = Tool.from_schema("a", TOOL), Tool.from_schema("b", output)
    form = request({"type": "text", "text": "x", "instance": "i"})
    assert "_output" not in system_of(form, [plain])
    assert "_output" in system_of(form, [plain, latent])
    assert "The instances are 'i'" in system_of(form, [])
    assert "instances" not in system_of(request(), [])


def message(role: Any, content: str, *calls: tuple[str, str], **more: Any) -> Message:
    made = [
        MessageCall(id=f"c{number}", name=name, arguments=arguments, model_call_id=f"m{number}")
        for number, (name, arguments) in enumerate(calls)
    ]
    return Message(id="m", role=role, content=content, calls=tuple(made), created_at=NOW, **more)


def test_results_are_the_users_word_and_calls_are_in_the_text_alone() -> None:
    answer = '{"output": null, "calls": [{"_tool": "a"}, {"_tool": "b"}]}'
    messages = as_sent(
        [
            message("user", "Go"),
            message("assistant", answer, ("a", "{}"), ("b", "{}"), native={"n": 1}),
            message("tool", "1", tool_name="a", status="success"),
            message("tool", "No.", tool_name="b", status="error"),
            message("assistant", "{}"),
        ]
    )
    assert [(m.role, m.content) for m in messages] == [
        ("user", "Go"),
        ("assistant", answer),
        ("user", "Results of the calls:\n1. a: 1\n2. b failed: No."),
        ("assistant", "{}"),
    ]
    assert messages[1].native == {"n": 1}
    assert not any(m.calls or m.tool_name for m in messages)


@pytest.mark.parametrize(
    ("text", "arguments", "written"),
    [
        ("", '{"x": 1}', {"_tool": "a", "x": 1}),
        ("I call.", "", {"_tool": "a"}),
        ("", "[1]", {"_tool": "a", "arguments": [1]}),
        ("", '{"x', {"_tool": "a", "arguments": '{"x'}),
    ],
)
def test_calls_that_a_text_does_not_have_are_written_out(text: str, arguments: str, written: JSON) -> None:
    [answer] = as_sent([message("assistant", text, ("a", arguments), native={"n": 1})])
    before, _, line = answer.content.rpartition("\n")
    assert before == text
    assert json.loads(line) == {"output": None, "calls": [written]}
    assert (answer.calls, answer.native) == ((), None)


def test_of_requests_that_are_over_the_last_alone_are_kept() -> None:
    catalog = Catalog()
    agents, agent = RequestAgents(catalog), catalog.active(REQUESTS.id)
    forgotten, other = Output({}), Output({})
    gone = weakref.ref(forgotten)
    agents.keep("thr_forgotten", None, forgotten, agent)
    agents.release("thr_forgotten")
    del forgotten
    for number in range(MAX_RELEASED):
        agents.keep(f"thr_{number}", None, other, agent)
        agents.release(f"thr_{number}")
    gc.collect()
    assert gone() is None
    assert agents.output_of("thr_forgotten", request()).schema == OUTPUT
    assert agents.output_of("thr_1", request()) is other
