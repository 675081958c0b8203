"""Broken rows of the journal, and lists that contain both broken and readable rows."""

from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from toolwright.core.errors import RowBroken
from toolwright.core.value import Value

T = TypeVar("T")
U = TypeVar("U")
OTHER_SHAPE = "is JSON of another shape"


class BrokenRow(Value):
    """A row that cannot be read, and the reason: a column holds invalid JSON, or JSON of another shape.

    `id` is the id of the object, `key` the key of the row in its table.
    """

    table: str
    id: str
    key: str
    column: str
    why: str

    @property
    def sentence(self) -> str:
        """The table, the row, the column and the error in one sentence."""
        return f"The row of {self.table} with {self.key} is broken: {self.column} {self.why}."


class Rows(list[T]):
    """The readable rows of a list. `broken` are the others.

    `more` is true for a page that ended early (see `PageLimit`): more rows can follow.
    """

    def __init__(
        self, rows: Iterable[T] = (), broken: Iterable[BrokenRow] = (), *, more: bool = False
    ) -> None:
        super().__init__(rows)
        self.broken = tuple(broken)
        self.more = more

    def with_rows(self, rows: Iterable[U]) -> "Rows[U]":
        """Return a list of `rows` with the same `broken` and `more`."""
        return Rows(rows, self.broken, more=self.more)


def broken_rows(rows: Sequence[object]) -> tuple[BrokenRow, ...]:
    """Return the broken rows."""
    return rows.broken if isinstance(rows, Rows) else ()


def ended_early(rows: Sequence[object]) -> bool:
    """Return whether the page ended early, so that more rows can follow."""
    return isinstance(rows, Rows) and rows.more


def sliced(rows: Sequence[T], limit: int, offset: int) -> Rows[T]:
    """Return a page of rows that are already loaded. Broken rows are on every page."""
    return Rows(rows[offset : offset + limit], broken_rows(rows))


async def exists(row: Awaitable[object | None]) -> bool:
    """Return whether the row exists, even if it is broken. For callers that do not need its contents."""
    try:
        return await row is not None
    except RowBroken:
        return True


def all_rows(rows: Sequence[T]) -> Sequence[T]:
    """Return all rows. Raises `RowBroken` if one could not be read."""
    for broken in broken_rows(rows):
        raise RowBroken(broken.sentence)
    return rows
