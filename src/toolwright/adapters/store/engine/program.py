"""Programs: SQLAlchemy statements compiled once, their operations, and the driver that runs them on a database.

A driver may save round trips in three ways. A program may yield several ops at once, on different rows, and receives
one row of each: the driver may run them as one statement. A statement that returns nothing may be run at any time
before COMMIT and before a later statement that names its table. Rows of the logs (`LOGS`) may even wait for
other units. A program without decisions yields a `StatementBatch`, which may be run together with its COMMIT as one
statement; an `Attempt` is a batch whose program has a fallback. The author of a batch follows these rules:

- every check is a precondition (`guard`): nothing that the program does with the rows afterwards may reject the unit;
- no row is written twice, except by an op marked `again`, which prevents the batch from being one statement;
- statements that return rows precede those that return nothing, and are in the order of locks;
- an op reads what another op wrote only by `given`, from the row that the other op returned;
- a precondition that needs a row to be absent compares a `given` value with its own snapshot, so that it fails if its
  snapshot is older than that of the op that holds the lock (`all_read`).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Container, Generator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Param, Params, Row, Values, size_of
from toolwright.adapters.store.engine.outcome import UnitResult
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.units import Committed, Conflict, Unit
from toolwright.core.limits import PAGE_BYTES, Page, PageLimit
from toolwright.core.value import Value

RowQuery: TypeAlias = sa.Select[*tuple[Any, ...]]  # a query of any row shape
Query: TypeAlias = RowQuery | sa.CompoundSelect[*tuple[Any, ...]]  # a query of any row shape
DialectName: TypeAlias = Literal["sqlite", "postgresql"]
NOW: dict[DialectName, str] = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
    "postgresql": "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
}
"""The database's time in microseconds, as SQL."""
Made = TypeVar("Made")
_WORD = re.compile(r"\w+")


LOGS = frozenset({"messages", "steps", "events"})
"""Append-only tables. Their rows need no checks of their own, so they may be inserted at the end of a group."""
T = TypeVar("T")
Y = TypeVar("Y")


class Statement:
    """One statement in its driver's form: the text, and the names of its parameters in order.

    `constants` are its literals, of any column type. `names` are all words of the text, including its table names.
    `logs` are the `LOGS` tables among them. `appends` is true if the statement only inserts rows into one of these.
    """

    def __init__(
        self,
        sql: str,
        order: tuple[str, ...],
        *,
        returns: bool,
        constants: Mapping[str, Any],
        appends: bool = False,
    ) -> None:
        self.sql = sql
        self.order = order
        self.returns = returns
        self.constants = constants
        self.appends = appends
        self.names = frozenset(_WORD.findall(sql))
        self.logs = LOGS & self.names
        self._picked = itemgetter(*order) if len(order) > 1 else self._pick
        self._texts: dict[int, str] = {}

    def bind(self, params: Params | Values) -> Row:
        """Return the parameters in the driver's order."""
        if isinstance(params, tuple):
            return params
        return self._picked({**self.constants, **params} if self.constants else params)

    def bind_with(self, every: Sequence[Params | Values], given: Params) -> list[Values]:
        """Return the parameters of each row in the driver's order, with the `given` ones replaced."""
        places = [(place, given[name]) for place, name in enumerate(self.order) if name in given]
        bound: list[Values] = []
        for params in every:
            values = [*(params if isinstance(params, tuple) else self.bind({**params, **given}))]
            for place, fixed in places:
                values[place] = fixed
            bound.append(tuple(values))
        return bound

    def bind_without(self, params: Params | Values, names: Container[str]) -> list[Param]:
        """Return the parameters in the driver's order, without the given names."""
        if isinstance(params, dict):
            values = {**self.constants, **params}
            return [values[name] for name in self.order if name not in names]
        return [each for name, each in zip(self.order, params, strict=True) if name not in names]

    def for_rows(self, count: int) -> str:
        """Return the text of an INSERT … VALUES of `count` rows. Works only for `?` placeholders."""
        text = self._texts.get(count)
        if text is None:
            head, values = self.sql.rsplit(" VALUES ", 1)
            text = self._texts[count] = f"{head} VALUES {', '.join([values] * count)}"
        return text

    def _pick(self, params: Params) -> Row:
        return tuple([params[name] for name in self.order])


def _is_plain_insert(statement: sa.Insert | sa.Update | sa.Delete | Query) -> bool:
    return type(statement) is sa.Insert and cast("sa.Table", statement.table).name in LOGS


def number(name: str) -> Any:  # SQLAlchemy's own parameter type is generic over the type it is compared with
    """Return an integer parameter."""
    return sa.bindparam(name, type_=sa.BigInteger)


def string(name: str) -> Any:  # as above
    """Return a text parameter."""
    return sa.bindparam(name, type_=sa.Text)


def row_params(table: sa.Table) -> dict[str, Any]:  # as above
    """Return parameters for all columns of a row, by column name."""
    return {column.name: sa.bindparam(column.name, type_=column.type) for column in table.columns}


class Compiler:
    """Compiles SQLAlchemy statements for one dialect."""

    def __init__(self, name: DialectName) -> None:
        self._dialect = sqlite.dialect() if name == "sqlite" else postgresql.asyncpg.dialect()

    def __call__(self, statement: sa.Insert | sa.Update | sa.Delete | Query) -> Statement:
        compiled = statement.compile(dialect=self._dialect)
        sql, given = str(compiled), compiled.params
        return Statement(
            sql=sql,
            order=tuple(compiled.positiontup or ()),
            returns=isinstance(statement, sa.Select) or " RETURNING " in sql,
            constants={name: value for name, value in given.items() if value is not None},
            appends=_is_plain_insert(statement) and " RETURNING " not in sql,
        )

    def delete_some(
        self,
        table: sa.Table,
        *where: sa.ColumnElement[bool],
        oldest_by: sa.ColumnElement[int] | None = None,
    ) -> Statement:
        """Compile a deletion of at most `limit` rows, the oldest first if a column is given. Returns a row for each.

        On Postgres the rows are found once, as an array of their physical places. With a search by key, a planner whose
        statistics take the table for empty would repeat the search for each row of the table.
        """
        key = (*table.primary_key.columns,)
        is_postgres = self._dialect.name == "postgresql"
        place: sa.ColumnElement[Any] = sa.literal_column(f"{table.name}.ctid")
        columns: Sequence[sa.ColumnElement[Any]] = [place] if is_postgres else key
        chosen: RowQuery = sa.select(*columns).where(*where).limit(number("limit")).correlate(None)
        if oldest_by is not None:
            chosen = chosen.order_by(oldest_by)
        places = sa.func.array(chosen.scalar_subquery())
        is_chosen = place == sa.any_(places) if is_postgres else sa.tuple_(*key).in_(chosen)
        return self(sa.delete(table).where(is_chosen).returning(key[0]))


def statements(kind: Callable[[DialectName], Made], name: DialectName) -> Made:
    """Return the statements of a class for a dialect. They are immutable and shared by all journals of a process."""
    return cast("Made", _statements(kind, name))


@cache
def _statements(kind: Callable[[DialectName], object], name: DialectName) -> object:
    return kind(name)


class Op(NamedTuple):  # a tuple, because a step creates a dozen of them
    """One statement to run. With a `guard` it must return exactly one row. `more` are parameters of further executions.

    `given` are parameters taken from the result of an earlier op of the same batch: the op's index and the column.
    `again` marks an op that needs its own snapshot: an earlier op has written the same row, or this op must see what
    was committed while the first op waited for its lock.
    """

    statement: Statement
    params: Params | Values
    guard: Guard | None = None
    more: Sequence[Params | Values] | None = None
    given: Mapping[str, tuple[int, int]] | None = None
    again: bool = False


class StatementBatch(Value):
    """All ops of a program at once. The program receives the first row of each op, or an empty row."""

    ops: Sequence[Op]


class Attempt(StatementBatch):
    """A batch whose program has a fallback: it receives no rows unless the driver runs the batch as one statement."""


Ops: TypeAlias = Op | Sequence[Op] | StatementBatch
Program: TypeAlias = Generator[Ops, list[Row], UnitResult]
Reading: TypeAlias = Generator[Op, list[Row], T]


def is_page(op: Op) -> bool:
    """Return whether the op reads a page, which is cut short if its rows are large."""
    return isinstance(op.params, dict) and isinstance(op.params.get("limit"), PageLimit)


def behind(first: Op, ops: Sequence[Op]) -> list[Op]:
    """Return the ops shifted to follow another one, so that references to results still match."""
    moved = [
        {name: (number + 1, column) for name, (number, column) in (op.given or {}).items()} for op in ops
    ]
    return [first, *[op._replace(given=given) if given else op for op, given in zip(ops, moved, strict=True)]]


def drive(steps: Generator[Y, list[Row], T], run: Callable[[Y], list[Row]]) -> T:
    """Run the ops of a program or a read with `run`, and return its result."""
    rows: list[Row] | None = None
    while True:
        try:
            ops = next(steps) if rows is None else steps.send(rows)
        except StopIteration as stop:
            return stop.value
        rows = run(ops)


async def drive_async(steps: Generator[Y, list[Row], T], run: Callable[[Y], Awaitable[list[Row]]]) -> T:
    """Run the ops of a program or a read with the async `run`, and return its result."""
    rows: list[Row] | None = None
    while True:
        try:
            ops = next(steps) if rows is None else steps.send(rows)
        except StopIteration as stop:
            return stop.value
        rows = await run(ops)


def filled(op: Op, rows: Sequence[Row]) -> Op:
    """Return the op with the parameters taken from earlier results."""
    if op.given is None:
        return op
    given: Params = {name: rows[number][column] for name, (number, column) in op.given.items()}
    first, *more = op.statement.bind_with((op.params, *(op.more or ())), given)
    return Op(op.statement, first, op.guard, more, None, op.again)


class Driver(Protocol):
    """Runs programs on a database."""

    @property
    def dialect(self) -> DialectName: ...

    @property
    def connections(self) -> tuple[int, int] | None:
        """Number of connections in use and their limit, or None if there is no limit."""
        ...

    def write(self, unit: Unit) -> "asyncio.Future[Committed | Conflict]":
        """Commit the unit. The future completes after COMMIT, when the unit's events have been published to the bus."""
        ...

    async def read(self, reading: Callable[[], Reading[T]]) -> T:
        """Run a read of one statement."""
        ...

    async def snapshot(self, reading: Callable[[], Reading[T]]) -> T:
        """Run a read of several statements on one consistent snapshot."""
        ...

    async def shrink(self) -> bool:
        """Return part of the free space to the operating system. Returns whether there is more."""
        ...

    async def close(self) -> None: ...


async def read_rows(
    driver: Driver, convert: Callable[[Sequence[Row]], T], statement: Statement, params: Params
) -> T:
    """Run one query and convert its rows with `made`: a mapping's `page`, `all` or `first`, or another function.

    If the `limit` is a `PageLimit`, drivers fetch only as many rows as fit into `PAGE_BYTES`.
    """

    def reading() -> Reading[T]:
        rows = yield Op(statement, params)
        items = convert(rows)
        if isinstance(params.get("limit"), PageLimit):
            _note_end(items, rows)
        return items

    return await driver.read(reading)


def _note_end(page: object, rows: Sequence[Row]) -> None:
    """Mark a page of rows as truncated."""
    if isinstance(page, Page):
        cast("Page[object]", page).more = sum(map(size_of, rows)) >= PAGE_BYTES
