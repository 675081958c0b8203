"""Mappings between the values of a class and the rows of a table, in both directions, and broken rows.
The types of the columns define each field's encoding. Code for both directions is generated once per table and is as
fast as handwritten code.
"""

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Names
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar, cast

from sqlalchemy import Boolean, ColumnElement, Table, select

from toolwright.adapters.store.engine.codecs import (
    EPOCH,
    MICROSECOND,
    MISSHAPEN,
    Param,
    Params,
    Row,
    UnreadableColumn,
    Values,
    instant_or_none,
    micros_or_none,
)
from toolwright.adapters.store.engine.columns import Columns, Instant, Json, is_nullable
from toolwright.adapters.store.engine.program import Statement
from toolwright.core.broken_rows import BrokenRow
from toolwright.core.errors import RowBroken
from toolwright.core.limits import Page

T = TypeVar("T")
V = TypeVar("V", contravariant=True)
ADVICE = "Run `toolwright doctor`, which names all broken rows."
UNREADABLE = (*MISSHAPEN, RecursionError, OverflowError)


class RowReader(Generic[T]):
    """Converts rows with these columns to values."""

    def __init__(
        self,
        table: Table,
        convert: Callable[[Row], T],
        columns: Sequence[ColumnElement[Any]] | None = None,  # of any types
    ) -> None:
        self.table = table
        self.query = select(*(table.columns if columns is None else columns))
        self.read = convert  # raises `UnreadableColumn`

    def page(self, rows: Sequence[Row]) -> Page[T]:
        """Return the values of the rows of a list. Raises `RowBroken` if one is broken."""
        return Page(map(self._one, rows))

    def all(self, rows: Sequence[Row]) -> list[T]:
        """Return the values of the rows. Raises `RowBroken` if one is broken."""
        return [self._one(row) for row in rows]

    def first(self, rows: Sequence[Row]) -> T | None:
        """Return the value of the first row, or None. Raises `RowBroken`."""
        return self._one(rows[0]) if rows else None

    def readable(self, rows: Sequence[Row]) -> list[T]:
        """Return the values of the rows without the broken ones, which must not stop work on the others."""
        values: list[T] = []
        for row in rows:
            with suppress(UnreadableColumn):
                values.append(self.read(row))
        return values

    def broken(self, rows: Sequence[Row]) -> list[BrokenRow]:
        """Return the broken rows, each with its invalid column."""
        broken: list[BrokenRow] = []
        for row in rows:
            try:
                self.read(row)
            except UnreadableColumn as error:
                broken.append(self._broken(row, error))
        return broken

    def _one(self, row: Row) -> T:
        try:
            return self.read(row)
        except UnreadableColumn as error:
            raise RowBroken(f"{self._broken(row, error).sentence} {ADVICE}") from None

    def _broken(self, row: Row, error: UnreadableColumn) -> BrokenRow:
        names = self.query.selected_columns.keys()
        columns = dict(zip(names, row, strict=False))
        key = " and ".join(f"{each.name} {columns[each.name]!r}" for each in self.table.primary_key.columns)
        return BrokenRow(table=self.table.name, key=key, column=names[error.column], why=error.why)


class RowWriter(Protocol[V]):
    """Converts a value to its row's parameters; `given` are the parameters that the value does not provide."""

    def __call__(self, value: V, /, **given: Param) -> Params: ...


class Mapping(RowReader[T]):
    """A reader that also converts values to rows.

    `names` maps columns to fields with a different name. `derived` are columns computed from the value. All fields
    without a column of their own are stored together in `rest`. Parameters that the value does not provide are passed.
    """

    def __init__(
        self,
        table: Table,
        kind: type[T],
        *,
        columns: Sequence[ColumnElement[Any]] | None = None,  # of any types
        names: Names[str, str] | None = None,
        derived: Names[str, Callable[[T], Param]] | None = None,
        rest_field: str | None = None,
    ) -> None:
        self.kind = kind
        self._columns = tuple(table.columns if columns is None else columns)
        self._names, self._derived, self._rest = names or {}, derived or {}, rest_field
        self._fields = {each.name for each in fields(cast("Any", kind))}  # a dataclass
        self._encoders: dict[str, Callable[[Any], Param]] = {}  # as above
        self._makers: dict[tuple[Statement, tuple[str, ...]], Callable[..., Values]] = {}
        super().__init__(table, self._read_first, columns)

    @cached_property
    def params(self) -> RowWriter[T]:
        """Function that converts a value to its row's parameters, by column name."""
        space: dict[str, object] = {"EPOCH": EPOCH, "MICROSECOND": MICROSECOND}
        written = [(str(column.key), self._written(column, space)) for column in self._columns]
        lines = [f"  {name!r}: {code}," for name, code in written if code]
        text = ["def params(value, /, **given):", " return {", *lines, "  **given", " }"]
        return cast("RowWriter[T]", _compiled(text, space))  # as defined by the generated code

    def values(self, statement: Statement, *given: str) -> "Callable[..., Values]":
        """Return a function that converts a value, and further parameters, to the statement's parameters in order.

        It takes a third of the time of `params`, since no names are needed.
        """
        maker = self._makers.get((statement, given))
        if maker is None:
            maker = self._makers[statement, given] = self._maker(statement, given)
        return maker

    def encode(self, column: str, value: Any) -> Param:  # of the column's type
        """Return the value of a column as it is stored."""
        encoder = self._encoders.get(column)
        if encoder is None:
            encoder = self._encoders[column] = self._encoder(column)
        return encoder(value)

    def _encoder(self, column: str) -> Callable[[Any], Param]:  # as above
        kind = self.table.c[column].type
        match kind:
            case Instant():
                return micros_or_none
            case Json(absent=None) if is_nullable(self.table.c[column]):
                return lambda value: None if value is None else kind.write(value)
            case Json() if is_nullable(self.table.c[column]):
                return lambda value: kind.write(value) if value else None
            case Json():
                return kind.write
            case _:
                return lambda value: value

    def decoder(self, column: str) -> Callable[[Any], Any]:  # as above
        """Return a function that reads a stored value of the column."""
        kind = self.table.c[column].type
        match kind:
            case Instant():
                return instant_or_none
            case Json():
                return lambda stored: kind.absent if stored is None else kind.read(stored)
            case Boolean():
                return lambda stored: stored == 1
            case _:
                return lambda stored: stored

    def _maker(self, statement: Statement, given: Sequence[str]) -> "Callable[..., Values]":
        space: dict[str, object] = {
            "EPOCH": EPOCH,
            "MICROSECOND": MICROSECOND,
            "constants": statement.constants,
        }
        codes = {str(column.key): column for column in self._columns}
        parts = [
            name
            if name in given
            else self._written(codes[name], space)
            if name in codes
            else f"constants[{name!r}]"
            for name in statement.order
        ]
        text = [f"def values({', '.join(['value', *given])}):", f" return ({', '.join(parts)},)"]
        return cast("Callable[..., Values]", _compiled(text, space))  # as defined by the generated code

    def _read_first(self, row: Row) -> T:
        """Read the first row, and compile the code that reads it and all further rows."""
        self.read = self._reading()
        return self.read(row)

    def _reading(self) -> Callable[[Row], T]:
        validator = Columns(self._columns)
        space: dict[str, object] = {
            "EPOCH": EPOCH,
            "timedelta": timedelta,
            "UNREADABLE": UNREADABLE,
            "check": validator.check,
            "check_values": validator.check_values,
            "good": validator.good,
            "kind": self.kind,
        }
        doubts = ["tuple(map(type, row)) not in good"]
        for n, allowed in validator.words:
            space[f"words_{n}"] = allowed
            doubts.append(f"row[{n}] not in words_{n}")
        expressions = [self._read(n, column, space) for n, column in enumerate(self._columns)]
        text = [
            "def read(row):",
            f" if {' or '.join(doubts)}:",
            "  check(row)",
            " try:",
            f"  return kind({', '.join(field for field in expressions if field)})",
            " except UNREADABLE:",
            "  check_values(row)",
            "  raise",
        ]
        return cast("Callable[[Row], T]", _compiled(text, space))  # as defined by the generated code

    def _written(self, column: ColumnElement[Any], space: dict[str, object]) -> str:  # of any type
        """Return the code that computes a column's value, or an empty string if the object has no such field."""
        name, kind = str(column.key), column.type
        write, field = f"write_{name}", self._names.get(name, name)
        if name in self._derived or (name == self._rest and isinstance(kind, Json)):
            space[write] = self._derived.get(name) or cast("Json", kind).write
            return f"{write}(value)"
        if field not in self._fields:
            return ""
        if isinstance(kind, Instant):
            return f"None if value.{field} is None else (value.{field} - EPOCH) // MICROSECOND"
        if not isinstance(kind, Json):
            return f"value.{field}"
        space[write] = kind.write
        if not is_nullable(column):
            return f"{write}(value.{field})"
        absent = f"value.{field} is None" if kind.absent is None else f"not value.{field}"
        return f"None if {absent} else {write}(value.{field})"

    def _read(self, n: int, column: ColumnElement[Any], space: dict[str, object]) -> str:  # as above
        """Return the code that sets the field of a column, or an empty string if it has no field."""
        name, kind, lies = str(column.key), column.type, f"row[{n}]"
        field = self._names.get(name, name)
        if isinstance(kind, Json):
            space[f"read_{name}"] = kind.read
        if name == self._rest:
            return f"**read_{name}({lies})"
        if field not in self._fields:
            return ""
        match kind:
            case Instant():
                expression = f"EPOCH + timedelta(0, 0, {lies})"
            case Json():
                expression = f"read_{name}({lies})"
            case Boolean():
                return f"{field}={lies} == 1"
            case _:
                return f"{field}={lies}"
        if not is_nullable(column):
            return f"{field}={expression}"
        absent = kind.absent if isinstance(kind, Json) else None
        return f"{field}={absent!r} if {lies} is None else {expression}"


def plain(table: Table) -> RowReader[Row]:
    """Return the reader of a table whose rows are validated but not converted to values."""
    validator = Columns(tuple(table.columns))

    def read(row: Row) -> Row:
        validator.check(row)
        validator.check_values(row)
        return row

    return RowReader(table, read)


def _compiled(text: Sequence[str], space: dict[str, object]) -> object:
    """Compile the text of a function, which contains only names of columns and fields."""
    exec("\n".join(text), space)  # noqa: S102 - as said above
    return space[text[0].split("(")[0].removeprefix("def ")]
