"""SQLite as the journal's driver: one writer thread that groups waiting units into one synced commit."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from toolwright.adapters.store.compiled import DialectName
from toolwright.adapters.store.programs import GuardFailed, Op, Written, program
from toolwright.adapters.store.reads import Reading
from toolwright.adapters.store.rows import Row
from toolwright.adapters.store.statements import Statements
from toolwright.core.errors import StoreError
from toolwright.core.event import Event
from toolwright.core.units import Committed, Conflict, Unit

T = TypeVar("T")
Publish = Callable[[Sequence[Event]], None]
Outcome = Written | Conflict | StoreError
Waiting = tuple[Unit, "asyncio.Future[Committed | Conflict]"]

GROUP = 256  # units in one commit at the most
READERS = 4
BUSY_SECONDS = 30.0


def connect(path: Path) -> sqlite3.Connection:
    """A connection as the journal wants it: WAL, every commit synced."""
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


class SqliteDriver:
    """Runs programs on one SQLite file. Made and used in one event loop."""

    dialect: DialectName = "sqlite"

    def __init__(self, path: Path, publish: Publish) -> None:
        self._path = path
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._sql = Statements("sqlite")
        self._units: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._failed: StoreError | None = None
        self._connection = connect(path)
        self._local = threading.local()
        self._reader_connections: list[sqlite3.Connection] = []
        self._readers = ThreadPoolExecutor(READERS, "toolwright-reader")
        self._writer = threading.Thread(target=self._write_all, name="toolwright-writer", daemon=True)
        self._writer.start()

    @property
    def healthy(self) -> bool:
        """Whether the writer lives."""
        return self._failed is None and self._writer.is_alive()

    @property
    def synchronous(self) -> int:
        """SQLite's own word for how commits are synced: 2 is FULL."""
        return int(self._connection.execute("PRAGMA synchronous").fetchone()[0])

    def write(self, unit: Unit) -> "asyncio.Future[Committed | Conflict]":
        future: asyncio.Future[Committed | Conflict] = self._loop.create_future()
        if not self.healthy:
            future.set_exception(self._failed or StoreError())
        else:
            self._units.put((unit, future))
        return future

    async def read(self, reading: Callable[[], Reading[T]]) -> T:
        try:
            return await self._loop.run_in_executor(self._readers, self._read, reading)
        except sqlite3.Error as error:
            raise StoreError(f"The journal cannot be read: {error}.") from error

    async def close(self) -> None:
        self._units.put(None)
        await asyncio.to_thread(self._writer.join)
        self._failed = self._failed or StoreError("The journal is closed.")
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._reader_connections:
            connection.close()

    def _read(self, reading: Callable[[], Reading[T]]) -> T:
        connection = self._reader()
        connection.execute("BEGIN")
        try:
            steps = reading()
            found: list[Row] | None = None
            while True:
                try:
                    op = next(steps) if found is None else steps.send(found)
                except StopIteration as stop:
                    return stop.value
                found = connection.execute(op.statement.sql, op.statement.bind(op.params)).fetchall()
        finally:
            connection.execute("ROLLBACK")

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path)
            connection.execute("PRAGMA query_only = ON")
            self._reader_connections.append(connection)
        return connection

    def _write_all(self) -> None:
        group: list[Waiting] = []
        try:
            while (first := self._units.get()) is not None:
                group = [first, *self._waiting()]
                self._settle(group, self._commit([unit for unit, _ in group]))
                group = []
        except BaseException as error:  # noqa: BLE001 - whatever ends the writer must reach those who wait
            self._fail(group, error)
        finally:
            self._connection.close()

    def _waiting(self) -> list[Waiting]:
        """The units that wait behind the first one."""
        group: list[Waiting] = []
        with suppress(queue.Empty):
            while len(group) < GROUP - 1:
                item = self._units.get_nowait()
                if item is None:
                    self._units.put(None)
                    break
                group.append(item)
        return group

    def _commit(self, units: list[Unit]) -> list[Outcome]:
        """One synced commit for all; when an error has ended the transaction, each unit on its own."""
        try:
            return self._commit_together(units)
        except sqlite3.Error as error:
            self._roll_back()
            if len(units) == 1:
                return [StoreError(f"The journal cannot be written: {error}.")]
        return [self._commit([unit])[0] for unit in units]

    def _commit_together(self, units: list[Unit]) -> list[Outcome]:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        outcomes: list[Outcome] = []
        for unit in units:
            execute("SAVEPOINT unit")
            try:
                outcomes.append(self._apply(unit))
            except Exception as error:  # noqa: BLE001 - one unit's fault must not take the others with it
                if not self._connection.in_transaction:
                    raise
                execute("ROLLBACK TO unit")
                outcomes.append(_refused(error))
            execute("RELEASE unit")
        execute("COMMIT")
        return outcomes

    def _apply(self, unit: Unit) -> Written:
        steps = program(unit, self._sql)
        found: list[Row] | None = None
        while True:
            try:
                op = next(steps) if found is None else steps.send(found)
            except StopIteration as stop:
                written: Written = stop.value
                return written
            found = self._run(op)

    def _run(self, op: Op) -> list[Row]:
        statement = op.statement
        found = self._connection.execute(statement.sql, statement.bind(op.params)).fetchall()
        if op.guard is not None and len(found) != 1:
            raise GuardFailed(op.guard)
        for params in op.more or ():
            self._connection.execute(statement.sql, statement.bind(params))
        return found

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _settle(self, group: list[Waiting], outcomes: list[Outcome]) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._deliver, group, outcomes)

    def _deliver(self, group: list[Waiting], outcomes: list[Outcome]) -> None:
        """In the event loop: events first, in commit order, then word to those who wait."""
        for outcome in outcomes:
            if isinstance(outcome, Written) and outcome.events:
                self._publish(outcome.events)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue
            match outcome:
                case Written():
                    future.set_result(outcome.answer)
                case Conflict():
                    future.set_result(outcome)
                case StoreError():
                    future.set_exception(outcome)

    def _fail(self, group: list[Waiting], error: BaseException) -> None:
        self._failed = StoreError(f"The journal's writer has stopped: {error}.")
        self._failed.__cause__ = error
        group = [*group, *self._waiting()]
        self._settle(group, [self._failed] * len(group))


def _refused(error: Exception) -> Conflict | StoreError:
    if isinstance(error, GuardFailed):
        return Conflict(guard=error.guard)
    refusal = StoreError(f"The journal cannot write this: {error}.")
    refusal.__cause__ = error
    return refusal
