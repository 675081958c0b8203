"""Answers to composed requests that break their schema: sent back twice in a row, then the request fails."""

import json
import threading
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel, ConfigDict, field_validator

import toolwright as tw
from tests.runtime.solving import DONE, SUMMARY, TEXT, TOOL, Raw, greet, greeting, said, solved
from toolwright.core.errors import InvalidConfiguration, SolutionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ModelCall, ModelResponse
from toolwright.core.schemas.output import MAX_ANSWER
from toolwright.core.threads.run import Usage
from toolwright.runtime.model.answer import EMPTY
from toolwright.testing import runtime

pytestmark = pytest.mark.anyio


async def corrected(answer: str, context: list[JSON] | None = None, schema: object = SUMMARY) -> str:
    """Return the error of that answer; the next answer is valid."""
    model = Raw(answer, said(DONE)["text"])
    async with runtime(tw.App(registry=greeting())) as rt:
        solution = await rt.request({"model": model}, schema, context or [TOOL, TEXT])
        assert solution.output == DONE
        assert solution.steps == 2
        messages = await rt.threads.messages(solution.thread_id)
    assert [m.role for m in messages] == ["user", "assistant", "user", "assistant"]
    assert [m.content for m in model.requests[1].messages] == [m.content for m in messages[:3]]
    return messages[2].content


BACK = "This answer does not fit the schema: {}. Give the whole answer again, as JSON that fits."


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("[]", "must be an object, not an array"),
        ("null", "must be an object, not null"),
        ("{}", "calls: is missing; output: is missing"),
        (said({"summary": 1})["text"], "output.summary: must be a string, not a number"),
        (said("Done.")["text"], "output: must be an object, not a string"),
        (said(None, greet("Ada"), greet(1))["text"], "calls.1.userName: must be a string, not a number"),
        (said(None, {"_tool": "greetUser"})["text"], "calls.0.userName: is missing"),
        (said(None, {"_tool": "greet"})["text"], 'calls.0._tool: must be "greetUser"'),
        (said(None, {"userName": "Ada"})["text"], "calls.0._tool: is missing"),
        (said(None, "greetUser")["text"], "calls.0: must be an object, not a string"),
        ('{"output": null, "calls": null}', "calls: must be an array, not null"),
        (
            said({"summary": 1}, greet(1))["text"],
            "output.summary: must be a string, not a number; calls.0.userName: must be a string, not a number",
        ),
    ],
)
async def test_the_errors_of_an_answer_are_reported_with_their_paths(answer: str, fault: str) -> None:
    assert await corrected(answer) == BACK.format(fault)


@pytest.mark.parametrize("answer", ["", " \n"])
async def test_an_empty_answer_is_asked_for_again(answer: str) -> None:
    assert await corrected(answer) == EMPTY


@pytest.mark.parametrize(
    "answer",
    [
        "I shall greet Ada.",
        '{"output": {"summary": 1e999}, "calls": []}',
        '{"output": {"summary": NaN}, "calls": []}',
        '{"output": {"summary": "\\ud800"}, "calls": []}',
        '{"output": {"summary": "\ud800"}, "calls": []}',
        '{"output": {"summary": "a\x00b"}, "calls": []}',
        '{"output": ' + "[" * 1_000 + "]" * 1_000 + ', "calls": []}',
        '{"output": ' + "[" * 100_000,
        '{"output": null, "calls": [' + "0," * 200_000 + "0]}",
        '{"output": {"summary": ' + "9" * 5_000 + '}, "calls": []}',
        "```json\n" + "x" * 1_000_000,
    ],
    ids=lambda answer: answer[:12] + str(len(answer)),
)
async def test_what_is_no_json_is_sent_back_in_words(answer: str) -> None:
    said = await corrected(answer)
    assert said.startswith("This answer does not fit the schema: ")
    assert len(said) < 3_000


async def test_an_unknown_tool_is_answered_with_the_names_that_exist() -> None:
    wave: JSONObject = {"type": "tool", "tool": {"wave": {"type": "object", "properties": {}}}}
    context: list[JSON] = [TOOL, wave, TEXT]
    told = await corrected(said(None, {"_tool": "hail"})["text"], context)
    assert 'calls.0._tool: must be one of "greetUser", "wave"' in told


async def test_without_tools_there_is_nothing_to_call() -> None:
    told = await corrected(said(None, {"_tool": "hail"})["text"], [TEXT])
    assert "calls: must have at most 0 items" in told


@pytest.mark.parametrize(
    "fence",
    ["```json\n{}\n```", "```\n{}\n```", " \n```JSON\n\n{}\n\n  ```\n", "```json \r\n{}```"],
)
async def test_json_in_a_fence_is_taken(fence: str) -> None:
    solution, _ = await solved([{"text": fence.replace("{}", said(DONE)["text"])}])
    assert (solution.output, solution.steps) == (DONE, 1)


async def test_an_answer_that_is_invalid_three_times_in_a_row_fails_the_run() -> None:
    model = Raw(ModelResponse(text="No.", usage=Usage(input_tokens=5, output_tokens=2), cost=0.5))
    async with runtime(tw.App(registry=greeting())) as rt:
        with pytest.raises(SolutionError) as caught:
            await rt.request({"model": model}, SUMMARY, [TOOL, TEXT])
        run = await rt.runs.get(caught.value.run_id)
        assert (run.status, run.step_count, run.output) == ("failed", 3, None)
        assert run.error is not None
        assert run.error == caught.value.message
        assert run.error.startswith(
            "The model's answer broke its schema 3 times in a row: the text is not valid JSON"
        )
        assert (run.usage, run.cost) == (Usage(input_tokens=15, output_tokens=6), 1.5)
        assert caught.value.thread_id == run.thread_id
        messages = await rt.threads.messages(run.thread_id)
    assert [m.role for m in messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert [m.content for m in messages if m.role == "assistant"] == ["No."] * 3
    assert len(model.requests) == 3


async def test_a_good_answer_between_restarts_the_count() -> None:
    bad, neither = {"text": "No."}, said(None)
    turns = [bad, bad, said(None, greet("Ada")), bad, bad, neither, bad, bad, said(DONE)]
    solution, _ = await solved(turns)
    assert (solution.output, solution.steps) == (DONE, 9)


async def test_a_correction_is_a_step_and_so_is_bounded() -> None:
    solution, model = await solved([{"text": "No."}] * 3, config={"max_steps": 2})
    assert (solution.output, solution.stop_reason, len(model.requests)) == (None, "max_steps", 2)


async def test_the_providers_own_calls_are_validated_like_any() -> None:
    bad = ModelResponse(
        calls=(
            ModelCall(id="c1", name="greetUser", arguments='{"userName": 1}'),
            ModelCall(id="c2", name="hail", arguments="{"),
        )
    )
    model = Raw(bad, said(DONE)["text"])
    async with runtime(tw.App(registry=greeting())) as rt:
        solution = await rt.request({"model": model}, SUMMARY, [TOOL, TEXT])
    assert [call.result.error_code for call in solution.calls if call.result] == [
        "invalid_arguments",
        "unknown_tool",
    ]
    assert [call.args for call in solution.calls] == [{"userName": 1}, {}]
    assert "1. greetUser failed: " in model.requests[1].messages[-1].content


class Closed(BaseModel):
    summary: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    summary: str


class Summary(BaseModel):
    summary: str
    words: int = 1

    @field_validator("summary")
    @classmethod
    def check_end(cls, text: str) -> str:
        if not text.endswith("."):
            raise ValueError("must end with a full stop")
        return text


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    names: tuple[str, ...]


@dataclass
class Point:
    x: int
    y: int = 0


@pytest.mark.parametrize(
    ("declared", "output", "instance"),
    [
        (Summary, {"summary": "Done."}, Summary(summary="Done.")),
        (Strict, {"names": ["a"]}, Strict(names=("a",))),
        (Point, {"x": 1}, Point(1)),
        (Summary | Point, {"x": 2, "y": 3}, Point(2, 3)),
        (Summary | Point, {"summary": "Done."}, Summary(summary="Done.")),
        (list[Point], [{"x": 1}], [Point(1)]),
        (int, 3, 3),
    ],
)
async def test_an_output_that_is_declared_as_a_type_is_an_instance(
    declared: object, output: JSON, instance: object
) -> None:
    solution, _ = await solved([said(output)], schema=declared)
    assert solution.output == instance
    assert type(solution.output) is type(instance)


async def test_a_solution_that_is_read_again_has_an_instance_too() -> None:
    async with runtime(tw.App()) as rt:
        solution = await rt.request({"model": Raw(said({"x": 1})["text"])}, Point, "Go")
        assert (await rt.solution(solution.run_id)).output == Point(1)
        run = await rt.begin_request({"model": Raw(said({"x": 2})["text"])}, Point, "Go")
        for _ in range(2):
            assert (await rt.solution(run.id)).output == Point(2)


@pytest.mark.parametrize(
    ("declared", "output", "fault"),
    [
        (Summary, {"summary": "Done"}, "output.summary: must end with a full stop"),
        (Summary | Point, {"summary": "Done"}, "output.summary: must end with a full stop"),
        (list[Summary], [{"summary": "Done"}], "output.0.summary: must end with a full stop"),
        (Summary, {"summary": "Done.", "words": "two"}, "output.words: must be an integer, not a string"),
    ],
)
async def test_an_output_is_validated_by_the_validators_of_its_type(
    declared: object, output: JSON, fault: str
) -> None:
    model = Raw(said(output)["text"])
    async with runtime(tw.App()) as rt:
        with pytest.raises(SolutionError, match="3 times in a row"):
            await rt.request({"model": model}, declared, "Go")
    assert fault in model.requests[1].messages[-1].content


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (SUMMARY, True),
        (Closed, True),
        (Open, False),
        ({**SUMMARY, "additionalProperties": True}, False),
        ({"anyOf": [SUMMARY, {"type": "string"}]}, False),
    ],
)
async def test_an_output_is_validated_by_the_schema_that_the_model_is_told(
    schema: object, closed: bool
) -> None:
    model = Raw(said({"summary": "Done.", "made": "up"})["text"], said(DONE)["text"])
    async with runtime(tw.App()) as rt:
        solution = await rt.request({"model": model}, schema, "Go")
    [*_, told] = model.requests
    assert told.answer is not None
    accepted = jsonschema_rs.is_valid(
        told.answer.schema, {"calls": [], "output": {"summary": "a", "made": "up"}}
    )
    assert accepted is not closed
    if closed:
        assert solution.steps == 2
        assert "output.made: is not a known" in told.messages[-1].content
    else:
        assert solution.steps == 1


class Broken(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def check(cls, a: int) -> int:
        return a // 0


async def test_a_validator_that_breaks_fails_the_run_in_words() -> None:
    async with runtime(tw.App()) as rt:
        with pytest.raises(SolutionError, match=r"could not be validated: .*division"):
            await rt.request({"model": Raw(said({"a": 1})["text"])}, Broken, "Go")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "https://example.com/schema.json"}, "leads"),
        ({"type": "object", "properties": {"a": {"$ref": "other.json#/a"}}}, "properties.a"),
        ({"type": "objekt"}, "type"),
        (5, "schema"),
        ("object", "schema"),
        (None, "schema"),
        (lambda: 1, "schema"),
    ],
)
async def test_an_invalid_output_is_refused_in_words(schema: Any, words: str) -> None:
    async with runtime(tw.App()) as rt:
        with pytest.raises(tw.errors.ToolwrightError) as caught:
            await rt.request({"model": Raw("")}, schema, "Go")
        assert words in caught.value.message.lower()
        assert caught.value.message.count("\n") == 0
        assert await rt.threads.list() == []


async def test_a_context_of_eleven_megabytes_is_refused_in_words() -> None:
    async with runtime(tw.App()) as rt:
        with pytest.raises(InvalidConfiguration, match="must have at most 10485760 bytes"):
            await rt.request({"model": Raw("")}, SUMMARY, "x" * 11 * 1024 * 1024)
        with pytest.raises(InvalidConfiguration, match="100000 values"):
            data: JSON = [0] * 100_001  # type: ignore[assignment]  # a list is invariant
            await rt.request({"model": Raw("")}, SUMMARY, [{"type": "data", "data": data}])
        assert await rt.threads.list() == []


async def test_thirty_megabytes_of_wrong_json_are_sent_back() -> None:
    model = Raw('{"output": "' + "x" * 30 * 1024 * 1024, said(DONE)["text"])
    async with runtime(tw.App()) as rt:
        assert (await rt.request({"model": model}, SUMMARY, "Go")).output == DONE


async def test_two_thousand_calls_of_one_answer_are_all_executed() -> None:
    names = [str(number) for number in range(2_000)]
    solution, model = await solved([said(None, *map(greet, names)), said(DONE)])
    assert [call.args["userName"] for call in solution.calls] == names
    assert model.requests[1].messages[-1].content.endswith("\n2000. greetUser: Hello 1999")
    assert json.loads(model.requests[1].messages[1].content)["calls"][0] == greet("0")


async def test_a_large_answer_is_validated_in_a_thread() -> None:
    threads: list[int] = []

    class Noted(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def note(cls, text: str) -> str:
            threads.append(threading.get_ident())
            return text

    async with runtime(tw.App()) as rt:
        model = Raw(said({"text": "x" * 1_000_000})["text"])
        solution = await rt.request({"model": model}, Noted, "Go")
    assert len(solution.output.text) == 1_000_000
    assert threads[0] != threading.get_ident()


async def test_an_answer_of_more_than_ten_megabytes_is_not_read() -> None:
    told = await corrected(said({"summary": "x" * MAX_ANSWER})["text"])
    assert told == BACK.format(f"the text is longer than {MAX_ANSWER} characters")
