"""The scripted model: the choice of turns, and the errors of invalid scripts."""

from pathlib import Path

import pytest

from tests.models.asking import NOW, answer_of, ask, only, user
from tests.models.conftest import Pauses
from toolwright.adapters.models.scripted import ScriptedModel
from toolwright.core.errors import DefinitionError, ModelRefused, ModelUnavailable
from toolwright.core.json_value import JSON, dumps_unescaped
from toolwright.core.model import CallDelta, ModelRequest, ModelResponse, ReasoningDelta, TextDelta
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Usage

pytestmark = pytest.mark.anyio


def at(step: int, content: str = "Hello", who: tuple[str, ...] = ()) -> ModelRequest:
    """Return a request of that step of its run."""
    return ModelRequest(messages=(user(content),), step=step, who=who)


async def said(model: ScriptedModel, step: int, content: str = "Hello", who: tuple[str, ...] = ()) -> str:
    """Return the text of an answer."""
    return (await answer_of(model, at(step, content, who))).text


async def test_turn_n_is_for_step_n_of_each_run() -> None:
    model = ScriptedModel([{"calls": [{"name": "search", "args": {"q": "a"}}]}, {"text": "Done"}])
    first = await answer_of(model, at(1))
    assert [(call.name, call.arguments) for call in first.calls] == [("search", '{"q":"a"}')]
    assert await said(model, 2) == "Done"
    again = await answer_of(model, at(1))
    assert again.calls[0].id != first.calls[0].id


async def test_past_its_end_the_script_refuses() -> None:
    with pytest.raises(ModelRefused, match="The script 'scripted' has no turn for step 2"):
        await said(ScriptedModel([{"text": "Done"}]), 2)


async def test_turns_are_found_by_the_prompts_name_then_the_agents() -> None:
    model = ScriptedModel({"boss": [{"text": "agent"}], "plan": [{"text": "prompt"}]})
    assert await said(model, 1, who=("boss", "plan")) == "prompt"
    assert await said(model, 1, who=("boss", "other")) == "agent"
    with pytest.raises(ModelRefused, match="has no turns for 'x' or 'y'"):
        await said(model, 1, who=("x", "y"))


async def test_a_turn_whose_when_is_in_the_last_message_wins_over_position() -> None:
    model = ScriptedModel(
        [
            {"text": "one"},
            {"when": "weather", "calls": [{"name": "look"}]},
            {"when": "weather in Rome", "text": "never"},
            {"text": "two"},
        ]
    )
    assert await said(model, 1) == "one"
    assert (await answer_of(model, at(1, "The weather in Rome?"))).calls[0].name == "look"
    assert [await said(model, step) for step in (2, 3, 4)] == ["two", "two", "two"]


async def test_a_last_turn_with_calls_does_not_repeat() -> None:
    model = ScriptedModel([{"when": "x", "text": "x"}, {"calls": [{"name": "look"}]}])
    with pytest.raises(ModelRefused, match="no turn for step 2"):
        await said(model, 2)


async def test_text_and_arguments_stream_in_pieces() -> None:
    text, raw = "A sentence that is longer than one piece.", '{"q": ' + "x" * 100
    model = ScriptedModel([{"thinking": "Hm", "text": text, "calls": [{"name": "search", "args": raw}]}])
    events = await ask(model, at(1))
    assert only(events, ReasoningDelta) == [ReasoningDelta(text="Hm")]
    assert len(only(events, TextDelta)) == 2
    assert "".join(delta.text for delta in only(events, TextDelta)) == text
    assert "".join(delta.arguments for delta in only(events, CallDelta)) == raw
    response = events[-1]
    assert isinstance(response, ModelResponse)
    assert response.calls[0].arguments == raw
    assert response.finish_reason == "tool_call"


@pytest.mark.parametrize("value", [{"a": ["ä", 1, 2.5, None]}, [], "text", 0, False, None])
async def test_a_turn_may_give_its_text_as_json(value: JSON) -> None:
    model = ScriptedModel([{"json": value}])
    events = await ask(model, at(1))
    text = "".join(delta.text for delta in only(events, TextDelta))
    assert text == (await answer_of(model, at(1))).text == dumps_unescaped(value)


async def test_a_delay_is_waited_before_each_piece(pauses: Pauses) -> None:
    model = ScriptedModel([{"text": "x" * 30, "delay": 0.5}, {"text": "quick"}], sleep=pauses.sleep)
    await said(model, 1)
    await said(model, 2)
    assert pauses.seconds == [0.5, 0.5]


async def test_a_turn_can_fail_after_what_it_says() -> None:
    model = ScriptedModel([{"text": "Hel", "fail": "unavailable", "message": "Busy."}, {"fail": "refused"}])
    heard: list[object] = []
    with pytest.raises(ModelUnavailable, match="Busy"):
        async for event in model.respond(at(1)):
            heard.append(event)  # noqa: PERF401  events before the error must be kept
    assert heard == [TextDelta(text="Hel")]
    with pytest.raises(ModelRefused, match="refused the request"):
        await said(model, 2)


async def test_usage_is_counted_alike_each_time_unless_the_turn_gives_it() -> None:
    model = ScriptedModel([{"text": "Hi"}, {"text": "Hi", "usage": {"input_tokens": 5, "output_tokens": 6}}])
    counted = (await answer_of(model, at(1))).usage
    assert counted == (await answer_of(model, at(1))).usage
    assert counted.input_tokens > 0
    assert counted.output_tokens > 0
    assert (await answer_of(model, at(2))).usage == Usage(input_tokens=5, output_tokens=6)


async def test_a_request_without_messages_is_answered() -> None:
    assert (await answer_of(ScriptedModel([{"text": "Hi"}]), ModelRequest(messages=()))).text == "Hi"


async def test_a_tools_result_can_be_waited_for() -> None:
    model = ScriptedModel([{"text": "waiting"}, {"when": "sunny", "text": "Take a hat"}])
    result = Message(id="r", role="tool", content="It is sunny", created_at=NOW)
    assert (await answer_of(model, ModelRequest(messages=(result,), step=2))).text == "Take a hat"


async def test_the_yaml_file_has_the_same_form(tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(
        "boss:\n  - calls: [{name: search, args: {q: 1}}]\n  - text: Done\n  - json: {output: null}\n"
    )
    model = ScriptedModel.from_yaml(file)
    assert model.name == f"scripted:{file}"
    assert (await answer_of(model, at(1, who=("boss",)))).calls[0].arguments == '{"q":1}'
    assert await said(model, 3, who=("boss", "plan")) == '{"output":null}'


@pytest.mark.parametrize(
    ("yaml", "fault"),
    [
        ("- text: [", "is not YAML"),
        ("just text", "must be a list of turns, or lists by name"),
        ("- text: ok\n- txt: oops", "turn 2: unknown key 'txt'"),
        ("- calls: [{nam: search}]", "turn 1: "),
        ("- calls: [{name: search, args: 3}]", "turn 1: calls.0.args"),
        ("- text: 3", "turn 1: text: "),
        ("- {}", "turn 1: needs one of text, json, calls, thinking, fail"),
        (
            "- {text: '', json: null}",
            "turn 1: text and json are two forms of the same answer. Keep one of them.",
        ),
        ("- json: .nan", "turn 1: json is not JSON"),
        ("- json: 2026-11-22", "turn 1: json: "),
        ("- value: 1", "turn 1: unknown key 'value'; the keys of a turn are text, json, calls"),
        (
            "- calls: [{name: a, arguments: {}}]",
            "turn 1: unknown key 'calls.0.arguments'; the keys of a call are name, args.",
        ),
        (
            "- {text: a, usage: {tokens: 1}}",
            "unknown key 'usage.tokens'; the keys of usage are input_tokens, output",
        ),
        ("boss: hello", "'boss': a script must be a list of turns"),
        ("boss:\n- fail: maybe", "'boss', turn 1: fail: "),
    ],
)
def test_an_invalid_script_names_file_and_turn(tmp_path: Path, yaml: str, fault: str) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(yaml)
    with pytest.raises(DefinitionError) as caught:
        ScriptedModel.from_yaml(file)
    assert fault in caught.value.message
    assert "demo.yaml" in caught.value.message


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"nowhere\.yaml' cannot be read"):
        ScriptedModel.from_yaml(tmp_path / "nowhere.yaml")
