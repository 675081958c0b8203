"""Units on one Postgres connection: merged into one statement per unit, or several statements in one transaction."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields

import asyncpg

from toolwright.adapters.store.engine.codecs import Params, Row, micros
from toolwright.adapters.store.engine.outcome import UnitResult
from toolwright.adapters.store.engine.program import (
    Attempt,
    Op,
    Ops,
    Program,
    Statement,
    StatementBatch,
    drive_async,
    filled,
)
from toolwright.adapters.store.postgres.connection import Connection
from toolwright.adapters.store.postgres.merging import (
    REFUSED,
    apart,
    at_once,
    followed_by,
    guarded,
    is_about,
    rows_of,
    rows_recorded,
)
from toolwright.adapters.store.sql.advance import program
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sql.threads import EVENTS
from toolwright.core.journal.rows import GuardFailed
from toolwright.core.journal.units import Committed, Unit
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.threads.event import Event

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
MERGED = 24  # maximum number of statements merged into one
MAX_LATER = 200  # maximum number of rows that wait for the end of their unit
MAX_CHARACTERS = 65_536  # limit for each value of a unit that is committed together with others
MAX_VALUES = 32_767  # maximum number of parameters of one Postgres statement
_ANSWER = tuple([field.name for field in fields(Committed)])
NOT_TOGETHER = (REFUSED, asyncpg.LockNotAvailableError)


@dataclass(slots=True)
class UnitStatement:
    """A unit as one statement. Units with the same `query` can be committed together."""

    query: str
    values: Sequence[object]
    _ops: Sequence[Op]
    _steps: Program

    @property
    def is_small(self) -> bool:
        """Return whether the unit's values are small enough to be committed together with other units."""
        texts = [value for value in self.values if isinstance(value, str)]  # never empty: contains the token
        return len(max(texts, key=len)) <= MAX_CHARACTERS

    def result(self, recorded: str) -> UnitResult:
        """Return the unit's result, given the record stored with its token. Can be called only once."""
        return _finished(self._steps, rows_recorded(self._ops, recorded))


def as_statement(unit: Unit, sql: Statements) -> UnitStatement | None:
    """Return the unit as one statement, or None if it needs several."""
    steps = program(unit, sql)
    batch = next(steps)
    if not isinstance(batch, StatementBatch) or len(batch.ops) > MERGED or any(op.again for op in batch.ops):
        return None
    query, values = at_once(batch.ops, unit.token, micros(unit.at))
    return UnitStatement(query, values, batch.ops, steps) if len(values) <= MAX_VALUES else None


async def commit_together(connection: Connection, statements: Sequence[UnitStatement]) -> list[UnitResult]:
    """Commit units of one query in one round trip: all of them, or none if it raises.

    Raises `NOT_TOGETHER` if a precondition failed or a lock was not free. A precondition can fail only because the
    statement's snapshot was older than its locks, so the caller must retry with `Transaction`.
    """
    if len(statements) == 1:
        recorded = [await connection.fetchval(statements[0].query, *statements[0].values)]
    else:
        rows = await connection.fetchmany(statements[0].query, [each.values for each in statements])
        recorded = [row[0] for row in rows]
    return [statement.result(record) for statement, record in zip(statements, recorded, strict=True)]


class Transaction:
    """Runs one unit step by step."""

    def __init__(self, connection: Connection, unit: Unit, sql: Statements) -> None:
        self._connection = connection
        self._unit = unit
        self._sql = sql
        self._later: list[tuple[Statement, Row]] = []

    async def run(self) -> UnitResult:
        """Commit the unit. If this raises, nothing was written, except that a lost connection leaves it unknown."""
        # Only here locks are awaited without a limit, because no other unit waits with this one.
        await self._connection.execute(f"{BEGIN}; SET LOCAL lock_timeout = 0")
        try:
            written = await self._apply()
        except asyncio.CancelledError:
            raise  # the session might not respond: its pool closes it
        except BaseException:
            if not self._connection.is_closed():
                await self._connection.execute("ROLLBACK")
            raise
        try:
            await self._connection.execute("COMMIT")
        except BaseException:
            self._connection.terminate()
            raise
        return written

    async def _apply(self) -> UnitResult:
        written = await drive_async(program(self._unit, self._sql), self._run)
        await self._write_later(written)
        return written

    async def _run(self, op: Ops) -> list[Row]:
        if not isinstance(op, Op):
            if isinstance(op, Attempt):
                return []
            return await self._run_all(op.ops if isinstance(op, StatementBatch) else op)
        if not op.statement.returns:
            self._put_off(op)
            return []
        await self._write_before([op])
        found = await self._connection.fetch(op.statement.sql, *op.statement.bind(op.params))
        if op.guard is not None and len(found) != 1:
            raise GuardFailed(op.guard)
        return [tuple(row) for row in found]

    async def _run_all(self, ops: Sequence[Op]) -> list[Row]:
        """Run the ops with few statements. An op that uses an earlier result, or rewrites a row, starts a new one."""
        found: list[Row] = []
        together: list[Op] = []
        for op in ops:
            if together and (op.given or op.again or not op.statement.returns or len(together) == MERGED):
                found += await self._run_together(together)
                together = []
            if op.statement.returns:
                together.append(filled(op, found))
            else:
                self._put_off(filled(op, found))
                found.append(())
                if len(self._later) > MAX_LATER:
                    await self._write_now()
        return found + (await self._run_together(together) if together else [])

    def _put_off(self, op: Op) -> None:
        """Defer a statement that returns nothing to the end, or to the next statement that uses its table."""
        every = (op.params, *(op.more or ()))
        self._later += [(op.statement, op.statement.bind(params)) for params in every]

    async def _run_together(self, ops: Sequence[Op]) -> list[Row]:
        await self._write_before(ops)
        sql, values = guarded(ops)
        return rows_of(ops, [(row[0], row[1]) for row in await self._connection.fetch(sql, *values)])

    async def _write_before(self, ops: Sequence[Op]) -> None:
        """Execute the deferred statements if one of these ops can read or write the same rows."""
        if any(is_about(op.statement, self._later) for op in ops):
            await self._write_now()

    async def _write_now(self) -> None:
        """Execute the deferred statements."""
        for *chunk, last in apart(self._later, MERGED):
            sql, values = followed_by(chunk, last)
            await self._connection.execute(sql, *values)
        self._later = []

    async def _write_later(self, written: UnitResult) -> None:
        """Execute the deferred statements, and finally insert the token with the answer."""
        unit = self._unit
        params: Params = {"token": unit.token, "answer": dumps(_recorded(written)), "at": micros(unit.at)}
        token = (self._sql.insert_commit, self._sql.insert_commit.bind(params))
        *before, rest = apart(self._later, MERGED)
        for *chunk, last in before:
            sql, values = followed_by(chunk, last)
            await self._connection.execute(sql, *values)
        sql, values = followed_by(rest, token)
        await self._connection.execute(sql, *values)


def _finished(steps: Program, found: list[Row]) -> UnitResult:
    """Return the result of a program with a single step."""
    try:
        steps.send(found)
    except StopIteration as stop:
        written: UnitResult = stop.value
        return written
    raise AssertionError("A whole is all that its program yields.")


def _recorded(written: UnitResult) -> JSONObject:
    """Return the answer and the spans of the unit's events as JSON."""
    recorded: JSONObject = {name: getattr(written.answer, name) for name in _ANSWER}
    recorded["runs"] = [list(each) for each in written.answer.runs]
    if written.events:
        recorded["events"] = _spans(written.events)
    return recorded


def _spans(events: Sequence[Event]) -> JSON:
    """Return the first and last event number by thread. Space events are left out, as they have no number yet."""
    spans: dict[str | None, list[Event]] = {}
    for event in events:
        if event.n is not None:
            spans.setdefault(event.thread_id, []).append(event)
    return [[whose, some[0].n, some[-1].n] for whose, some in spans.items()]


async def written_before(connection: Connection, unit: Unit, sql: Statements) -> UnitResult | None:
    """Return the result of the unit with this token, if it is in the journal."""
    found = await connection.fetchval(sql.commit_answer.sql, unit.token)
    if found is None:
        return None
    recorded = json.loads(found)
    if isinstance(recorded, list):
        steps = program(unit, sql)
        whole = next(steps)
        assert isinstance(whole, StatementBatch), "only these leave their rows"
        return _finished(steps, rows_recorded(whole.ops, found))
    events: list[Event] = []
    for whose, first, last in recorded.pop("events", ()):
        told = await connection.fetch(sql.events_between.sql, whose, first, last)
        events += [EVENTS.read(row) for row in told]
    runs = tuple([tuple(each) for each in recorded.pop("runs", ())])
    return UnitResult(Committed(**recorded, runs=runs), tuple(events))
