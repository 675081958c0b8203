"""Defaults of arguments: each call has its own copy, and a default of the wrong type is rejected at declaration."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

import toolwright as tw
from toolwright.core.errors import DefinitionError
from toolwright.core.state.memory import MemoryState


class Color(StrEnum):
    """A colour."""

    RED = "red"


@dataclass(eq=False)
class Point:
    """A type that is hashable and mutable."""

    tags: list[str] = field(default_factory=list[str])


class Frozen(BaseModel):
    """A frozen type that contains a list."""

    model_config = ConfigDict(frozen=True)
    tags: list[str] = []


class Filter(BaseModel):
    """A model with defaults of every kind."""

    tags: list[str] = []
    weights: dict[str, list[int]] = {"a": [1]}
    point: Point = Point()
    frozen: Frozen = Frozen()
    made: list[str] = Field(default_factory=list[str])


@dataclass
class Query:
    """The same as a dataclass."""

    point: Point = Point()  # noqa: RUF009 - the error under test
    tags: list[str] = field(default_factory=list[str])


def grow(value: Any) -> None:  # any value that can be extended
    """Change every mutable part of a value."""
    within = cast("dict[str, object]", value if isinstance(value, dict) else getattr(value, "__dict__", {}))
    for each in list(within.values()):
        grow(each)
    if isinstance(value, dict):
        within["grown"] = "grown"
    if isinstance(value, list):
        cast("list[object]", value).append("grown")


@tw.tool(description="Grow what it is given.")
async def parameters(
    filters: dict[str, list[str]] = {"a": []},  # noqa: B006 - the error under test
    tags: list[str] = [],  # noqa: B006 - the error under test
    few: Annotated[list[str], Field(description="Few")] = [],  # noqa: B006 - the error under test
    also: list[str] = Field(default=["x"]),  # noqa: B008 - the error under test
    made: list[str] = Field(default_factory=list[str]),  # noqa: B008 - the error under test
    filter: Filter = Filter(),  # noqa: B008 - the error under test
    query: Query = Query(),  # noqa: B008 - the error under test
    point: Point = Point(),  # noqa: B008 - the error under test
    frozen: Frozen = Frozen(),  # noqa: B008 - the error under test
) -> str:
    """Everything by default."""
    given: tuple[object, ...] = (filters, tags, few, also, made, filter, query, point, frozen)
    lists: tuple[object, ...] = (filters, tags, few, also, made, query.tags)
    shown = f"{lists} {filter.tags} {filter.weights} {filter.frozen} {frozen}"
    shown += repr([vars(each) for each in (query.point, filter.point, point)])
    for each in given:
        grow(each)
    return shown


@tw.tool(description="Grow what it is given.", args=Filter)
async def model(filter: Filter) -> str:
    """A model by default."""
    shown = repr([filter.tags, filter.weights, vars(filter.point), filter.frozen, filter.made])
    grow(filter)
    return shown


@tw.tool(description="Grow what it is given.")
async def given_in_part(filters: list[Filter], queries: dict[str, Query]) -> str:
    """Defaults within what is given."""
    one, two = filters[0], queries["a"]
    shown = repr([one.tags, one.weights, vars(one.point), one.frozen, vars(two.point), two.tags])
    grow(one)
    grow(two)
    return shown


@tw.tool(description="Grow what the thread has brought.", tenvs=Filter)
async def tenvs(state: tw.ThreadState) -> str:
    """Tenvs by default."""
    known = state.tenvs
    shown = f"{known.tags} {known.weights} {vars(known.point)} {known.frozen} {known.made}"
    for each in (known.tags, known.weights, known.point, known.frozen, known.made):
        grow(each)
    return shown


@pytest.mark.anyio
@pytest.mark.parametrize("tool", [parameters, model, given_in_part, tenvs], ids=lambda tool: tool.name)
async def test_what_one_call_does_to_its_defaults_no_other_sees(tool: tw.Tool) -> None:
    toolset = tw.Toolset([tool])
    arguments: dict[str, object] = {"filters": [{}], "queries": {"a": {}}} if tool is given_in_part else {}
    first, second = [await toolset.call(tool.name, arguments, MemoryState()) for _ in range(2)]
    assert first.status == "success", first.error
    assert second == first
    assert "grown" not in str(first.result)


@pytest.mark.anyio
async def test_a_default_arrives_as_its_type_is_and_as_the_schema_says() -> None:
    @tw.tool(description="Show.")
    async def show(
        color: Color = "red",  # type: ignore[assignment]  # as users write it
        tags: list[str] = (),  # type: ignore[assignment]  # as users write it
        filter: Filter = {"tags": ["a"]},  # type: ignore[assignment]  # noqa: B006 - as users write it
        ratio: float = 3,
    ) -> str:
        return repr([color, tags, filter.tags, ratio])

    result = await tw.Toolset([show]).call("show", {})
    assert result.result == repr([Color.RED, [], ["a"], 3.0])


def refused(make: Callable[[], object]) -> str:
    """Return the reason of the rejection."""
    with pytest.raises(DefinitionError) as caught:
        make()
    return caught.value.message


TEN: Any = "ten"  # a default that type checkers ignore


def with_default(annotation: object, default: object) -> Callable[[], object]:
    """Make a tool with a parameter of that type and default."""

    def act(limit: Any = default) -> str:  # annotated below
        """Act."""
        return ""

    act.__annotations__ = {"limit": annotation, "return": str}
    return lambda: tw.tool(act)


@pytest.mark.parametrize(
    ("annotation", "default", "why"),
    [
        (int, "ten", "has the default 'ten', but it must be a whole number"),
        (int, True, "has the default True, but it must be a whole number"),
        (int, 2.5, "has the default 2.5, but it must be a whole number"),
        (bool, 1, "has the default 1, but it must be true or false"),
        (str, 5, "has the default 5, but it must be text"),
        (float, "1", "has the default '1', but it must be a number"),
        (
            int,
            None,
            "has the default None, but it must be a whole number; if it may be None, annotate it so (`int | None`)",
        ),
        (list[int], ["a"], "has a default whose part 0 must be a whole number"),
        (dict[str, list[int]], {"a": [1, "b"]}, "has a default whose part a.1 must be a whole number"),
        (Literal["a", "b"], "c", "has the default 'c', but it must be 'a' or 'b'"),
        (Color, "blue", "has the default 'blue', but it must be 'red'"),
        (Annotated[int, Field(ge=1)], 0, "has the default 0, but it must be at least 1"),
        (int, Field(default="ten"), "has the default 'ten', but it must be a whole number"),
        (Filter, {"tags": 5}, "has a default whose part tags must be a list"),
    ],
)
def test_a_default_that_its_own_type_refuses_is_refused_with_the_parameter(
    annotation: object, default: object, why: str
) -> None:
    assert refused(with_default(annotation, default)) == f"Tool 'act': parameter 'limit' {why}."


def test_such_a_default_is_refused_within_models_dataclasses_and_tenvs() -> None:
    class Deep(BaseModel):
        limit: int = TEN

    class Outer(BaseModel):
        deep: list[Deep] = []

    @dataclass
    class Old:
        limit: int = TEN

    async def act() -> str:
        """Act."""
        return ""

    async def one(given: Outer) -> str:
        """Act."""
        return ""

    wrong = "has the default 'ten', but it must be a whole number."
    assert refused(lambda: tw.tool(args=Outer)(one)) == f"Tool 'one': parameter 'deep[].limit' {wrong}"
    assert refused(lambda: tw.tool(tenvs=Deep)(act)) == f"Tool 'act': parameter 'limit' {wrong}"
    assert refused(with_default(Old, Old())) == f"Tool 'act': parameter 'limit.limit' {wrong}"
    assert refused(lambda: tw.Prompt("p", required_schema=Deep)) == f"Tool 'p': parameter 'limit' {wrong}"


def test_a_default_that_a_model_validates_itself_is_its_own() -> None:
    class Listed(BaseModel):
        tags: list[str] = Field(default="a,b", validate_default=True)  # type: ignore[assignment]  # split below

        @field_validator("tags", mode="before")
        @classmethod
        def split(cls, given: object) -> object:
            return given.split(",") if isinstance(given, str) else given

    async def act(given: Listed) -> str:
        """Act."""
        return ""

    tw.tool(args=Listed)(act)
