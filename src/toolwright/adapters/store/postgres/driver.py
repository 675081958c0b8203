"""Postgres as the journal's driver: two pools of connections, and units committed in groups.

Units of different threads that are one statement with the same text are committed together, in one transaction and one
round trip. All other units, and units whose precondition fails, are committed in a transaction of their own. Units of
one thread are serialized, so that they do not hold connections while waiting for each other's row locks, and so that
the events of a thread reach the bus of this process in order. The bus of another process does not receive them: a
subscriber there detects the gap and reads the rows from the table.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import asyncpg

from toolwright.adapters.store.engine.codecs import Row, size_of
from toolwright.adapters.store.engine.outcome import Publish, UnitResult
from toolwright.adapters.store.engine.program import (
    DialectName,
    Op,
    Reading,
    drive_async,
    is_page,
    statements,
)
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
from toolwright.adapters.store.postgres.unit import (
    NOT_TOGETHER,
    Transaction,
    UnitStatement,
    as_statement,
    commit_together,
    written_before,
)
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.concurrency import start_task
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError, ToolwrightError, Unwritable
from toolwright.core.journal.retention import Prune
from toolwright.core.journal.rows import GuardFailed
from toolwright.core.journal.units import Committed, Conflict, CreateThread, PostMessage, Probe, Unit
from toolwright.core.limits import PAGE_BYTES

log = logger("toolwright.store")
T = TypeVar("T")

PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)  # seconds before each try, after a lost connection
MAX_GROUPS = 2  # in progress at once: with more groups each is smaller, and a unit costs more
MAX_UNITS = 64  # per group


@dataclass(slots=True, eq=False)
class Commit:
    """A unit to be committed before its `deadline` (event loop time), and the future for its outcome."""

    unit: Unit
    outcome: "asyncio.Future[Committed | Conflict]"
    thread: str
    deadline: float
    timer: asyncio.TimerHandle | None = None

    @property
    def is_wanted(self) -> bool:
        """Return whether the unit must still be sent, that is, its caller has not received a timeout error."""
        return not self.outcome.done() or self.outcome.cancelled()


Group: TypeAlias = list[tuple[Commit, UnitStatement]]


class PostgresDriver:
    """Runs programs on a Postgres database, in one event loop."""

    dialect: DialectName = "postgresql"

    def __init__(self, pools: Pools, publish: Publish, limits: Limits) -> None:
        self._pools = pools
        self._publish = publish
        self._limits = limits
        self._sql = statements(Statements, "postgresql")
        self._numbering = SpaceNumbering(pools.commits, publish, limits)
        # The queued commits, in order, of each thread that has a commit in progress.
        self._threads: dict[str, deque[Commit]] = {}
        # By statement text; the group that has waited longest is first.
        self._ready: dict[str, Group] = {}
        self._groups = 0  # number of groups in progress
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def connections(self) -> tuple[int, int]:
        return self._pools.used

    def write(self, unit: Unit) -> "asyncio.Future[Committed | Conflict]":
        loop = asyncio.get_running_loop()
        commit = Commit(unit, loop.create_future(), _thread_of(unit), loop.time() + self._limits.patience)
        if self._closed:
            commit.outcome.set_exception(StoreError("The journal is closed."))
            return commit.outcome
        commit.timer = loop.call_at(commit.deadline, self._expire, commit)
        following = self._threads.get(commit.thread)
        if following is not None:
            following.append(commit)
            return commit.outcome
        self._threads[commit.thread] = deque()
        if not self._start(commit):
            self._start_next(commit.thread)
        return commit.outcome

    async def open(self) -> None:
        """Start numbering space events. Raises the errors of the database."""
        await self._numbering.open()

    async def read(self, reading: Callable[[], Reading[T]]) -> T:
        return await self._patiently(lambda: self._read(reading))

    async def snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        return await self._patiently(lambda: self._snapshot(reading))

    async def shrink(self) -> bool:
        """Do nothing: Postgres vacuums by itself."""
        return False

    async def close(self) -> None:
        self._closed = True
        while self._threads or self._tasks:
            if self._tasks:
                await asyncio.wait(self._tasks)
            else:
                await asyncio.sleep(0)  # a group is about to be sent
        await self._numbering.close()
        await self._pools.close(self._limits.attempt)

    def _start(self, commit: Commit) -> bool:
        """Start committing a unit, in a group or alone. Returns False if the unit is invalid."""
        try:
            statement = as_statement(commit.unit, self._sql)
        except Exception as error:  # noqa: BLE001 - it is the caller's; the thread must not stay taken
            _answer(commit, _unwritable(error) if isinstance(error, ToolwrightError) else error)
            return False
        if statement is None or not statement.is_small:
            self._spawn(self._commit_alone(commit, is_one_statement=statement is not None))
            return True
        if not self._ready:  # more units become ready in the same event loop iteration
            asyncio.get_running_loop().call_soon(self._send_groups)
        self._ready.setdefault(statement.query, []).append((commit, statement))
        return True

    def _send_groups(self) -> None:
        """Send the ready units. Units that arrive while all groups are in progress join the next group."""
        while self._ready and self._groups < MAX_GROUPS:
            query = next(iter(self._ready))
            ready = self._ready.pop(query)
            group = [each for each in ready[:MAX_UNITS] if each[0].is_wanted]
            if len(ready) > MAX_UNITS:
                self._ready[query] = ready[MAX_UNITS:]
            for commit, _ in ready[:MAX_UNITS]:
                if not commit.is_wanted:
                    self._start_next(commit.thread)
            if group:
                self._groups += 1
                self._spawn(self._commit_group(group))

    async def _commit_group(self, group: Group) -> None:
        failure: BaseException | None = None
        results: list[UnitResult] = []
        try:
            async with asyncio.timeout(self._limits.attempt), lent(self._pools.commits) as connection:
                results = await commit_together(connection, [statement for _, statement in group])
        except asyncio.CancelledError:
            for commit, _ in group:
                self._end(commit, _not_in_time())
            raise
        except Exception as error:  # noqa: BLE001 - each unit finds its own by itself
            failure = error
        self._groups -= 1
        for (commit, _), result in zip(group, results, strict=False):
            self._finish(commit, result)
        # nothing was committed, or the outcome is unknown: each unit looks up its token
        if failure is not None:
            is_doubtful = not isinstance(failure, NOT_TOGETHER)
            is_one_statement = is_doubtful or len(group) > 1
            for commit, _ in group:
                self._spawn(
                    self._commit_alone(commit, is_one_statement=is_one_statement, is_doubtful=is_doubtful)
                )
        self._send_groups()

    async def _commit_alone(
        self, commit: Commit, *, is_one_statement: bool, is_doubtful: bool = False
    ) -> None:
        attempts = Attempts(
            self._pools.commits,
            commit.unit,
            self._sql,
            is_one_statement=is_one_statement,
            is_doubtful=is_doubtful,
        )
        try:
            async with asyncio.timeout_at(commit.deadline):
                outcome = await self._persistently(attempts.settle)
        except asyncio.CancelledError:
            self._end(commit, _not_in_time())
            raise
        except TimeoutError:
            self._end(commit, self._no_answer())
        except Exception as error:  # noqa: BLE001 - it is the caller's
            self._end(commit, error)
        else:
            self._finish(commit, outcome, attempts.repeated)

    def _finish(self, commit: Commit, outcome: UnitResult | Conflict, repeated: bool = False) -> None:
        """Publish the events of a unit and complete it, after its space events have been numbered."""
        if isinstance(outcome, Conflict):
            self._end(commit, outcome)
            return
        numbered = [event for event in outcome.events if event.n is not None]
        if numbered:
            try:
                self._publish(numbered)
            except Exception as error:  # noqa: BLE001 - the other units of the group, and the thread, must go on
                self._end(commit, error)
                return
        if repeated or len(numbered) < len(outcome.events):
            self._start_next(commit.thread)
            self._spawn(self._answer_numbered(commit, outcome.answer))
        else:
            self._end(commit, outcome.answer)

    async def _answer_numbered(self, commit: Commit, answer: Committed) -> None:
        await self._numbering.settle()
        _answer(commit, answer)

    def _end(self, commit: Commit, outcome: Committed | Conflict | BaseException) -> None:
        _answer(commit, outcome)
        self._start_next(commit.thread)

    def _start_next(self, thread: str) -> None:
        """Start the next unit of a thread, skipping units whose caller has received a timeout error."""
        following = self._threads[thread]
        while following:
            commit = following.popleft()
            if commit.is_wanted and self._start(commit):
                return
        del self._threads[thread]

    def _expire(self, commit: Commit) -> None:
        _answer(commit, self._no_answer())

    def _no_answer(self) -> StoreError:
        return StoreError(f"The journal did not answer for {self._limits.patience:g} s.")

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = start_task(work, "postgres-commit")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work` with retries for at most `patience` seconds. Raises `StoreError` then; the caller can retry."""
        if self._closed:
            raise StoreError("The journal is closed.")
        try:
            async with asyncio.timeout(self._limits.patience):
                return await self._persistently(work)
        except TimeoutError as error:
            raise self._no_answer() from error

    async def _persistently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work`. Retries after a lost connection and after a deadlock."""
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
            return found  # after an error the pool closes the connection, because its transaction is open


class Attempts:
    """Attempts to commit a unit. The token shows whether any earlier attempt was committed.

    If an earlier attempt was committed, this one fails at a precondition or at the token. So the token is looked up
    only after a failure. The unit then gets its original answer, and its events are published to the bus, possibly a
    second time: subscribers drop duplicates.
    """

    def __init__(
        self, pool: Pool, unit: Unit, sql: Statements, *, is_one_statement: bool, is_doubtful: bool
    ) -> None:
        self._pool = pool
        self._unit = unit
        self._sql = sql
        self.repeated = False  # whether an earlier attempt was committed
        self._is_one_statement = is_one_statement  # False also if that has failed
        self._is_doubtful = is_doubtful  # whether an attempt can have been committed without an answer

    async def settle(self) -> UnitResult | Conflict:
        """Return the outcome of one attempt."""
        async with lent(self._pool) as connection:
            if self._is_doubtful and (known := await self._earlier_result(connection)):
                return known
            self._is_doubtful = True  # for the following attempts
            try:
                return await self._attempt(connection)
            except GuardFailed as failed:
                return await self._earlier_result(connection) or Conflict(guard=failed.guard)
            except asyncpg.UniqueViolationError:
                if known := await self._earlier_result(connection):
                    return known
                raise
            except ToolwrightError as error:
                raise _unwritable(error) from error

    async def _attempt(self, connection: Connection) -> UnitResult:
        if self._is_one_statement and (statement := as_statement(self._unit, self._sql)):
            try:
                [result] = await commit_together(connection, [statement])
            except NOT_TOGETHER:
                pass
            else:
                return result
        return await Transaction(connection, self._unit, self._sql).run()

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
    """Return rows up to the size of a page.

    Little more is fetched: the number of rows is estimated from the sizes of earlier rows.
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


def _answer(commit: Commit, outcome: Committed | Conflict | BaseException) -> None:
    """Set the outcome, unless the caller has received a timeout error or no longer waits."""
    if commit.timer is not None:
        commit.timer.cancel()
    if commit.outcome.done():
        return
    if isinstance(outcome, BaseException):
        commit.outcome.set_exception(outcome)
    else:
        commit.outcome.set_result(outcome)


def _not_in_time() -> StoreError:
    """Return the error of a unit that might or might not have been committed."""
    return StoreError("The journal has not answered in time.")


def _unwritable(error: ToolwrightError) -> Unwritable:
    refusal = Unwritable(f"The journal cannot hold this: {error}")
    refusal.__cause__ = error
    return refusal


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
