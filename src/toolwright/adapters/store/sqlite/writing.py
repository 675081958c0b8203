"""Writes units on one SQLite connection, within a transaction that the caller begins and ends."""

import sqlite3
from collections.abc import Sequence
from itertools import chain

from toolwright.adapters.store.engine.codecs import Row
from toolwright.adapters.store.engine.outcome import GuardFailed, UnitResult
from toolwright.adapters.store.engine.program import Attempt, Op, Ops, StatementBatch, drive, filled
from toolwright.adapters.store.engine.statement import Statement
from toolwright.adapters.store.programs.advance import is_plain, write_plain
from toolwright.adapters.store.programs.units import program
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.journal.units import Advance, Unit

SIZES = (64, 16, 8, 4, 3, 2, 1)
"""Numbers of rows for one INSERT. There are few sizes, so that the connection keeps each statement prepared."""


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
