"""Any Python value as plain JSON: the same in compiled code and outside it."""

from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.counting import calls_of_ours

from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON, plain
from toolwright.core.tools.tool import tool
from toolwright.core.tools.toolset import Toolset


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Word(str):
    pass


@dataclass
class Point:
    x: float


def _walled(depth: int, value: object) -> object:
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "copy"),
    [
        ((1, (2.0,)), [1, [2.0]]),
        ({"a": Colour.RED, Colour.RED: Size.LARGE}, {"a": "red", "red": 3}),
        ([Word("a"), Point(1.0)], ["a", {"x": 1.0}]),
        (OrderedDict[str, int](b=1, a=2), {"b": 1, "a": 2}),
        ([2**70, -(2**63), 2**63], [2**70, -(2**63), 2**63]),
        ({"\ud800": "\ud800"}, {"\ud800": "\ud800"}),
        (_walled(64, 1), _walled(64, 1)),
    ],
)
def test_what_is_not_quite_plain_becomes_so(value: object, copy: object) -> None:
    made = plain(value)
    assert made == copy
    assert repr(made) == repr(copy)


class Scalar:
    """A value with the interface of numpy's, which is not installed here."""

    __module__ = "numpy"

    def __init__(self, value: object) -> None:
        self._value = value

    def tolist(self) -> object:
        return self._value


class Kind(Enum):
    TEA = 1


@dataclass
class Stay:
    price: Decimal
    night: date
    rooms: set[int]


VALUES: list[tuple[object, JSON]] = [
    (Decimal("4.50"), "4.50"),
    (date(2026, 11, 24), "2026-11-24"),
    (datetime(2026, 11, 24, 9, 30, tzinfo=UTC), "2026-11-24T09:30:00Z"),
    (time(9, 30), "09:30:00"),
    (timedelta(hours=1), "PT1H"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("/tmp/x"), "/tmp/x"),
    (IPv4Address("127.0.0.1"), "127.0.0.1"),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), ["a", "b"]),
    (deque([1, 2]), [1, 2]),
    (Scalar(3), 3),
    (Scalar([1.5, 2.5]), [1.5, 2.5]),
    (Stay(Decimal(4), date(2026, 1, 1), {2}), {"price": "4", "night": "2026-01-01", "rooms": [2]}),
    (Kind.TEA, 1),
    ([Kind.TEA, {Kind.TEA: Kind.TEA}], [1, {"1": 1}]),
    ({1: "a", 1.5: "b"}, {"1": "a", "1.5": "b"}),
    ({True: "a"}, {"true": "a"}),
    ({date(2026, 1, 1): 1, UUID(int=1): 2}, {"2026-01-01": 1, "00000000-0000-0000-0000-000000000001": 2}),
    ({datetime(2026, 1, 1, 9, tzinfo=UTC): Decimal("1.5")}, {"2026-01-01T09:00:00Z": "1.5"}),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("value", "copy"), VALUES)
async def test_values_are_serialised_as_pydantic_does_wherever_they_stand(value: object, copy: JSON) -> None:
    assert plain(value) == copy
    assert plain({"a": [value]}) == {"a": [copy]}
    assert plain((value,)) == [copy]

    @tool(name="give", description="Give.")
    async def give() -> Any:
        return {"a": [value]}

    assert (await Toolset([give]).call("give", {})).result == {"a": [copy]}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": {(1, 2): 2}}, "a has the key (1, 2), and in JSON a key is text."),
        ({"a": {None: 2}}, "a has the key None, and in JSON a key is text."),
        ({"a": {1: 2, "1": 3}}, "a has the key '1' twice, once it is text."),
        ({float("nan"): 2}, "The value is nan, which JSON cannot represent."),
        ([float("nan")], "0 is nan, which JSON cannot represent."),
        ({"a": [b"x"]}, "a.0 is of the type bytes, which JSON cannot represent."),
        ({"a": {float("nan")}}, "a.0 is nan, which JSON cannot represent."),
        ([Decimal("NaN")], "0 is NaN, which JSON cannot represent."),
        ([Scalar(b"x")], "0 is of the type Scalar, which JSON cannot represent."),
        ([Scalar(float("inf"))], "0 is inf, which JSON cannot represent."),
        ([iter(())], "0 is of the type tuple_iterator, which JSON cannot represent."),
        ([1 << 20_000], "0 is a number of too many digits."),
        (_walled(65, 1), "0.0.0 is nested deeper than 64 levels."),
    ],
)
def test_what_is_no_json_is_named_by_its_place(value: object, why: str) -> None:
    with pytest.raises(InvalidJSON) as caught:
        plain(value)
    assert caught.value.message == why


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = [1]  # it contains itself
    value.append(value)
    with pytest.raises(InvalidJSON, match="contains itself"):
        plain(value)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(JSONS)
def test_json_stays_as_it_is(value: object) -> None:
    assert repr(plain(value)) == repr(value)


def test_a_copy_shares_nothing_that_can_change() -> None:
    inner = [1]
    value = {"a": inner, "b": inner}
    copy: Any = plain(value)  # an object
    inner.append(2)
    copy["a"].append(3)
    assert copy == {"a": [1, 3], "b": [1]}


def test_what_is_plain_is_copied_without_a_walk_in_python() -> None:
    value = {"items": [{"name": "a", "price": 2.0, "tags": ["x"], "left": None, "new": True}] * 50}
    plain(value)
    with calls_of_ours() as calls:
        plain(value)
    assert calls == ["plain"]


class Unit(StrEnum):
    """Texts whose values differ from their names."""

    METRE = "m"

    def __new__(cls, text: str) -> "Unit":
        made = str.__new__(cls, text)
        made._value_ = text.upper()
        return made


def test_keys_of_other_classes_than_text_are_looked_at_one_by_one() -> None:
    copy: Any = plain({Word("a"): 1, Unit.METRE: 2, "b": {Unit.METRE: 3}})  # an object
    assert copy == {"a": 1, "M": 2, "b": {"M": 3}}
