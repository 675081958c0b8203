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
        """Number of connections in use and their limit, or None if there is no limit."""
        ...

    def write(self, unit: Unit) -> "asyncio.Future[Committed | Conflict]":
        """Commit the unit. The future completes after COMMIT, when the unit's events have been published to the bus."""
        ...

    async def read(self, reading: Callable[[], Reading[T]]) -> T:
        """Run a read of one statement."""
        ...

    async def snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        """Run a read of several statements on one consistent snapshot."""
        ...

    async def shrink(self) -> bool:
        """Return part of the free space to the operating system. Returns whether there is more."""
        ...

    async def close(self) -> None: ...


async def read_rows(
    driver: Driver, convert: Callable[[Sequence[Row]], T], statement: Statement, params: Params
) -> T:
    """Run one query and convert its rows with `made`: a mapping's `each`, `all` or `first`, or another function.

    If the `limit` is a `PageLimit`, drivers fetch only as many rows as fit into `PAGE_BYTES`.
    """

    def reading() -> Reading[T]:
        rows = yield Op(statement, params)
        items = convert(rows)
        if isinstance(params.get("limit"), PageLimit):
            _note_end(items, rows)
        return items

    return await driver.read(reading)


def _note_end(page: object, rows: Sequence[Row]) -> None:
    """Mark a page of rows as truncated."""
    if isinstance(page, Rows):
        cast("Rows[object]", page).more = sum(map(size_of, rows)) >= PAGE_BYTES
