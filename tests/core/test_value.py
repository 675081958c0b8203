"""Values: compared, hashed and shown by their fields, like dataclasses."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from toolwright.core.value import changed, maker, value


@value
class Point:
    """A place."""

    x: int
    y: int = 0
    note: str = field(default="", repr=False)


@value
class Place(Point):
    """A place with a name."""

    name: str = ""


@value
class Named:
    """A value with its own `repr` and comparison."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name.lower() == self.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


@value
class Chain:
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
    assert hash(Point(x=1, y=2, note="")) == hash((1, 2, ""))


@pytest.mark.parametrize("other", [Place(x=1), Plain(x=1), (1, 0, ""), None])
def test_a_value_equals_nothing_of_another_class(other: object) -> None:
    assert Point(x=1) != other
    assert other != Point(x=1)


def test_what_derives_from_a_value_has_all_its_fields_in_any_order_of_comparison() -> None:
    assert Point(x=1) == Point(x=1)
    assert Place(x=1, name="a") != Place(x=1, name="b")
    assert repr(Place(x=1, name="a")) == "Place(x=1, y=0, name='a')"
    assert hash(Place(x=1, name="a")) != hash(Place(x=1, name="b"))


def test_a_value_is_shown_as_a_dataclass_is() -> None:
    assert repr(Point(x=1, note="a")) == "Point(x=1, y=0)"
    assert repr(Plain(x=1)) == "Plain(x=1, y=0)"
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


def test_a_value_is_a_dataclass() -> None:
    assert [each.name for each in fields(Place(x=1))] == ["x", "y", "note", "name"]  # type: ignore[arg-type]  # a value
    assert changed(Point(x=1), y=5) == replace(Point(x=1), y=5) == Point(x=1, y=5)  # type: ignore[type-var]  # the same


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


def test_a_maker_makes_what_the_class_makes() -> None:
    make = maker(Point, "x", y=2, note="n")
    assert make(1) == Point(x=1, y=2, note="n")
    assert make(3) == Point(x=3, y=2, note="n")


@pytest.mark.parametrize(
    ("arguments", "values", "said"),
    [
        ((), {}, "missing 1 required keyword-only argument: 'x'"),
        ((), {"x": 1, "z": 2}, "unexpected keyword argument 'z'"),
        ((1,), {}, "positional argument"),
    ],
)
def test_wrong_arguments_are_rejected_by_the_first_and_by_later_constructors(
    arguments: tuple[int, ...], values: dict[str, int], said: str
) -> None:
    @value
    class Fresh:
        x: int

    for _ in range(2):
        with pytest.raises(TypeError, match=said):
            Fresh(*arguments, **values)
        Fresh(x=1)


def test_each_value_has_its_own_default_and_is_checked_when_it_is_made() -> None:
    @value
    class Many:
        items: list[int] = field(default_factory=list[int])
        seen: list[str] = field(default_factory=list[str])

        def __post_init__(self) -> None:
            self.seen.append("made")

    class More(Many):
        """Not a value of its own."""

    first, second = More(), Many(items=[1])
    assert (first.items, first.seen, second.items, second.seen) == ([], ["made"], [1], ["made"])
    assert first.items is not Many().items


def test_the_first_values_of_a_class_can_be_created_by_many_threads() -> None:
    classes: list[Any] = [value(type(f"C{n}", (), {"__annotations__": {"x": int}})) for n in range(50)]
    with ThreadPoolExecutor(8) as pool:
        for made in classes:
            created = [pool.submit(made, x=n) for n in range(8)]
            assert [each.result().x for each in created] == [*range(8)]
