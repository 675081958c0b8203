"""SQLite as the journal's driver: reader threads, and one writer that groups waiting units into one synced commit."""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from sys import maxsize
from typing import TypeAlias, TypeVar

from toolwright.adapters.store.engine.codecs import Row, size_of
from toolwright.adapters.store.engine.outcome import Publish, UnitResult
from toolwright.adapters.store.engine.program import (
    Attempt,
    DialectName,
    Op,
    Ops,
    Reading,
    Statement,
    StatementBatch,
    drive,
    filled,
    is_page,
    statements,
)
from toolwright.adapters.store.sql.advance import is_plain, program, write_plain
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sqlite.file import (
    NOTICE_SECONDS,
    connect,
    execute_patiently,
    free_pages,
    is_illegible,
    legible,
    set_patience,
)
from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.journal.rows import GuardFailed
from toolwright.core.journal.units import Advance, Committed, Conflict, Unit
from toolwright.core.limits import PAGE_BYTES
from toolwright.core.text import sentence

T = TypeVar("T")
_Read: TypeAlias = Callable[[], Reading[T]]

READERS = 4
DAMAGED = (
    " The database file is damaged: stop the server and restore a backup with `toolwright restore FILE`."
)
SIZES = (64, 16, 8, 4, 3, 2, 1)
"""Numbers of rows for one INSERT. There are few sizes, so that the connection keeps each statement prepared."""
log = logging.getLogger("toolwright.journal")
GROUP = 256  # approximate maximum of units in one commit


class SqliteReaders:
    """Runs reads, each on one snapshot of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(READERS, "toolwright-reader")

    async def read(self, reading: _Read[T]) -> T:
        return await self._in_thread(self._read, reading)

    async def snapshot(self, reading: _Read[T]) -> T:
        return await self._in_thread(self._snapshot, reading)

    async def _in_thread(self, read: Callable[[_Read[T]], T], reading: _Read[T]) -> T:
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, read, reading)
        except RuntimeError as error:  # the threads are shut down
            raise StoreError("The journal is closed.") from error
        try:
            return await running
        except (sqlite3.Error, RuntimeError) as error:
            hint = DAMAGED if type(error) is sqlite3.DatabaseError else ""
            raise StoreError(sentence(f"The journal cannot be read: {error}") + hint) from error

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        for connection in self._connections:
            connection.close()

    def _read(self, reading: _Read[T]) -> T:
        """Run the read. If a text is not UTF-8, retry with bytes, so that its row is reported as broken."""
        connection = self._connection()
        try:
            return self._run(connection, reading())
        except sqlite3.OperationalError as error:
            if not is_illegible(error):
                raise
        connection.text_factory = legible
        try:
            return self._run(connection, reading())
        finally:
            connection.text_factory = str

    def _run(self, connection: sqlite3.Connection, steps: Reading[T]) -> T:
        def run(op: Op) -> list[Row]:
            cursor = connection.execute(op.statement.sql, op.statement.bind(op.params))
            return _page(cursor) if is_page(op) else cursor.fetchall()

        return drive(steps, run)

    def _snapshot(self, reading: _Read[T]) -> T:
        connection = self._connection()
        connection.execute("BEGIN")
        try:
            return self._read(reading)
        finally:
            connection.execute("ROLLBACK")

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path)
            connection.execute("PRAGMA query_only = ON")
            self._connections.append(connection)
        return connection


def _page(cursor: sqlite3.Cursor) -> list[Row]:
    """Return rows up to the size of a page. Later rows are not fetched."""
    rows, size = list[Row](), 0
    with closing(cursor):
        while size < PAGE_BYTES and (row := cursor.fetchone()) is not None:
            rows.append(row)
            size += size_of(row)
    return rows


class ProgramRunner:
    """Runs programs. Rows appended to logs are buffered until the flush, or until a statement uses those tables."""

    def __init__(self, connection: sqlite3.Connection, sql: Statements) -> None:
        self._connection = connection
        self._sql = sql
        self._appended: dict[Statement, list[Row]] = {}

    def apply(self, unit: Unit) -> UnitResult:
        """Write the unit. If it raises, `leaves_no_trace` tells whether any of it was written."""
        self._changes = self._connection.total_changes
        self._lengths = {statement: len(rows) for statement, rows in self._appended.items()}
        if isinstance(unit, Advance) and is_plain(unit):
            return write_plain(unit, self._sql, self._run, self._append)
        return drive(program(unit, self._sql), self._run_all)

    def leaves_no_trace(self) -> bool:
        """Return whether a unit that raised has written nothing. Discards its deferred rows."""
        for statement, rows in self._appended.items():
            del rows[self._lengths.get(statement, 0) :]
        return self._connection.in_transaction and self._connection.total_changes == self._changes

    def flush(self) -> None:
        """Write the deferred rows."""
        for statement, rows in self._appended.items():
            self._insert(statement, rows)
        self._appended.clear()

    def forget(self) -> None:
        """Drop the deferred rows of a transaction that was rolled back."""
        self._appended.clear()

    def _run_all(self, ops: Ops) -> list[Row]:
        if isinstance(ops, Op):
            return self._run(ops)
        rows: list[Row] = []
        if isinstance(ops, Attempt):
            return rows
        for op in ops.ops if isinstance(ops, StatementBatch) else ops:
            of_op = self._run(op if op.given is None else filled(op, rows))
            rows.append(of_op[0] if of_op else ())
        return rows

    def _run(self, op: Op) -> list[Row]:
        statement, params, guard, more, _, _ = op
        if statement.appends:
            self._append(statement, [statement.bind(params) for params in (params, *(more or ()))])
            return []
        if statement.logs and self._appended:
            self.flush()
        if more:
            self._insert(statement, [statement.bind(params) for params in (params, *more)])
            return []
        rows = self._connection.execute(statement.sql, statement.bind(params)).fetchall()
        if guard is not None and len(rows) != 1:
            raise GuardFailed(guard)
        return rows

    def _append(self, statement: Statement, rows: Sequence[Row]) -> None:
        """Defer the insertion of these rows into a log table."""
        self._appended.setdefault(statement, []).extend(rows)

    def _insert(self, statement: Statement, rows: Sequence[Row]) -> None:
        start = 0
        for size in SIZES:
            while len(rows) - start >= size:
                values = list(chain.from_iterable(rows[start : start + size]))
                self._connection.execute(statement.for_rows(size), values)
                start += size


Outcome: TypeAlias = UnitResult | Conflict | StoreError | Unwritable
Waiting: TypeAlias = tuple[Unit, "asyncio.Future[Committed | Conflict]"]
Shrinking: TypeAlias = "asyncio.Future[bool]"


class SqliteDriver:
    """Runs programs on one SQLite file. `opened` opens the writing connection. Used in a single event loop."""

    dialect: DialectName = "sqlite"
    connections = None

    def __init__(
        self, path: Path, publish: Publish, opened: Callable[[Path], sqlite3.Connection] = connect
    ) -> None:
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._units: queue.SimpleQueue[list[Waiting] | Shrinking | None] = queue.SimpleQueue()
        self._shrinking: list[Shrinking] = []
        self._turn: list[Waiting] = []  # units of the current event loop iteration
        self._failed: StoreError | None = None
        self._connection = opened(path)
        self._path, self._inode = path, path.stat().st_ino
        set_patience(self._connection, NOTICE_SECONDS)  # only its transactions wait longer
        self.synchronous = int(self._connection.execute("PRAGMA synchronous").fetchone()[0])
        self._readers = SqliteReaders(path)
        self._writing = ProgramRunner(self._connection, statements(Statements, "sqlite"))
        self._writer = threading.Thread(target=self._write_all, name="toolwright-writer", daemon=True)
        self._writer.start()

    def write(self, unit: Unit) -> "asyncio.Future[Committed | Conflict]":
        """Queue the unit for the writer. Units of one event loop iteration are committed together."""
        future: asyncio.Future[Committed | Conflict] = self._loop.create_future()
        if not self._turn:
            self._loop.call_soon(self._hand_over)
        self._turn.append((unit, future))
        return future

    async def read(self, reading: Callable[[], Reading[T]]) -> T:
        return await self._readers.read(reading)

    async def snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        return await self._readers.snapshot(reading)

    async def shrink(self) -> bool:
        """Return some free space to the system, between two commits of the writer. Returns whether there is more."""
        request: Shrinking = self._loop.create_future()
        if self._failed is None:
            self._units.put(request)
        if self._failed is not None:  # set before or during the put
            _end_shrinking(request, False)
        return await request

    async def close(self) -> None:
        self._hand_over()
        self._failed = self._failed or StoreError("The journal is closed.")
        self._units.put(None)
        await asyncio.to_thread(self._writer.join)
        await self._readers.close()

    def _hand_over(self) -> None:
        turn, self._turn = self._turn, []
        if self._failed is None:
            for start in range(0, len(turn), GROUP):
                self._units.put(turn[start : start + GROUP])
        if self._failed is not None:  # before or during the put: then no thread processes the units any more
            self._deliver(turn, [self._failed] * len(turn))

    def _write_all(self) -> None:
        group: list[Waiting] = []
        try:
            while (first := self._units.get()) is not None:
                if isinstance(first, list):
                    group = [*first, *self._waiting(GROUP - len(first))]
                    self._settle(group, self._commit([unit for unit, _ in group]))
                    group = []
                else:
                    self._shrinking.append(first)
                while self._shrinking:
                    self._shrink(self._shrinking.pop())
        except BaseException as error:  # noqa: BLE001 - whatever ends the writer must reach those who wait
            self._fail(group, error)
        finally:
            self._connection.close()
            self._end_shrinking()

    def _waiting(self, most: int) -> list[Waiting]:
        """Return up to `most` more queued units."""
        group: list[Waiting] = []
        with suppress(queue.Empty):
            while len(group) < most:
                turn = self._units.get_nowait()
                if turn is None:
                    self._units.put(None)  # requeued for `_write_all`, which ends after this group
                    break
                if isinstance(turn, list):
                    group += turn
                else:
                    self._shrinking.append(turn)  # handled after these units
        return group

    def _shrink(self, request: Shrinking) -> None:
        try:
            more = free_pages(self._connection)
        except sqlite3.Error as error:  # a lock of another program: retried in an hour
            log.debug("Free space could not be returned to the system: %s", error)
            more = False
        with suppress(RuntimeError):  # as below
            self._loop.call_soon_threadsafe(_end_shrinking, request, more)

    def _end_shrinking(self) -> None:
        """Answer pending `shrink` requests after the last unit."""
        self._waiting(maxsize)
        with suppress(RuntimeError):  # as above
            for request in self._shrinking:
                self._loop.call_soon_threadsafe(_end_shrinking, request, False)

    def _commit(self, units: list[Unit]) -> list[Outcome]:
        """Commit all units together and return their outcomes. If an error ended the transaction, retry each alone."""
        try:
            self._check_file()
            execute_patiently(self._connection, self._path, "BEGIN IMMEDIATE")
        except (sqlite3.Error, OSError) as error:
            return [_refused(error)] * len(units)
        try:
            return self._apply_all(units)
        except sqlite3.Error as error:
            self._writing.forget()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if len(units) == 1:
                return [_refused(error)]
        return [self._commit([unit])[0] for unit in units]

    def _check_file(self) -> None:
        """Raise an error if the file was deleted or replaced, because commits would be lost."""
        if self._path.stat().st_ino != self._inode:
            raise sqlite3.OperationalError("the database file was replaced while this process was using it")

    def _apply_all(self, units: list[Unit]) -> list[Outcome]:
        """Apply all units in one transaction. If one fails after a write, apply each within a savepoint."""
        try:
            outcomes = [self._apply_one(unit) for unit in units]
            self._writing.flush()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one unit must not take the others with it
            return self._apply_apart(units, error)
        self._connection.execute("COMMIT")
        return outcomes

    def _apply_one(self, unit: Unit) -> Outcome:
        try:
            return self._writing.apply(unit)
        except Exception as error:  # only this unit is rejected if it wrote nothing
            if not self._writing.leaves_no_trace():
                raise
            return _refused(error)

    def _apply_apart(self, units: list[Unit], error: Exception) -> list[Outcome]:
        """Retry with a savepoint per unit. Used only after a failure, because savepoints cost a third of a commit."""
        execute = self._connection.execute
        if not self._connection.in_transaction:
            raise error
        execute("ROLLBACK")
        self._writing.forget()
        if len(units) == 1:
            return [_refused(error)]
        execute_patiently(self._connection, self._path, "BEGIN IMMEDIATE")
        outcomes: list[Outcome] = []
        for unit in units:
            execute("SAVEPOINT unit")
            try:
                written = self._writing.apply(unit)
                self._writing.flush()
                outcomes.append(written)
            except Exception as failure:
                if not self._connection.in_transaction:
                    raise  # SQLite has rolled back everything, e.g. on a full disk: `_commit` retries each unit
                execute("ROLLBACK TO unit")
                self._writing.forget()
                outcomes.append(_refused(failure))
            execute("RELEASE unit")
        execute("COMMIT")
        return outcomes

    def _settle(self, group: list[Waiting], outcomes: list[Outcome]) -> None:
        with suppress(RuntimeError):  # the event loop is closed: there are no waiters
            self._loop.call_soon_threadsafe(self._deliver, group, outcomes)

    def _deliver(self, group: list[Waiting], outcomes: list[Outcome]) -> None:
        """Publish the events in commit order, then answer the callers. Runs in the event loop."""
        try:
            for outcome in outcomes:
                if isinstance(outcome, UnitResult) and outcome.events:
                    self._publish(outcome.events)
        finally:
            for (_, future), outcome in zip(group, outcomes, strict=True):
                _answer(future, outcome)

    def _fail(self, group: list[Waiting], error: BaseException) -> None:
        self._failed = StoreError(sentence(f"The journal's writer has stopped: {error}"))
        self._failed.__cause__ = error
        group = [*group, *self._waiting(maxsize)]
        self._settle(group, [self._failed] * len(group))


def _end_shrinking(asked: Shrinking, more: bool) -> None:
    if not asked.done():
        asked.set_result(more)


def _answer(future: "asyncio.Future[Committed | Conflict]", outcome: Outcome) -> None:
    if future.done():
        return  # the caller was cancelled; the unit is committed nevertheless
    match outcome:
        case UnitResult():
            future.set_result(outcome.answer)
        case Conflict():
            future.set_result(outcome)
        case StoreError() | Unwritable():
            future.set_exception(outcome)


def _refused(error: Exception) -> Conflict | StoreError | Unwritable:
    if isinstance(error, GuardFailed):
        return Conflict(guard=error.guard)
    # A damaged file raises `DatabaseError` itself; its subclasses for values that cannot be stored are the others.
    is_damaged = type(error) is sqlite3.DatabaseError
    if is_damaged or isinstance(error, sqlite3.OperationalError | sqlite3.InternalError | OSError):
        refusal = StoreError(
            sentence(f"The journal cannot be written: {error}") + (DAMAGED if is_damaged else "")
        )
    else:
        refusal = Unwritable(sentence(f"The journal cannot hold this: {error}"))
    refusal.__cause__ = error
    return refusal
