"""Errors of a field have our own messages, independent of pydantic's."""

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from toolwright.core.arguments.errors import form_error


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def _stripped(text: str) -> str:
    return text.strip()


def _never(_: object) -> object:
    raise ValueError("is never right")


class Form(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    text: Annotated[str, Field(min_length=1, max_length=3, pattern="^[a-z]*$")] = "a"
    stripped: Annotated[str, AfterValidator(_stripped), Field(min_length=1, max_length=3)] = "a"
    items: Annotated[list[int], Field(min_length=2, max_length=200)] = []
    names: tuple[str, ...] = ()
    count: Annotated[int, Field(ge=1, lt=9)] = 1
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    flag: bool = True
    kind: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    mapping: Annotated[dict[str, int], Field(max_length=2)] = {}
    inner: "Form | None" = None
    wrong: Annotated[object, AfterValidator(_never)] = None
    needed: int


CASES: list[tuple[str, Any, str]] = [
    ("text", 5, "must be text"),
    ("text", "", "must not be empty"),
    ("text", "aaaa", "must have at most 3 characters"),
    ("text", "A", "must match the pattern ^[a-z]*$"),
    ("stripped", " ", "must not be empty"),
    ("stripped", "aaaa", "must have at most 3 characters"),
    ("items", [1], "must have at least 2 items"),
    ("items", [1] * 201, "must have at most 200 items"),
    ("items", "x", "must be a list"),
    ("names", 5, "must be a list"),
    ("count", True, "must be a whole number"),
    ("count", 1.5, "must be a whole number"),
    ("count", 0, "must be at least 1"),
    ("count", 9, "must be less than 9"),
    ("share", "x", "must be a number"),
    ("share", 0, "must be more than 0.0"),
    ("share", 1.5, "must be at most 1.0"),
    ("flag", 1, "must be true or false"),
    ("kind", "c", "must be 'a' or 'b'"),
    ("mapping", [], "must be an object"),
    ("mapping", {"a": 1, "b": 2, "c": 3}, "must have at most 2 items"),
    ("inner", 5, "must be an object"),
    ("wrong", 1, "is never right"),
    ("needed", None, "must be a whole number"),
    ("other", 1, "is not a known field"),
]


@pytest.mark.parametrize(("field", "value", "said"), CASES)
def test_each_error_is_a_plain_end_of_a_sentence(field: str, value: object, said: str) -> None:
    with pytest.raises(ValidationError) as found:
        Form.model_validate({"needed": 1, field: value})
    [fault] = found.value.errors()
    assert form_error(fault) == said


def test_a_field_that_is_not_there_is_required() -> None:
    with pytest.raises(ValidationError) as found:
        Form.model_validate({})
    [fault] = found.value.errors()
    assert form_error(fault) == "is required"
