"""Values: frozen, and compared, hashed and shown by their fields."""

import asyncio
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Literal

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

import toolwright as tw
from toolwright.core.value import Value, changed, field


class Point(Value):
    """A place."""

    x: int
    y: int = 0
    note: str = ""


class Place(Point):
    """A place with a name."""

    name: str = ""


class Twin(Value):
    """The fields of `Plain`."""

    x: int
    y: int = 0


class Named(Value):
    """A value with its own `repr` and comparison."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name.lower() == self.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


class Chain(Value):
    """A value that can contain itself."""

    links: list[object]


@dataclass(kw_only=True, slots=True, unsafe_hash=True)
class Plain:
    """The same fields in a class of `dataclasses`."""

    x: int
    y: int = 0


def test_values_of_one_class_are_equal_by_their_fields() -> None:
    assert Point(x=1) == Point(x=1)
    assert Point(x=1) != Point(x=2)
    assert Point(x=1, note="a") != Point(x=1)
    assert len({Point(x=1), Point(x=1), Point(x=2)}) == 2


@pytest.mark.parametrize("other", [Place(x=1), Plain(x=1), (1, 0, ""), None])
def test_a_value_equals_nothing_of_another_class(other: object) -> None:
    assert Point(x=1) != other
    assert other != Point(x=1)


def test_what_derives_from_a_value_has_all_its_fields_in_any_order_of_comparison() -> None:
    assert Point(x=1) == Point(x=1)
    assert Place(x=1, name="a") != Place(x=1, name="b")
    assert repr(Place(x=1, name="a")) == "Place(x=1, y=0, note='', name='a')"
    assert hash(Place(x=1, name="a")) != hash(Place(x=1, name="b"))


def test_a_value_is_shown_as_a_dataclass_is() -> None:
    assert repr(Point(x=1, note="a")) == "Point(x=1, y=0, note='a')"
    chain = Chain(links=[])
    chain.links.append(chain)
    assert repr(chain) == "Chain(links=[...])"


def test_what_a_class_says_itself_stays() -> None:
    assert repr(Named(name="A")) == "<A>"
    assert Named(name="A") == Named(name="a")
    assert len({Named(name="A"), Named(name="a")}) == 1


def test_an_unhashable_field_is_said() -> None:
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(Chain(links=[]))


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Point(x=1).x = 2  # type: ignore[misc]  # the type checker refuses it as well


def test_the_functions_for_dataclasses_take_values() -> None:
    place = Place(x=1)
    assert is_dataclass(place)
    assert [each.name for each in fields(place)] == ["x", "y", "note", "name"]  # type: ignore[arg-type]  # a value
    assert [each.name for each in fields(Point)] == ["x", "y", "note"]  # type: ignore[arg-type]  # a value
    assert asdict(place) == to_jsonable_python(place) == {"x": 1, "y": 0, "note": "", "name": ""}  # type: ignore[call-overload]  # a value
    assert replace(place, name="a") == Place(x=1, name="a")  # type: ignore[type-var]  # the same, after those of its base
    assert changed(Point(x=1), y=5) == replace(Point(x=1), y=5) == Point(x=1, y=5)  # type: ignore[type-var]  # the same


class Trip(Value):
    """A value of values."""

    start: Point
    stops: tuple["Place", ...] = ()


class Booking(BaseModel):
    trip: Trip


def test_pydantic_validates_and_serializes_values_as_dataclasses() -> None:
    trip = Trip(start=Point(x=1), stops=(Place(x=2, name="a"),))
    booking = Booking(trip=trip)
    assert booking.trip is trip
    assert Booking.model_validate_json(booking.model_dump_json()) == booking
    assert booking.model_dump()["trip"] == asdict(trip)  # type: ignore[call-overload]  # a value
    with pytest.raises(ValidationError) as raised:
        Booking.model_validate({"trip": {"start": {"x": "one"}}})
    assert [each["loc"] for each in raised.value.errors()] == [("trip", "start", "x")]


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_the_json_schema_of_a_value_is_that_of_a_dataclass(
    mode: Literal["validation", "serialization"],
) -> None:
    ours, theirs = (TypeAdapter(kind).json_schema(mode=mode) for kind in (Plain, Twin))
    assert {**theirs, "title": "Plain", "description": Plain.__doc__} == {
        "description": Plain.__doc__,
        **ours,
    }


def test_values_are_arguments_and_outputs_of_tools_and_agents() -> None:
    @tw.tool
    def shown(content: tw.TextContent) -> str:
        """Show a text."""
        return content.text

    result = asyncio.run(tw.Toolset([shown]).call("shown", {"content": {"text": "a"}}))
    assert result == tw.ToolResult.ok("a")
    model = tw.testing.ScriptedModel([{"text": '{"text": "b"}'}])
    agent = tw.Agent("writer", model=model, output=tw.TextContent)
    assert tw.run_sync(agent, "Write.").output == tw.TextContent(text="b")


@dataclass(frozen=True)
class Checked:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("below zero")


def test_other_dataclasses_are_changed_too_and_validated_as_when_they_are_made() -> None:
    assert changed(Checked(1), x=2) == Checked(2)
    with pytest.raises(ValueError, match="below zero"):
        changed(Checked(1), x=-1)
    with pytest.raises(TypeError, match="Checked has no field 'y'"):
        changed(Checked(1), y=1)


@pytest.mark.parametrize(
    ("arguments", "values", "said"),
    [
        ((), {}, "Missing required argument 'x'"),
        ((), {"x": 1, "z": 2}, "Unexpected keyword argument 'z'"),
        ((1,), {}, "positional arguments"),
    ],
)
def test_wrong_arguments_are_rejected(arguments: tuple[int, ...], values: dict[str, int], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Point(*arguments, **values)


def test_each_value_has_its_own_default_and_is_checked_when_it_is_made() -> None:
    class Many(Value):
        items: list[int] = field(default_factory=list[int])
        seen: list[str] = field(default_factory=list[str])

        def __post_init__(self) -> None:
            self.seen.append("made")

    first, second = Many(), Many(items=[1])
    assert (first.items, first.seen, second.items, second.seen) == ([], ["made"], [1], ["made"])
    assert first.items is not Many().items
    assert changed(second, items=[2]).seen == ["made", "made"]
