"""Units on one Postgres connection: merged into one statement per unit, or several statements in one transaction.

The rules (JOURNAL, "Units of work"): no row is written twice, no part reads what another part wrote except through
its RETURNING, and a failed precondition aborts the whole statement. The parts run in order, because the query reads
their rows in that order. So locks are acquired in the order of the ops.

All parts see one snapshot, which can be older than the lock that the first part waited for. That is safe for
preconditions on existing rows: Postgres checks the newest version of a row before it writes it. A precondition that
needs a row to be absent receives the result of a part that holds the lock and compares it with its own snapshot: it
fails if the snapshot is older. So a unit that fails as one statement can still succeed as several statements, and
only these show which precondition failed.
"""

import asyncio
import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple, TypeAlias

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
from toolwright.adapters.store.sql.advance import program
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sql.threads import EVENTS
from toolwright.core.journal.rows import GuardFailed
from toolwright.core.journal.units import Committed, Unit
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.threads.event import Event

Write: TypeAlias = tuple[Statement, Row]

_PLACE = re.compile(r"\$(\d+)")
_Given: TypeAlias = tuple[tuple[str, tuple[int, int]], ...]

REFUSED = asyncpg.InvalidTextRepresentationError  # from casting the text in _RECORD; nothing else is cast
_RECORD = """INSERT INTO commits (token, answer, at)
SELECT $1::VARCHAR, coalesce(json_agg(json_build_array(i, r))::text, '[]'), CASE count(*) FILTER (WHERE g) WHEN {guards}
THEN $2::BIGINT ELSE ('no error: a guard of a unit failed, ' || count(*) || ' rows')::BIGINT END
FROM ({rows}) AS found RETURNING answer"""
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
MERGED = 24  # maximum number of statements merged into one
MOST_CHARACTERS = 65_536  # limit for each value of a unit that is committed together with others
MOST_VALUES = 32_767  # maximum number of parameters of one Postgres statement


def apart(writes: Sequence[Write], most: int) -> list[list[Write]]:
    """Split the writes, in order, into parts of at most `most`, none of which could write a row twice.

    New rows are always distinct; rows that can overwrite others are identified by their first key.
    """
    parts: list[list[Write]] = [[]]
    written: set[tuple[str, object]] = set()
    for statement, row in writes:
        table, way = _written(statement.sql)
        marks: set[tuple[str, object]] = set()
        if way != "new":
            marks = {(table, row[0] if way == "upsert" else None)}
        clash = bool(marks & written) or (way != "new" and (table, None) in written)
        clash |= way == "change" and any(name == table for name, _ in written)
        if clash or len(parts[-1]) == most:
            parts.append([])
            written = set()
        parts[-1].append((statement, row))
        written |= marks or {(table, _NEW)}
    return parts


def is_about(statement: Statement, writes: Sequence[Write]) -> bool:
    """Return whether a statement names a table that one of the writes changes."""
    return any(_written(written.sql)[0] in statement.names for written, _ in writes)


_NEW = object()
_TABLE = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")


@lru_cache(maxsize=1_000)
def _written(sql: str) -> tuple[str, str]:
    """Return the table of a statement and its kind: `new` rows, an `upsert`, or a `change` of existing rows."""
    found = _TABLE.search(sql)
    table = found[1] if found else ""
    if found is None or not sql.startswith("INSERT"):
        return table, "change"
    return table, "upsert" if "ON CONFLICT" in sql or "SELECT" in sql else "new"


def guarded(ops: Sequence[Op]) -> tuple[str, list[object]]:
    """Return one query that runs all ops and returns their rows, each with the index of its op."""
    parts = tuple([(op.statement.sql, len(op.statement.order)) for op in ops])
    return _guarded(parts), [value for op in ops for value in op.statement.bind(op.params)]


def rows_of(ops: Sequence[Op], found: Sequence[tuple[int, str]]) -> list[Row]:
    """Return one row for each op. The precondition of the first op without a row has failed."""
    given = {number: tuple(json.loads(row).values()) for number, row in found}
    for number, op in enumerate(ops):
        if op.guard is not None and number not in given:
            raise GuardFailed(op.guard)
    return [given.get(number, ()) for number in range(len(ops))]


def at_once(ops: Sequence[Op], token: str, at: int) -> tuple[str, list[object]]:
    """Return the ops of a unit and its token as one statement. `rows_recorded` reads its result.

    A failed precondition raises `REFUSED`.
    """
    values: list[object] = [token, at]
    for op in ops:
        if op.given is None:
            values += op.statement.bind(op.params)
            for params in op.more or ():
                values += op.statement.bind(params)
        else:
            for params in (op.params, *(op.more or ())):
                values += op.statement.bind_without(params, op.given)
    return _at_once(tuple([_part(op) for op in ops])), values


def rows_recorded(ops: Sequence[Op], recorded: str) -> list[Row]:
    """Return one row for each op, from the record stored with the unit's token."""
    given = {number: tuple(row.values()) for number, row in json.loads(recorded)}
    return [given.get(number, ()) for number in range(len(ops))]


def followed_by(writes: Sequence[Write], last: Write) -> tuple[str, list[object]]:
    """Return one statement that executes all writes and then the last one."""
    parts = tuple([(statement.sql, len(statement.order)) for statement, _ in writes])
    values = [value for _, row in [*writes, last] for value in row]
    return _followed_by(parts, last[0].sql), values


@lru_cache(maxsize=512)
def _guarded(parts: tuple[tuple[str, int], ...]) -> str:
    rows = " UNION ALL ".join(f"SELECT {i}, to_json(p{i})::text FROM p{i}" for i in range(len(parts)))  # noqa: S608 - numbers only
    return f"WITH {_ctes(parts)} {rows}"


@lru_cache(maxsize=512)
def _followed_by(parts: tuple[tuple[str, int], ...], last: str) -> str:
    places = sum(count for _, count in parts)
    return f"WITH {_ctes(parts)} {_shifted(last, places)}" if parts else last


class _Part(NamedTuple):
    """One op in the cache key of a merged statement's text."""

    sql: str
    order: tuple[str, ...]
    rows: int
    returns: bool
    guarded: bool
    given: _Given


def _part(op: Op) -> _Part:
    given = tuple(op.given.items()) if op.given is not None else ()
    statement = op.statement
    return _Part(
        statement.sql, statement.order, 1 + len(op.more or ()), statement.returns, op.guard is not None, given
    )


def _value_indexes(order: tuple[str, ...], given: Container[str] | None) -> list[int]:
    """Return the indexes of the parameters to be sent."""
    return [i for i, name in enumerate(order) if given is None or name not in given]


@lru_cache(maxsize=512)
def _at_once(parts: tuple[_Part, ...]) -> str:
    texts: list[str] = []
    found: list[str] = []
    places = 2  # the token and the time
    columns: dict[int, int] = {}  # number of named columns per part, for parts that other parts refer to
    for _, (number, column) in [given for part in parts for given in part.given]:
        columns[number] = max(columns.get(number, 0), column + 1)
    for number, part in enumerate(parts):
        sql, used = _placed(part, places)
        places += used
        names = ", ".join(f"c{column}" for column in range(columns.get(number, 0)))
        texts.append(f"p{number}{f' ({names})' if names else ''} AS ({sql})")
        if part.returns:
            guarded = str(part.guarded).upper()
            found.append(f"SELECT {number} AS i, {guarded} AS g, to_json(p{number}) AS r FROM p{number}")  # noqa: S608 - numbers only
    record = _RECORD.format(guards=sum(part.guarded for part in parts), rows=" UNION ALL ".join(found))
    return f"WITH {', '.join(texts)} {record}"


def _placed(part: _Part, places: int) -> tuple[str, int]:
    """Return the part's text with parameters numbered after `places`, and the number of its parameters."""
    given = dict(part.given)
    kept = _value_indexes(part.order, given)
    named = {index: name for index, name in enumerate(part.order) if name in given}

    def row(text: str, start: int) -> str:
        def place(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            if index in named:
                number, column = given[named[index]]
                return f"(SELECT c{column} FROM p{number})"  # noqa: S608 - numbers only
            return f"${start + kept.index(index) + 1}"

        return _PLACE.sub(place, text)

    if part.rows == 1:
        return row(part.sql, places), len(kept)
    head, values = part.sql.rsplit(" VALUES ", 1)
    lines = [row(values, places + n * len(kept)) for n in range(part.rows)]
    return f"{head} VALUES {', '.join(lines)}", part.rows * len(kept)


def _ctes(parts: tuple[tuple[str, int], ...]) -> str:
    texts: list[str] = []
    places = 0
    for number, (sql, count) in enumerate(parts):
        texts.append(f"p{number} AS ({_shifted(sql, places)})")
        places += count
    return ", ".join(texts)


def _shifted(sql: str, places: int) -> str:
    return _PLACE.sub(lambda place: f"${int(place[1]) + places}", sql)


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
        return len(max(texts, key=len)) <= MOST_CHARACTERS

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
    return UnitStatement(query, values, batch.ops, steps) if len(values) <= MOST_VALUES else None


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
        if not any(is_about(op.statement, self._later) for op in ops):
            return
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
