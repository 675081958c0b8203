"""Driver of a store: runs programs on a database."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

from toolwright.adapters.store.engine.codecs import Params, Row, size_of
from toolwright.adapters.store.engine.program import Op, Reading
from toolwright.adapters.store.engine.statement import DialectName, Statement
from toolwright.core.broken_rows import Rows
from toolwright.core.journal.units import Committed, Conflict, Unit
from toolwright.core.limits import PAGE_BYTES, PageLimit

T = TypeVar("T")


class Driver(Protocol):
    """Runs programs on a database."""

    @property
    def dialect(self) -> DialectName: ...

    @property
    def connections(self) -> tuple[int, int] | None:
        """The connections in use and their limit, None if there is no limit."""
        ...

    def write(self, unit: Unit) -> "asyncio.Future[Committed | Conflict]":
        """Commit the unit; the future is done after COMMIT, and its events are on the bus by then."""
        ...

    async def read(self, reading: Callable[[], Reading[T]]) -> T:
        """Run a reading of one statement."""
        ...

    async def snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        """Run a reading of several statements on one consistent snapshot."""
        ...

    async def shrink(self) -> bool:
        """Give a piece of the free space back to the system; return whether there is more."""
        ...

    async def close(self) -> None: ...


async def read_rows(
    driver: Driver, convert: Callable[[Sequence[Row]], T], statement: Statement, params: Params
) -> T:
    """Run one query and convert its rows by `made`: a mapping's `each`, `all` or `first`, or another function.

    Where the `limit` is a `PageLimit`, drivers fetch no more rows than `PAGE_BYTES` have room for.
    """

    def reading() -> Reading[T]:
        rows = yield Op(statement, params)
        items = convert(rows)
        if isinstance(params.get("limit"), PageLimit):
            _note_end(items, rows)
        return items

    return await driver.read(reading)


def _note_end(page: object, rows: Sequence[Row]) -> None:
    """Note on a page of rows that it has ended early."""
    if isinstance(page, Rows):
        cast("Rows[object]", page).more = sum(map(size_of, rows)) >= PAGE_BYTES
