"""One path and one vocabulary of errors: a function tool and a declared schema reject the same arguments alike."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    Json,
    StringConstraints,
    field_validator,
)
from tests.behaviour.marks import requirement
from typing_extensions import TypedDict

import toolwright as tw
from toolwright.core.limits import MAX_ERRORS

pytestmark = pytest.mark.anyio


class Page(BaseModel):
    number: int = 1
    marks: Annotated[list[str], Field(max_length=2)] = []

    @field_validator("number")
    @classmethod
    def look_up(cls, number: int) -> int:
        if number == 13:
            raise ValueError("there is no page 13")
        return number


class Shelf(TypedDict, total=False):
    books: Annotated[dict[str, int], Field(min_length=1)]
    page: Page


class Chapter(BaseModel):
    title: Annotated[str, StringConstraints(strip_whitespace=True, min_length=2)]
    page: Page | Shelf | None = None


@tw.tool
async def typed(
    word: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=3)] = "a",
    code: Annotated[str, Field(pattern="^[a-z]+$")] = "a",
    count: Annotated[int, Field(ge=1, lt=9, multiple_of=2)] = 2,
    share: Annotated[float, Field(gt=0, le=1)] = 0.5,
    on: bool = True,
    kind: Literal["a", "b"] | None = "a",
    counts: Annotated[list[int], Field(min_length=1)] | None = None,
    shelf: Shelf | None = None,
    place: Page | Chapter | None = None,
    pages: list[Page] | None = None,
    sizes: Annotated[list[int], Field(min_length=2), BeforeValidator(lambda sizes: sizes[:1])] | None = None,
    trimmed: Annotated[str, AfterValidator(str.strip), Field(min_length=2)] = "aa",
    whole: Annotated[int, BeforeValidator(str)] | None = None,
) -> str:
    """Do something."""
    return "done"


def declared() -> tw.Tool:
    """Return a tool with the same schema, whose arguments no type rejects."""

    async def handle(state: tw.ThreadState, arguments: dict[str, Any]) -> str:
        return "done"

    return tw.Tool(name="declared", description="Do.", parameters=typed.parameters, handler=handle)


async def errors(tool: tw.Tool, arguments: Any) -> str | None:
    result = await tw.Toolset([tool]).call(tool.name, arguments)
    if result.error is not None:
        assert result.error_code == "invalid_arguments"
    return result.error and result.error.removeprefix("Invalid arguments: ").removesuffix(".")


SAME: list[tuple[Any, str | None]] = [
    ({"word": 5}, "word: must be a string, not a number"),
    ({"word": ""}, "word: must not be empty"),
    ({"word": "aaaa"}, "word: must have at most 3 characters"),
    ({"code": "A"}, "code: must match the pattern ^[a-z]+$"),
    ({"count": 0}, "count: must be at least 1"),
    ({"count": 9}, "count: must be less than 9; count: must be a multiple of 2"),
    ({"count": "2"}, "count: must be an integer, not a string"),
    ({"shelf": 2.5}, "shelf: must be an object or null, not a fractional number"),
    ({"count": True}, "count: must be an integer, not a boolean"),
    ({"count": 2.0}, None),
    ('{"count": 2e0, "share": 1, "counts": [1.0]}', None),
    ('{"count": 1e400}', "count: is out of the range of numbers"),
    ('{"share": 1e400}', "share: is out of the range of numbers"),
    ('{"count": NaN}', "the text is not valid JSON, expected value at line 1 column 11"),
    ({"share": 0}, "share: must be more than 0"),
    ({"on": 1}, "on: must be a boolean, not a number"),
    ({"kind": "c"}, 'kind: must be one of "a", "b" or null, not "c"'),
    ({"counts": []}, "counts: must not be empty"),
    ({"counts": [1, "2"]}, "counts.1: must be an integer, not a string"),
    ({"shelf": {"books": {}}}, "shelf.books: must not be empty"),
    ({"shelf": {"books": {"x": 1.5}}}, "shelf.books.x: must be an integer, not a fractional number"),
    ({"shelf": {"page": {"marks": ["a", "b", "c"]}}}, "shelf.page.marks: must have at most 2 items"),
    ({"place": {"title": ""}}, "place.title: must have at least 2 characters"),
    ({"place": 5}, "place: must be an object or null, not a number"),
    ({"colour": 1, "count": None}, "count: must be an integer, not null; colour: is not a known argument"),
]


@requirement("S2-3.4-1")
@pytest.mark.parametrize(("arguments", "said"), SAME)
async def test_a_function_and_a_declared_schema_reject_the_same_arguments_with_the_same_text(
    arguments: Any, said: str | None
) -> None:
    assert (await errors(typed, arguments), await errors(declared(), arguments)) == (said, said)


BY_THE_TYPE: list[tuple[Any, str]] = [
    ({"word": " "}, "word: must not be empty"),
    ({"trimmed": "   "}, "trimmed: must have at least 2 characters"),
    ({"sizes": [1, 2]}, "sizes: must have at least 2 items"),
    ({"whole": 1}, "whole: must be an integer"),
    ({"pages": [{}, {"number": 13}]}, "pages.1.number: there is no page 13"),
    (
        {"pages": [{"number": 13}], "word": " "},
        "word: must not be empty; pages.0.number: there is no page 13",
    ),
]


class Even(BaseModel):
    size: int
    name: str = ""

    @field_validator("size")
    @classmethod
    def halve(cls, size: int) -> int:
        if size % 2:
            raise ValueError("must be even")
        return size


def odd(number: int) -> int:
    raise ValueError("must be even")


def large(number: int) -> int:
    raise ValueError("must be small")


class Two(BaseModel):
    one: Annotated[int, AfterValidator(odd)]
    two: Annotated[int, AfterValidator(large)]


class Small(BaseModel):
    size: int
    name: str = ""

    @field_validator("size")
    @classmethod
    def limit(cls, size: int) -> int:
        if size > 9:
            raise ValueError("must be small")
        return size


async def test_branches_of_a_union_that_validators_reject_are_shown_as_alternatives() -> None:
    @tw.tool
    async def measure(sizes: list[Even | Small], page: Page | None = None) -> str:
        """Measure."""
        return "done"

    assert await errors(measure, {"sizes": [{"size": 2}, {"size": 11}]}) == (
        "sizes.1: fits none of the forms it may have: (size: must be even) or (size: must be small)"
    )
    assert await errors(measure, {"sizes": [{"size": 7}]}) is None
    assert await errors(measure, {"sizes": [], "page": {"number": 13}}) == (
        "page.number: there is no page 13"
    )


async def test_errors_within_a_parsed_text_are_no_alternatives() -> None:
    @tw.tool
    async def measure(both: Json[Two]) -> str:
        """Measure."""
        return "done"

    text = await errors(measure, {"both": '{"one": 1, "two": 2}'})
    assert text is not None and "forms" not in text
    assert text.count("must be even") == text.count("must be small") == 1


@pytest.mark.parametrize(
    ("value", "end"),
    [("c", 'not "c"'), ("c" * 100, "not a string"), (5, "not a number"), ([], "not an array")],
)
async def test_an_unknown_constant_of_a_union_is_named_if_it_is_short(value: Any, end: str) -> None:
    assert (await errors(typed, {"kind": value}) or "").endswith(f"or null, {end}")


@pytest.mark.parametrize(("arguments", "said"), BY_THE_TYPE)
async def test_what_only_the_type_rejects_has_the_words_of_the_schema(arguments: Any, said: str) -> None:
    assert await errors(declared(), arguments) is None
    found = [await errors(typed, {name: each}) for name, each in arguments.items()]
    assert {*found} == {*said.split("; ")}


UNIONS: list[tuple[Any, str]] = [
    ({"number": 13}, "place.number: there is no page 13"),
    ({"title": "   "}, "place.title: must have at least 2 characters"),
    ({"title": "aa", "page": {"number": 13}}, "place.page.number: there is no page 13"),
    ({"title": "aa", "page": {"page": {"number": 13}}}, "place.page.page.number: there is no page 13"),
    (
        {"title": "  ", "page": {"number": 13}},
        "place.title: must have at least 2 characters; place.page.number: there is no page 13",
    ),
]


@pytest.mark.parametrize(("place", "said"), UNIONS)
async def test_of_a_union_only_the_branch_of_the_values_form_is_reported(place: Any, said: str) -> None:
    assert await errors(declared(), {"place": place}) is None
    assert await errors(typed, {"place": place}) == said


async def test_an_error_that_ends_with_a_full_stop_gets_no_second_one() -> None:
    def refuse(_: int) -> int:
        raise ValueError("There is no such page.")

    @tw.tool
    async def read(page: Annotated[int, AfterValidator(refuse)]) -> str:
        """Read a page."""
        return "text"

    result = await tw.Toolset([read]).call("read", {"page": 1})
    assert result.error == "Invalid arguments: page: There is no such page."


@pytest.mark.parametrize("number", ["a", 13])
async def test_at_most_fifty_errors_are_listed_and_the_others_counted(number: Any) -> None:
    many = {"pages": [{"number": number}] * (MAX_ERRORS + 7)}
    for tool in (typed, declared()) if number == "a" else (typed,):
        said = await errors(tool, many) or ""
        assert said.count("pages.") == MAX_ERRORS
        assert said.endswith("; and 7 more")
