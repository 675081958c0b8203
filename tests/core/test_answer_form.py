"""The form of answers: JSON that fits a schema, or an output of an agent, and the errors of invalid answers."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_value import JSON
from toolwright.core.model import ModelCall, ModelResponse
from toolwright.core.schemas.output import InvalidAnswer, Output, OutputForm, correction, read_answer

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def fault(text: str, declared: object = SCHEMA) -> str:
    with pytest.raises(InvalidAnswer) as caught:
        OutputForm(Output(declared)).read(ModelResponse(text=text))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        (' {"a": 1}\n', {"a": 1}),
        ("```json\n[1]\n```", [1]),
        ("```\n[1]\n```\n", [1]),
        ("```JSON\r\n[1]```", [1]),
        ('"```json\\n1\\n```"', "```json\n1\n```"),
        ("\ufeff{}", {}),
    ],
)
def test_json_is_read_with_and_without_a_fence(text: str, value: JSON) -> None:
    assert read_answer(text) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the text is empty"),
        ("Here: {}", "the text is not valid JSON"),
        ("```json\n{}", "the text is not valid JSON"),
        ("```python\n{}\n```", "the text is not valid JSON"),
        ("```json {} ```", "the text is not valid JSON"),
        ("NaN", "the text is not valid JSON"),
        ("[1e999]", "the number inf, which JSON cannot represent"),
        ("[" * 65 + "]" * 65, "nested deeper than 64 levels"),
        ("[" * 1_000 + "]" * 1_000, "recursion limit"),
    ],
)
def test_a_text_that_is_no_json_is_an_error(text: str, words: str) -> None:
    with pytest.raises(InvalidAnswer) as caught:
        read_answer(text)
    assert words in str(caught.value)


def test_calls_go_before_an_output() -> None:
    form = OutputForm(Output(SCHEMA))
    response = ModelResponse(text="I look.", calls=(ModelCall(id="c", name="look", arguments="{}"),))
    formed = form.read(response)
    assert (formed.response, formed.output, formed.over) == (response, None, False)


def test_an_output_ends_it_also_one_that_is_null() -> None:
    formed = OutputForm(Output(SCHEMA)).read(ModelResponse(text='{"a": 1}'))
    assert (formed.output, formed.over) == ({"a": 1}, True)
    assert OutputForm(Output(int | None)).read(ModelResponse(text="null")).over


def test_errors_are_reported_with_their_paths() -> None:
    assert fault('{"a": "x"}') == "a: must be an integer, not a string"
    assert fault("{}") == "a: is missing"
    assert correction(InvalidAnswer([])).startswith("This answer does not fit the schema: ")


class Pair(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def check(self) -> "Pair":
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


@dataclass
class Named:
    name: str


@pytest.mark.parametrize(
    ("declared", "text", "words"),
    [
        (Pair, '{"low": 2, "high": 1}', "low must not be above high"),
        (Pair | Named, '{"low": 2, "high": 1}', "low must not be above high"),
        (list[Pair], '[{"low": 2, "high": 1}]', "0: low must not be above high"),
        (dict[str, Pair], '{"x": {"low": 2, "high": 1}}', "x: low must not be above high"),
    ],
)
def test_errors_of_validators_are_reported_without_the_names_of_types(
    declared: object, text: str, words: str
) -> None:
    assert fault(text, declared).split("; ")[0] == words


def test_an_instance_is_made_of_an_output() -> None:
    assert Output(Pair).load({"low": 1, "high": 2}) == Pair(low=1, high=2)
    assert Output(Named).load({"name": "a"}) == Named("a")
    assert Output(SCHEMA).load({"a": 1}) == {"a": 1}


@pytest.mark.parametrize("declared", [None, 5, "object", [], (), b"", lambda: 1, len, object()])
def test_what_is_neither_a_schema_nor_a_type_is_refused(declared: Any) -> None:
    with pytest.raises(DefinitionError):
        Output(declared)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "objekt"}, "type"),
        ({"$ref": "https://example.com/a"}, "$ref"),
        ({"properties": {"a": {"type": 5}}}, "properties.a.type"),
    ],
)
def test_the_errors_of_a_schema_have_their_paths(schema: Any, path: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        Output(schema)
    assert path in [each["path"] for each in caught.value.details]
