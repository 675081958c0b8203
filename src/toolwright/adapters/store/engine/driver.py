"""What a store needs of a database: something that runs programs on it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from toolwright.adapters.store.engine.codecs import Params, Row
from toolwright.adapters.store.engine.mapping import Reader
from toolwright.adapters.store.engine.program import Op, Reading
from toolwright.adapters.store.engine.statement import DialectName, Statement
from toolwright.core.broken_rows import Rows
from toolwright.core.journal.units import Committed, Conflict, Unit

T = TypeVar("T")


class Driver(Protocol):
    """Runs programs on a database."""

    @property
    def dialect(self) -> DialectName: ...

    def write(self, unit: Unit) -> "asyncio.Future[Committed | Conflict]":
        """Commit the unit; the future is done after COMMIT, and its events are on the bus by then."""
        ...

    async def read(self, reading: Callable[[], Reading[T]]) -> T:
        """Run a reading of one statement."""
        ...

    async def snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        """Run a reading of several statements on one consistent snapshot."""
        ...

    async def close(self) -> None: ...


def rows_read(made: Callable[[Row], T], statement: Statement, params: Params) -> Reading[list[T]]:
    """The reading of one query whose rows become values."""
    return [made(row) for row in (yield Op(statement, params))]


def each_read(reader: Reader[T], statement: Statement, params: Params) -> Reading[Rows[T]]:
    """The reading of one query for a list: with the rows that are broken beside the others."""
    return reader.each((yield Op(statement, params)))


def all_read(reader: Reader[T], statement: Statement, params: Params) -> Reading[list[T]]:
    """The reading of one query for those who need all of it; raises `RowBroken`."""
    return reader.all((yield Op(statement, params)))


def first_read(reader: Reader[T], statement: Statement, params: Params) -> Reading[T | None]:
    """The reading of one row, None if there is none; raises `RowBroken`."""
    return reader.first((yield Op(statement, params)))


def first(found: Sequence[T]) -> T | None:
    """The first one, None if there is none."""
    return found[0] if found else None
