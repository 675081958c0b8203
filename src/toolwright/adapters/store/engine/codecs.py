"""How values lie in columns: JSON, instants, texts; and what cannot be read of them.

A row is a sequence in the order of the table's columns.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar, cast

from toolwright.core.broken_rows import OTHER_SHAPE
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON, JSONObject, dumps, dumps_unescaped

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(instant: datetime) -> int:
    """Microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def micros_or_none(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """The aware instant, in UTC."""
    return _EPOCH + timedelta(microseconds=value)


def instant_or_none(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + timedelta(microseconds=value)


Row: TypeAlias = Sequence[Any]  # a driver's row: its types are those of the table's columns
Params: TypeAlias = dict[str, "str | int | float | bool | None"]


def text_or_none(value: JSON) -> str | None:
    return None if value is None else dumps(value)


def long_text_or_none(value: JSON) -> str | None:
    """The same for what may be long and is never compared, as arguments and results are."""
    return None if value is None else dumps_unescaped(value)


class UnreadableColumn(Exception):
    """A column cannot be read: its place in the row, and why."""

    def __init__(self, column: int, why: str) -> None:
        super().__init__(column, why)
        self.column = column
        self.why = why


def read(row: Row, column: int, made: Callable[[Any], T]) -> T:  # JSON of the shape that `made` takes
    """What `made` makes of the JSON in a column; raises `UnreadableColumn`."""
    try:
        found = json.loads(row[column])
    except (ValueError, TypeError, RecursionError):
        raise UnreadableColumn(column, "is not JSON") from None
    try:
        return made(found)
    except (ValueError, TypeError, LookupError, AttributeError, InvalidJSON):
        raise UnreadableColumn(column, OTHER_SHAPE) from None


def read_or_none(row: Row, column: int, made: Callable[[Any], T]) -> T | None:  # as above
    """The same, None for a column that is NULL."""
    return None if row[column] is None else read(row, column, made)


def any_json(found: JSON) -> JSON:
    """Any JSON."""
    return found


def a_text(found: JSON) -> str:
    """Text, else `TypeError`."""
    return _of_kind(found, str)


def texts(found: JSON) -> tuple[str, ...]:
    """A list of texts, else `TypeError`."""
    return tuple([a_text(each) for each in cast("list[JSON]", _of_kind(found, list))])


def an_object(found: JSON) -> JSONObject:
    """An object, else `TypeError`."""
    return cast("JSONObject", _of_kind(found, dict))  # the keys of JSON are text


def read_instant(row: Row, column: int) -> datetime:
    """An instant; raises `UnreadableColumn`."""
    try:
        return instant(row[column])
    except (TypeError, OverflowError):
        raise UnreadableColumn(column, "is not an instant") from None


def read_instant_or_none(row: Row, column: int) -> datetime | None:
    """The same, None for a column that is NULL."""
    return None if row[column] is None else read_instant(row, column)


def _of_kind(found: JSON, kind: type[T]) -> T:
    if not isinstance(found, kind):
        raise TypeError("another kind of JSON")
    return found
