"""Codecs of columns: timestamps, JSON, texts; and errors of unreadable values.

A row is a sequence in the order of the table's columns.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from json.decoder import scanstring  # type: ignore[attr-defined]  # what the decoder reads strings by, in C
from typing import Any, TypeAlias, TypeVar, cast

from toolwright.core.errors import ToolwrightError
from toolwright.core.json_value import JSON, JSONObject, dumps, dumps_unescaped

T = TypeVar("T")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
NOT_JSON = (ValueError, TypeError, RecursionError)
MISSHAPEN = (ValueError, TypeError, LookupError, AttributeError, ToolwrightError)
"""Errors raised for a text that is not JSON and for JSON of an unexpected shape."""

Row: TypeAlias = Sequence[Any]  # a driver's row: the values have the types of the table's columns
Param: TypeAlias = str | int | float | bool | bytes | None
Params: TypeAlias = dict[str, Param]
Values: TypeAlias = tuple[Param, ...]  # the parameters of a statement in its order, including its constants


def size_of(row: Row) -> int:
    """Return the approximate size of a row: the characters of its texts plus the length of its bytes."""
    return sum([len(each) for each in row if isinstance(each, str | bytes)])


def micros(instant: datetime) -> int:
    """Return microseconds since 1970."""
    return (instant - EPOCH) // MICROSECOND


def micros_or_none(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - EPOCH) // MICROSECOND


def instant(value: int) -> datetime:
    """Return the timezone-aware timestamp in UTC."""
    return EPOCH + timedelta(microseconds=value)


def instant_or_none(value: int | None) -> datetime | None:
    return None if value is None else EPOCH + timedelta(microseconds=value)


def text_or_none(value: JSON) -> str | None:
    return None if value is None else dumps(value)


def long_text_or_none(value: JSON) -> str | None:
    """Return JSON of a long value that is never compared, such as arguments and results."""
    return None if value is None else dumps_unescaped(value)


class UnreadableColumn(Exception):
    """A column cannot be read. Has its index in the row and the reason."""

    def __init__(self, column: int, why: str) -> None:
        super().__init__(column, why)
        self.column = column
        self.why = why


def read_text(written: str) -> str:
    """Return the text encoded as JSON. Raises the errors of `json.loads`, or `TypeError`."""
    if written[:1] == '"':
        text, end = cast("tuple[str, int]", scanstring(written, 1))  # the text and the index of its end
        if end == len(written):
            return text
    return a_text(json.loads(written))


def any_json(parsed: JSON) -> JSON:
    """Return any JSON value unchanged."""
    return parsed


def a_text(parsed: JSON) -> str:
    """Return the value if it is a text. Raises `TypeError` otherwise."""
    return _checked(parsed, str)


def texts(parsed: JSON) -> tuple[str, ...]:
    """Return a tuple of texts. Raises `TypeError` for any other value."""
    return tuple([a_text(each) for each in cast("list[JSON]", _checked(parsed, list))])


def an_object(parsed: JSON) -> JSONObject:
    """Return the value if it is a JSON object. Raises `TypeError` otherwise."""
    return cast("JSONObject", _checked(parsed, dict))  # JSON keys are text


def _checked(parsed: JSON, kind: type[T]) -> T:
    if not isinstance(parsed, kind):
        raise TypeError("another kind of JSON")
    return parsed
