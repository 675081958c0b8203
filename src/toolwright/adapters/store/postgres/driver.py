"""Postgres as the journal's driver: two pools of connections, one transaction per unit of work.

Units of one thread are serialized, so that they do not hold connections while waiting for one another's row locks, and
so that the events of a thread reach the bus of this process in order. The bus of another process does not receive them:
a subscriber there finds the gap, or the rows, in the table.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import asyncpg

from toolwright.adapters.store.engine.codecs import Row, size_of
from toolwright.adapters.store.engine.outcome import GuardFailed, Publish, UnitResult
from toolwright.adapters.store.engine.program import Op, Reading, drive_async, is_page
from toolwright.adapters.store.engine.statement import DialectName, statements
from toolwright.adapters.store.postgres.connection import (
    FAULTS,
    RETRIED,
    Connection,
    Limits,
    Pool,
    Pools,
    is_lost,
    lent,
    store_error,
)
from toolwright.adapters.store.postgres.numbering import SpaceNumbering
from toolwright.adapters.store.postgres.unit import Transaction, in_one_statement, written_before
from toolwright.adapters.store.statements.threads import Statements
from toolwright.core.errors import StoreError, ToolwrightError, Unwritable
from toolwright.core.journal.retention import Prune
from toolwright.core.journal.units import Committed, Conflict, CreateThread, PostMessage, Probe, Unit
from toolwright.core.limits import PAGE_BYTES

T = TypeVar("T")

PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)  # seconds before each try, after a lost connection


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    takers: int = 0


class Turns:
    """Turns of each key: one at a time, in the order of their coming."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    @asynccontextmanager
    async def take(self, key: str) -> AsyncGenerator[None]:
        turn = self._turns.setdefault(key, _Turn())
        turn.takers += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.takers -= 1
            if not turn.takers:
                del self._turns[key]


class PostgresDriver:
    """Runs programs on a Postgres database, in one event loop."""

    dialect: DialectName = "postgresql"

    def __init__(self, pools: Pools, publish: Publish, limits: Limits) -> None:
        self._pools = pools
        self._publish = publish
        self._limits = limits
        self._sql = statements(Statements, "postgresql")
        self._turns = Turns()
        self._numbering = SpaceNumbering(pools.commits, publish, limits)
        self._commits: set[asyncio.Task[Committed | Conflict]] = set()
        self._closed = False

    @property
    def connections(self) -> tuple[int, int]:
        return self._pools.used

    def write(self, unit: Unit) -> "asyncio.Future[Committed | Conflict]":
        outcome: asyncio.Future[Committed | Conflict] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._in_turn(unit))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        task.add_done_callback(lambda done: _tell(outcome, done))
        return outcome

    async def open(self) -> None:
        """Begin; raises what the database's faults are."""
        await self._numbering.open()

    async def read(self, reading: Callable[[], Reading[T]]) -> T:
        async with self._patiently():
            return await self._persistently(lambda: self._read(reading))

    async def snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        async with self._patiently():
            return await self._persistently(lambda: self._snapshot(reading))

    async def shrink(self) -> bool:
        """Postgres' own vacuum does that."""
        return False

    async def close(self) -> None:
        self._closed = True
        if self._commits:
            await asyncio.wait(self._commits)
        await self._numbering.close()
        await self._pools.close(self._limits.attempt)

    async def _in_turn(self, unit: Unit) -> Committed | Conflict:
        async with self._patiently(), self._turns.take(_thread_of(unit)):
            attempts = Attempts(self._pools.commits, unit, self._sql)
            outcome = await self._persistently(attempts.settle)
            if isinstance(outcome, Conflict):
                return outcome
            numbered = [event for event in outcome.events if event.n is not None]
            if numbered:
                self._publish(numbered)
        if attempts.repeated or len(numbered) < len(outcome.events):
            await self._numbering.settle()
        return outcome.answer

    @asynccontextmanager
    async def _patiently(self) -> AsyncGenerator[None]:
        """Give up after a while, whatever is waited for: callers must hear, and drains try again."""
        try:
            async with asyncio.timeout(self._limits.patience):
                yield
        except TimeoutError as error:
            raise StoreError(f"The journal has not answered for {self._limits.patience:g} s.") from error

    async def _persistently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work, again while the connection to the database is lost, and again after a deadlock."""
        if self._closed:
            raise StoreError("The journal is closed.")
        fault: BaseException | None = None
        for pause in PAUSES:
            if pause:
                await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(self._limits.attempt):
                    return await work()
            except FAULTS as error:
                if not isinstance(error, RETRIED) and not is_lost(error):
                    raise store_error(error) from error
                if isinstance(error, asyncpg.ReadOnlySQLTransactionError):  # a failover
                    self._pools.end_idle()
                fault = error
        assert fault is not None
        raise store_error(fault) from fault

    async def _read(self, reading: Callable[[], Reading[T]]) -> T:
        async with lent(self._pools.reads) as connection:
            return await _drive(connection, reading())

    async def _snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        async with lent(self._pools.reads) as connection:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            found = await _drive(connection, reading())
            await connection.execute("COMMIT")
            return found  # after a fault the pool closes the connection, since its transaction is open


class Attempts:
    """A unit's attempts to be committed. The token tells whether one of them was, even one of long ago.

    What an earlier attempt committed makes this one fail: at a guard, or else at the token. So only a failure
    costs a look at the token. It is then answered as it was, and its events go to the bus, perhaps again:
    followers drop doubles.
    """

    def __init__(self, pool: Pool, unit: Unit, sql: Statements) -> None:
        self._pool = pool
        self._unit = unit
        self._sql = sql
        self.repeated = False  # whether an earlier attempt was the one that was committed
        self._doubtful = False  # whether an attempt may have been committed though we did not hear of it

    async def settle(self) -> UnitResult | Conflict:
        """Return one attempt."""
        async with lent(self._pool) as connection:
            if self._doubtful and (known := await self._earlier_result(connection)):
                return known
            self._doubtful = True  # from now on
            try:
                if written := await in_one_statement(connection, self._unit, self._sql):
                    return written
                return await Transaction(connection, self._unit, self._sql).run()
            except GuardFailed as failed:
                return await self._earlier_result(connection) or Conflict(guard=failed.guard)
            except asyncpg.UniqueViolationError:
                if known := await self._earlier_result(connection):
                    return known
                raise
            except ToolwrightError as error:
                raise Unwritable(f"The journal cannot hold this: {error}") from error

    async def _earlier_result(self, connection: Connection) -> UnitResult | None:
        known = await written_before(connection, self._unit, self._sql)
        self.repeated = known is not None
        return known


async def _drive(connection: Connection, steps: Reading[T]) -> T:
    async def run(op: Op) -> list[Row]:
        if is_page(op):
            return await _page(connection, op)
        records = await connection.fetch(op.statement.sql, *op.statement.bind(op.params))
        return [tuple(record) for record in records]

    return await drive_async(steps, run)


async def _page(connection: Connection, op: Op) -> list[Row]:
    """Return the rows until they have the bytes of a page.

    Little more is fetched: the number of rows is estimated from the sizes of earlier ones.
    """
    rows, size, count = list[Row](), 0, 1
    async with connection.transaction():
        cursor = await connection.cursor(op.statement.sql, *op.statement.bind(op.params))
        while records := await cursor.fetch(count):
            for row in map(tuple, records):
                rows.append(row)
                size += size_of(row)
                if size >= PAGE_BYTES:
                    return rows
            count = max(1, min(2 * len(rows), (PAGE_BYTES - size) * len(rows) // max(1, size)))
    return rows


def _tell(outcome: "asyncio.Future[T]", done: "asyncio.Task[T]") -> None:
    """Passes on the result of a commit. One that a deadline cancelled as it ended may be in the journal or not."""
    if outcome.done():
        return
    if done.cancelled():
        outcome.set_exception(StoreError("The journal has not answered in time."))
    elif (error := done.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(done.result())


def _thread_of(unit: Unit) -> str:
    match unit:
        case PostMessage():
            return unit.event.thread_id
        case CreateThread():
            return unit.thread.id
        case Prune() | Probe():
            return type(unit).__name__
        case _:
            return getattr(unit, "thread_id", "")
