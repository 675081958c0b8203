"""Postgres as the journal's driver: a pool of connections, one transaction a unit.

Units of one thread take turns, so that they do not wait for one another's row locks with connections in hand,
and so that the events of a thread reach the bus of this process in order. The bus of another process does not
hear of them: a follower there finds the gap, or the rows, in the table.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from toolwright.adapters.store.compiled import DialectName
from toolwright.adapters.store.postgres_connection import Connection, Pool
from toolwright.adapters.store.postgres_faults import FAULTS, RETRIED, is_lost, store_error
from toolwright.adapters.store.postgres_unit import Transaction, written_before
from toolwright.adapters.store.reads import Reading
from toolwright.adapters.store.rows import Row
from toolwright.adapters.store.statements import Statements
from toolwright.adapters.store.turns import Turns
from toolwright.adapters.store.written import GuardFailed, Publish, Written
from toolwright.core.errors import StoreError, ToolwrightError, Unwritable
from toolwright.core.units import Committed, Conflict, CreateThread, PostMessage, Probe, Prune, Unit

T = TypeVar("T")

PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)  # seconds before each try, after a lost connection


class PostgresDriver:
    """Runs programs on a Postgres database, in one event loop."""

    dialect: DialectName = "postgresql"

    def __init__(self, pool: Pool, publish: Publish) -> None:
        self._pool = pool
        self._publish = publish
        self._sql = Statements("postgresql")
        self._turns = Turns()
        self._commits: set[asyncio.Task[Committed | Conflict]] = set()
        self._closed = False

    def write(self, unit: Unit) -> "asyncio.Future[Committed | Conflict]":
        task = asyncio.create_task(self._in_turn(unit))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        return task

    async def read(self, reading: Callable[[], Reading[T]]) -> T:
        return await self._persistently(lambda: self._read(reading))

    async def snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        return await self._persistently(lambda: self._snapshot(reading))

    async def close(self) -> None:
        self._closed = True
        if self._commits:
            await asyncio.wait(self._commits)
        await self._pool.close()

    async def _in_turn(self, unit: Unit) -> Committed | Conflict:
        async with self._turns.take(_thread_of(unit)):
            attempts = Attempts(self._pool, unit, self._sql)
            outcome = await self._persistently(attempts.settle)
            if isinstance(outcome, Conflict):
                return outcome
            if outcome.events:
                self._publish(outcome.events)
            return outcome.answer

    async def _persistently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work, again while the connection to the database is lost, and again after a deadlock."""
        if self._closed:
            raise StoreError("The journal is closed.")
        fault: BaseException | None = None
        for pause in PAUSES:
            await asyncio.sleep(pause)
            try:
                return await work()
            except FAULTS as error:
                if not isinstance(error, RETRIED) and not is_lost(error):
                    raise store_error(error) from error
                fault = error
        assert fault is not None
        raise store_error(fault) from fault

    async def _read(self, reading: Callable[[], Reading[T]]) -> T:
        async with self._pool.acquire() as connection:
            return await _drive(connection, reading())

    async def _snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        async with self._pool.acquire() as connection:
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
        self._doubtful = False  # whether the outcome of the last attempt is not known

    async def settle(self) -> Written | Conflict:
        """One attempt. What failed before COMMIT was sent has left no trace, and may be tried again."""
        async with self._pool.acquire() as connection:
            if self._doubtful and (known := await self._known(connection)):
                return known
            transaction = Transaction(connection, self._unit, self._sql)
            try:
                return await transaction.run()
            except GuardFailed as failed:
                return await self._known(connection) or Conflict(guard=failed.guard)
            except asyncpg.UniqueViolationError:
                if known := await self._known(connection):
                    return known
                raise
            except ToolwrightError as error:
                raise Unwritable(f"The journal cannot hold this: {error}") from error
            finally:
                self._doubtful = self._doubtful or transaction.sent

    async def _known(self, connection: Connection) -> Written | None:
        return await written_before(connection, self._unit.token, self._sql)


async def _drive(connection: Connection, steps: Reading[T]) -> T:
    found: list[Row] | None = None
    while True:
        try:
            op = next(steps) if found is None else steps.send(found)
        except StopIteration as stop:
            return stop.value
        records = await connection.fetch(op.statement.sql, *op.statement.bind(op.params))
        found = [tuple(record) for record in records]


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
