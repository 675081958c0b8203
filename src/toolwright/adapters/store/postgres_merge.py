"""Several statements as one for Postgres: parts of one CTE, to spare round trips.

The rules (JOURNAL, "Units of work"): no row is written twice, nothing reads what a sibling wrote except
through its RETURNING, and a failed guard aborts the whole. The parts run in their order, because the query
takes their rows in that order: so locks are taken in the order of the ops.

All parts see one snapshot, which may be older than the lock that the first of them waited for. That is safe
for guards on rows that are there already: Postgres looks at the newest version of a row before it writes it.
A guard that needs a row to be absent (`joined_unread`) must be a statement of its own.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from toolwright.adapters.store.compiled import Statement
from toolwright.adapters.store.programs import Op
from toolwright.adapters.store.rows import Row
from toolwright.adapters.store.written import GuardFailed

Write: TypeAlias = tuple[Statement, Row]

_PLACE = re.compile(r"\$(\d+)")


def guarded(ops: Sequence[Op]) -> tuple[str, list[object]]:
    """One query that runs all ops and gives their rows, each with the number of its op."""
    parts = tuple([(op.statement.sql, len(op.statement.order)) for op in ops])
    return _guarded(parts), [value for op in ops for value in op.statement.bind(op.params)]


def rows_of(ops: Sequence[Op], found: Sequence[tuple[int, str]]) -> list[Row]:
    """One row for each op; the first op without one fails its guard."""
    given = {number: tuple(json.loads(row).values()) for number, row in found}
    for number, op in enumerate(ops):
        if op.guard is not None and number not in given:
            raise GuardFailed(op.guard)
    return [given[number] for number in range(len(ops))]


def followed_by(writes: Sequence[Write], last: Write) -> tuple[str, list[object]]:
    """One statement that does all of the writes, and the last."""
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


def _ctes(parts: tuple[tuple[str, int], ...]) -> str:
    texts: list[str] = []
    places = 0
    for number, (sql, count) in enumerate(parts):
        texts.append(f"p{number} AS ({_shifted(sql, places)})")
        places += count
    return ", ".join(texts)


def _shifted(sql: str, places: int) -> str:
    return _PLACE.sub(lambda place: f"${int(place[1]) + places}", sql)
