"""Broken rows of the journal: which row cannot be read, and why."""

from collections.abc import Awaitable

from toolwright.core.errors import RowBroken
from toolwright.core.value import Value

OTHER_SHAPE = "is JSON of another shape"


class BrokenRow(Value):
    """A row that cannot be read, and the reason: a column holds invalid JSON, or JSON of another shape.

    `key` is the key of the row in its table.
    """

    table: str
    key: str
    column: str
    why: str

    @property
    def sentence(self) -> str:
        """The table, the row, the column and the error in one sentence."""
        return f"The row of {self.table} with {self.key} is broken: {self.column} {self.why}."


async def exists(row: Awaitable[object | None]) -> bool:
    """Return whether the row exists, even if it is broken. For callers that do not need its contents."""
    try:
        return await row is not None
    except RowBroken:
        return True
