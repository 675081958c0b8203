"""Arguments that fit the published schema are accepted by the validator and passed to the handler, for every type."""

import dataclasses
from enum import StrEnum
from typing import Any, Literal, Union

import jsonschema_rs
import pytest
import typing_extensions
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, create_model

import toolwright as tw
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, plain

pytestmark = pytest.mark.anyio


class Colour(StrEnum):
    """A text enum."""

    RED = "red"
    ONE = "1"


class Whole(BaseModel):
    """A model with an integer."""

    x: int
    y: float = 0.5


class Broken(BaseModel):
    """A model with the same names and other numbers."""

    x: float
    y: int = 1


class Named(BaseModel):
    """A model whose fields are all optional."""

    name: str = "n"


class Node(BaseModel):
    """A recursive model."""

    value: int | str
    next: "Node | float | None" = None


NAMES = st.sampled_from(["a", "b", "x"])
SCALARS: Any = st.sampled_from(
    [int, float, bool, str, None, Literal[1], Literal[1, 2, "a"], Literal[True], Literal["red", None], Colour]
)
KINDS = st.sampled_from(["model", "dataclass", "typed dict"])


@st.composite
def structures(draw: Any, within: Any) -> Any:  # untyped by hypothesis
    """Return a type with fields."""
    fields = draw(st.dictionaries(NAMES, within, min_size=1, max_size=2))
    loose = draw(st.booleans())
    match draw(KINDS):
        case "model":
            made: Any = {n: (a_union([t, None]), None) if loose else (t, ...) for n, t in fields.items()}
            return create_model("Model", **made)
        case "dataclass":
            listed = [
                (n, a_union([t, None]), dataclasses.field(default=None)) if loose else (n, t)
                for n, t in fields.items()
            ]
            return dataclasses.make_dataclass("Data", listed)
        case _:
            return typing_extensions.TypedDict("Typed", fields, total=not loose)  # type: ignore[misc]  # made here


def composed(within: Any) -> Any:
    """Return types composed of others."""
    several = st.lists(within, min_size=2, max_size=3)
    return st.one_of(within.map(a_list), within.map(a_dict), several.map(a_union), structures(within))


def a_list(item: Any) -> Any:  # any type
    """Return a list type of such items."""
    return list[item]


def a_dict(item: Any) -> Any:  # any type
    """Return a dict type of such items."""
    return dict[str, item]


def a_union(members: list[Any]) -> Any:  # any types
    """Return a union of these types."""
    return Union[tuple(members)]  # noqa: UP007 - created at run time


TYPES: Any = st.recursive(
    st.one_of(SCALARS, st.sampled_from([Whole, Broken, Named, Node])), composed, max_leaves=5
)
NUMBERS = st.sampled_from([0, 1, 3, 3.0, 1.0, 2.5, -0.0, 10**30, 1e300, 2**53 + 1])
LEAVES = st.one_of(NUMBERS, st.booleans(), st.none(), st.sampled_from(["a", "red", "1", "", "x"]))
VALUES: Any = st.recursive(
    LEAVES,
    lambda within: st.one_of(
        st.lists(within, max_size=2),
        st.dictionaries(st.sampled_from(["a", "b", "x", "y", "name", "value", "next"]), within, max_size=3),
    ),
    max_leaves=5,
)


def fitting(annotation: Any) -> Any:  # a strategy of values
    """Return values that a type is likely to accept."""
    origin, arguments = typing_extensions.get_origin(annotation), typing_extensions.get_args(annotation)
    if origin is list:
        return st.lists(fitting(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(NAMES, fitting(arguments[1]), max_size=2)
    if origin is Literal:
        return st.sampled_from([*arguments, 1.0])
    if arguments:
        return st.one_of(*map(fitting, arguments))
    if annotation is int:
        return st.sampled_from([0, 3, 3.0, 10**30])
    if annotation is float:
        return st.sampled_from([0, 800, 3.0, 2.5])
    scalars = {bool: st.booleans(), str: st.sampled_from(["a", "1"]), Colour: st.sampled_from(["red", "1"])}
    if annotation in scalars:
        return scalars[annotation]
    if annotation is None or annotation is type(None):
        return st.none()
    hints = typing_extensions.get_type_hints(annotation)
    fields = {
        name: fitting(hint) if annotation is not Node else VALUES
        for name, hint in hints.items()
        if name != "model_config"
    }
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def cases(draw: Any) -> tuple[Any, JSON]:  # untyped by hypothesis
    """Return a type and a value that it can accept."""
    annotation = draw(TYPES)
    return annotation, draw(st.one_of(fitting(annotation), VALUES))


def same(sent: JSON, got: JSON) -> bool:
    """Return whether it is the sent value, apart from added defaults."""
    match sent, got:
        case dict(), dict():
            return all(name in got and same(value, got[name]) for name, value in sent.items())
        case list(), list():
            return len(sent) == len(got) and all(map(same, sent, got))
        case int() | float(), float() if not isinstance(sent, bool):
            # a number that no float represents exactly arrives as the nearest float
            return float(sent) == got
        case _:
            return isinstance(sent, bool) == isinstance(got, bool) and sent == got


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(cases())
@example((Whole | Broken, {"x": 3.0, "y": 4.0}))
@example((list[int | list[float]], [3.0, [800]]))
@example((Named | dict[str, int], {"a": 1}))
@example((Literal[1] | bool, True))
@example((Whole | Literal[True] | int, 1.0))
@example((Whole | Literal[True] | float, 1))
@example((list[Literal[1] | bool | Whole], [True, 1, {"x": 1}]))
@example((Literal[True] | Literal[1] | Whole, 1))
@example((Whole, {"x": 0, "y": 10**30}))
@example((dict[str, int | str | None], {"a": 3.0}))
async def test_what_the_schema_accepts_the_handler_gets(case: tuple[Any, JSON]) -> None:
    annotation, sent = case
    received: list[Any] = []

    async def take(value: Any) -> None:
        received.append(value)

    take.__annotations__ = {"value": annotation}
    try:
        tool = tw.tool(description="Take.")(take)
    except DefinitionError as error:
        assume("1 for True or True for 1" not in error.message)
        raise
    accepted = jsonschema_rs.validator_for(tool.parameters, offline=True).is_valid({"value": sent})
    result = await tw.Toolset([tool]).call("take", {"value": sent})
    assert (result.status == "success") == accepted, (result.error, tool.parameters)
    if accepted:
        assert same(sent, plain(received[0])), (sent, received[0])
        if annotation in (int, float):
            assert type(received[0]) is annotation
