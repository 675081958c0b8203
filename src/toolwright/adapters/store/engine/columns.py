"""Columns: how values are stored, and which values a query accepts from each column when it reads.

JSON is stored as text, timestamps as microseconds since 1970 in UTC. Text rather than JSONB: arguments must be read
back byte for byte, and neither NUL nor a lone surrogate may make a row unwritable (see
docs/decisions/0002-json-as-text.md). Reads are validated because SQLite accepts any value in any column and because
disk errors can change stored values.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, get_args

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    text,
)

from toolwright.adapters.store.engine.codecs import (
    MISSHAPEN,
    NOT_JSON,
    Row,
    UnreadableColumn,
    a_text,
    any_json,
    instant,
    read_text,
)
from toolwright.core.broken_rows import OTHER_SHAPE
from toolwright.core.json_value import dumps

metadata = MetaData()  # all tables of the journal, which the modules of `sql` define
ALLOWED = "allowed"
TRUTHS = frozenset({0, 1})  # the only types of SQLite
_parsed = json.JSONDecoder().decode


def one_of(kinds: object) -> dict[str, frozenset[str]]:
    """Return a column's `info` that allows the values of a `Literal`."""
    return {ALLOWED: frozenset(get_args(kinds))}


def partial_index(name: str, *columns: str, where: str) -> Index:
    """Return an index of the rows that meet a condition. A query must repeat it exactly to use the index."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


class Instant(BigInteger):
    """A timestamp, stored as microseconds since 1970."""


class Json(Text):
    """JSON as text: `shape` converts parsed JSON to a value, `write` a value to text.

    `read` is a faster conversion from text to value. `absent` is the value that is stored as NULL.
    """

    def __init__(
        self,
        shape: Callable[[Any], Any] = any_json,  # parsed JSON, and a value of a type that the table chooses
        write: Callable[[Any], str] = dumps,  # as above
        *,
        read: Callable[[str], Any] | None = None,  # as above
        absent: object = None,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.write = write
        self.read = read or (read_text if shape is a_text else self._read)
        self.absent = absent

    def _read(self, written: str) -> Any:  # as above
        return self.shape(_parsed(written))


class Columns:
    """Validates rows by their columns: types, nullability, and allowed values."""

    def __init__(self, columns: Sequence[ColumnElement[Any]]) -> None:  # of any types
        self._columns = tuple(columns)
        self.good: set[tuple[type, ...]] = set()  # types of rows that were validated before: there are few
        self.words = [
            (n, allowed_values(column)) for n, column in enumerate(columns) if allowed_values(column)
        ]

    def check(self, row: Row) -> None:
        """Remember the row's types as valid. Raises `UnreadableColumn` for a value of a wrong type."""
        types = tuple(map(type, row))
        for n, (column, kind) in enumerate(zip(self._columns, types, strict=False)):
            if kind not in _types(column):
                raise UnreadableColumn(n, _column_error(column, kind))
        self.good.add(types)
        for n, allowed in self.words:
            if row[n] not in allowed:
                raise UnreadableColumn(n, _disallowed_value(self._columns[n], allowed))

    def check_values(self, row: Row) -> None:
        """Raise `UnreadableColumn` for a value that cannot be read although its type matches its column."""
        for n, column in enumerate(self._columns):
            error = None if row[n] is None else _value_error(column.type, row[n])
            if error is not None:
                raise UnreadableColumn(n, error)


def blank(column: Column[Any]) -> str | int | None:  # of any type
    """Return the placeholder for a value that cannot be read."""
    if column.nullable:
        return None
    return 0 if isinstance(column.type, Integer | Float | Boolean) else ""


def is_nullable(column: ColumnElement[Any]) -> bool:  # as above
    """Return whether the column can be NULL."""
    return not isinstance(column, Column) or bool(column.nullable)


def allowed_values(column: ColumnElement[Any]) -> frozenset[object]:  # as above
    """Return the values that the column allows, or an empty set if it is not limited to listed values."""
    values: frozenset[object] = (
        column.info.get(ALLOWED, frozenset()) if isinstance(column, Column) else frozenset()
    )
    values = TRUTHS if isinstance(column.type, Boolean) else values
    return values | {None} if values and is_nullable(column) else values


def _types(column: ColumnElement[Any]) -> tuple[type, ...]:
    empty = (type(None),) if is_nullable(column) else ()
    match column.type:
        case Boolean():
            return (bool, int, *empty)
        case Float():
            return (float, int, *empty)
        case Integer():
            return (int, *empty)
        case LargeBinary():
            return (bytes, *empty)
        case _:
            return (str, *empty)


def _column_error(column: ColumnElement[Any], kind: type) -> str:
    if kind is type(None):
        return "is missing"
    match column.type:
        case Boolean():
            return "is neither true nor false"
        case Float():
            return "is not a number"
        case Integer():
            return "is not a whole number"
        case LargeBinary():
            return "is not bytes"
        case _:
            return "is not text in UTF-8" if kind is bytes else "is not text"


def _disallowed_value(column: ColumnElement[Any], allowed: frozenset[object]) -> str:
    if isinstance(column.type, Boolean):
        return "is neither true nor false"
    return f"is none of {', '.join(sorted(str(value) for value in allowed if value is not None))}"


def _value_error(kind: object, written: Any) -> str | None:  # of the column's type
    try:
        if isinstance(kind, Instant):
            instant(written)
    except OverflowError:
        return "is not a timestamp"
    if not isinstance(kind, Json):
        return None
    try:
        parsed = json.loads(written)
    except NOT_JSON:
        return "is not JSON"
    try:
        kind.shape(parsed)
    except MISSHAPEN:
        return OTHER_SHAPE
    return None
