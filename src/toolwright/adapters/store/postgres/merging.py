"""Merged statements: the ops of a unit, or the writes of several statements, as the text of one Postgres statement.

The rules (JOURNAL, "Units of work"): no row is written twice, no part reads what another part wrote except through
its RETURNING, and a failed precondition aborts the whole statement. The parts run in order, because the query reads
their rows in that order. So locks are acquired in the order of the ops.

All parts see one snapshot, which can be older than the lock that the first part waited for. That is safe for
preconditions on existing rows: Postgres checks the newest version of a row before it writes it. A precondition that
needs a row to be absent receives the result of a part that holds the lock and compares it with its own snapshot: it
fails if the snapshot is older. So a unit that fails as one statement can still succeed as several statements, and
only these show which precondition failed.
"""

import json
import re
from collections.abc import Container, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import asyncpg

from toolwright.adapters.store.engine.codecs import Row
from toolwright.adapters.store.engine.program import Op, Statement
from toolwright.core.journal.rows import GuardFailed

Write: TypeAlias = tuple[Statement, Row]

_PLACE = re.compile(r"\$(\d+)")
_Given: TypeAlias = tuple[tuple[str, tuple[int, int]], ...]

REFUSED = asyncpg.InvalidTextRepresentationError  # from casting the text in _RECORD; nothing else is cast
_RECORD = """INSERT INTO commits (token, answer, at)
SELECT $1::VARCHAR, coalesce(json_agg(json_build_array(i, r))::text, '[]'), CASE count(*) FILTER (WHERE g) WHEN {guards}
THEN $2::BIGINT ELSE ('no error: a guard of a unit failed, ' || count(*) || ' rows')::BIGINT END
FROM ({rows}) AS found RETURNING answer"""


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


class _OpKey(NamedTuple):
    """One op in the cache key of a merged statement's text."""

    sql: str
    order: tuple[str, ...]
    rows: int
    returns: bool
    guarded: bool
    given: _Given


def _part(op: Op) -> _OpKey:
    given = tuple(op.given.items()) if op.given is not None else ()
    statement = op.statement
    return _OpKey(
        statement.sql, statement.order, 1 + len(op.more or ()), statement.returns, op.guard is not None, given
    )


def _value_indexes(order: tuple[str, ...], given: Container[str] | None) -> list[int]:
    """Return the indexes of the parameters to be sent."""
    return [i for i, name in enumerate(order) if given is None or name not in given]


@lru_cache(maxsize=512)
def _at_once(parts: tuple[_OpKey, ...]) -> str:
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


def _placed(part: _OpKey, places: int) -> tuple[str, int]:
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
