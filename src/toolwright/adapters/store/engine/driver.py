"""Driver of a store: runs programs on a database."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from toolwright.adapters.store.engine.codecs import Params, Row
from toolwright.adapters.store.engine.program import Op, Reading
from toolwright.adapters.store.engine.statement import DialectName, Statement
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


async def read_rows(
    driver: Driver, made: Callable[[Sequence[Row]], T], statement: Statement, params: Params
) -> T:
    """Runs one query and makes a value of its rows: by a mapping's `each`, `all` or `first`, or another."""

    def reading() -> Reading[T]:
        return made((yield Op(statement, params)))

    return await driver.read(reading)
