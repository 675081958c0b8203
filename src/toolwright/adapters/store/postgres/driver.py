"""Postgres as the journal's driver: two pools of connections, units committed in groups, numbers of space events.

All spaces share one counter, so that a stream of all spaces can be resumed at a number (see `follow`). Counting within
the unit would lock the counter's row until its commit is on disk and block every other writer of any space. So a unit
inserts its events into `unnumbered_events`. Right after its commit, one statement locks the counter, numbers all
events in that table in the order of creation, and moves them to `space_events`. A commit is answered after its events
are numbered. Events left by a dead process are numbered by the next pass of any other process.

Units of different threads that are one statement with the same text are committed together, in one transaction and one
round trip. All other units, and units whose precondition fails, are committed in a transaction of their own. Units of
one thread are serialized, so that they do not hold connections while waiting for each other's row locks, and so that
the events of a thread reach the bus of this process in order. The bus of another process does not receive them: a
subscriber there detects the gap and reads the rows from the table.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
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
from toolwright.adapters.store.postgres.unit import (
    NOT_TOGETHER,
    Transaction,
    UnitStatement,
    as_statement,
    commit_together,
    written_before,
)
from toolwright.adapters.store.sql.readers import each_event
from toolwright.adapters.store.sql.spaces import SPACE_EVENTS
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.concurrency import start_task
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError, ToolwrightError, Unwritable
from toolwright.core.journal.retention import Prune
from toolwright.core.journal.rows import GuardFailed
from toolwright.core.journal.units import Committed, Conflict, CreateThread, PostMessage, Probe, Unit
from toolwright.core.limits import PAGE_BYTES
from toolwright.core.threads.event import Event

log = logger("toolwright.store")
T = TypeVar("T")

POLL_INTERVAL = 5.0  # seconds between two checks for events left by other processes
EVENTS_PER_READ = 500  # events published to the bus together; subscribers read any others from the table

_COUNTED = "SELECT value FROM counters WHERE name = 'space_events'"
# One round trip, five statements: the fourth starts after the counter is locked and sees everything committed by then.
_NUMBER = """BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0;
SELECT value FROM counters WHERE name = 'space_events' FOR UPDATE;
WITH made AS (DELETE FROM unnumbered_events RETURNING *),
counted AS (
    UPDATE counters SET value = value + (SELECT count(*) FROM made) WHERE name = 'space_events'
    RETURNING value - (SELECT count(*) FROM made) AS before
),
placed AS (SELECT *, min(place) OVER (PARTITION BY unit) AS begun FROM made),
numbered AS (SELECT *, row_number() OVER (ORDER BY begun, i) AS more FROM placed)
INSERT INTO space_events (n, space_id, thread_id, run_id, agent, type, payload, at)
SELECT before + more, space_id, thread_id, run_id, agent, type, payload, at FROM numbered, counted;
COMMIT"""
# Includes the next event: if there is a gap after it, the bus detects that some events are left out.
_NEWER = """SELECT * FROM (SELECT * FROM space_events WHERE n > $1 ORDER BY n LIMIT 1) AS next
UNION SELECT * FROM (SELECT * FROM space_events WHERE n > $1 ORDER BY n DESC LIMIT $2) AS newest ORDER BY n"""
_LEFT = "SELECT EXISTS (SELECT 1 FROM unnumbered_events)"
PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)  # seconds before each try, after a lost connection
MOST_GROUPS = 2  # in progress at once: with more groups each is smaller, and a unit costs more
MOST_UNITS = 64  # per group


class SpaceNumbering:
    """Numbers the events of spaces and publishes them to the bus in order."""

    def __init__(self, pool: Pool, publish: Publish, limits: Limits) -> None:
        self._pool = pool
        self._publish = publish
        self._limits = limits
        self._last: int | None = None  # number of the last published event
        self._asked: asyncio.Future[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Number the events left by other processes, now and periodically."""
        await self._pass()
        self._watch = start_task(self._number_leftovers(), "postgres-numbers")

    async def settle(self) -> None:
        """Wait until all events committed before the call are numbered and published.

        If the database becomes unavailable in the meantime, the commits remain and their events are numbered later.
        """
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
        asked = self._asked
        if self._work is None or self._work.done():
            self._work = start_task(self._serve(), "postgres-writer")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.attempt):
                await asyncio.shield(asked)

    async def close(self) -> None:
        """Stop, after completing the pending passes."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        if self._work is not None:
            await self._work

    async def _serve(self) -> None:
        """Run passes while callers wait. A pass serves all callers that started waiting before it began."""
        while self._asked is not None:
            asked, self._asked = self._asked, None
            try:
                await self._pass()
            except (*FAULTS, TimeoutError) as error:
                log.warning("The events of spaces could not be numbered. This is retried: %s", error)
            finally:
                asked.set_result(None)

    async def _number_leftovers(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            with suppress(*FAULTS, TimeoutError):
                if await self._on_session(_something_left):
                    await self.settle()

    async def _pass(self) -> None:
        events = await self._on_session(self._number)
        if events:
            self._publish(events)

    async def _on_session(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with asyncio.timeout(self._limits.attempt), lent(self._pool) as connection:
            return await work(connection)

    async def _number(self, connection: Connection) -> Sequence[Event]:
        if self._last is None:
            self._last = int(await connection.fetchval(_COUNTED))
        try:
            await connection.execute(_NUMBER)
        except FAULTS:
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        return await self._newer(connection)

    async def _newer(self, connection: Connection) -> Sequence[Event]:
        rows = [tuple(row) for row in await connection.fetch(_NEWER, self._last, EVENTS_PER_READ)]
        events = each_event(SPACE_EVENTS, rows)
        if events:
            self._last = events[-1].n
        return events


async def _something_left(connection: Connection) -> bool:
    return bool(await connection.fetchval(_LEFT))


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
        while self._ready and self._groups < MOST_GROUPS:
            query = next(iter(self._ready))
            ready = self._ready.pop(query)
            group = [each for each in ready[:MOST_UNITS] if each[0].is_wanted]
            if len(ready) > MOST_UNITS:
                self._ready[query] = ready[MOST_UNITS:]
            for commit, _ in ready[:MOST_UNITS]:
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
