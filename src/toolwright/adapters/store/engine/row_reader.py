"""A reader of rows: how they become values, and what becomes of one that is broken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sqlalchemy import Table

from toolwright.adapters.store.engine.codecs import Row, UnreadableColumn
from toolwright.adapters.store.engine.columns import Columns
from toolwright.adapters.store.engine.statement import Rows as Query
from toolwright.core.broken_rows import BrokenRow, Rows
from toolwright.core.errors import RowBroken

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """Makes values of rows that have the columns of `query`; a row's noun is called by its column `id`."""

    table: Table
    query: Query
    made: Callable[[Row], T]
    id: str
    columns: Columns = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", Columns(self.query.selected_columns.values()))  # as it is frozen

    def each(self, rows: Sequence[Row]) -> Rows[T]:
        """The values of the rows, and beside them those that are broken."""
        values: list[T] = []
        broken: list[BrokenRow] = []
        for row in rows:
            try:
                values.append(self.read(row))
            except UnreadableColumn as fault:
                broken.append(self._broken(row, fault))
        return Rows(values, broken)

    def all(self, rows: Sequence[Row]) -> list[T]:
        """The values of the rows; raises `RowBroken` if one is broken."""
        return [self._one(row) for row in rows]

    def first(self, rows: Sequence[Row]) -> T | None:
        """The value of the first row, None if there is none; raises `RowBroken`."""
        return self._one(rows[0]) if rows else None

    def read(self, row: Row) -> T:
        """The value of a row; raises `UnreadableColumn`."""
        return self.made(self.columns.check(row))

    def _one(self, row: Row) -> T:
        try:
            return self.read(row)
        except UnreadableColumn as fault:
            raise RowBroken(self._broken(row, fault).sentence) from None

    def _broken(self, row: Row, fault: UnreadableColumn) -> BrokenRow:
        names = self.query.selected_columns.keys()
        columns = dict(zip(names, row, strict=False))
        key = " and ".join(f"{one.name} {columns[one.name]!r}" for one in self.table.primary_key.columns)
        return BrokenRow(
            table=self.table.name,
            id=str(columns[self.id]),
            key=key,
            column=names[fault.column],
            why=fault.why,
        )
