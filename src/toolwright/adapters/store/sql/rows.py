"""SQL of row operations: statements derived from the operations, compiled when one of their kind is first used.

A new kind of row is a class with `STORED`, its table and mapping in a module of this folder, and an entry of `ROWS`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import count
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Params, Row
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    Op,
    RowQuery,
    Statement,
    number,
    read_rows,
    row_params,
    statements,
)
from toolwright.adapters.store.sql.agents import AGENT_HEADS, AGENT_REVISIONS, MCP_DEFINITIONS
from toolwright.adapters.store.sql.children import ASKED, REQUESTS, THREAD_VALUES
from toolwright.adapters.store.sql.memory import BLOCK_LINKS, OWN_BLOCKS, PASSAGE_ROWS
from toolwright.adapters.store.sql.messages import CALLS, MESSAGE_VERSIONS, MESSAGES
from toolwright.adapters.store.sql.records import RECORDS
from toolwright.adapters.store.sql.retention import DROPPED_BYTES
from toolwright.adapters.store.sql.spaces import (
    MEMBERS,
    REACTIONS,
    SPACE_MESSAGES,
    SPACES,
    space_messages,
    spaces,
)
from toolwright.adapters.store.sql.threads import (
    COMPACTIONS,
    ENTITIES,
    ENV,
    FILES,
    INBOX,
    NODES,
    NOT_COMPLETED,
    RUNS,
    SENT_TEXTS,
    SIGN_OUTS,
    STEPS,
    THREADS,
    WAKES,
)
from toolwright.core.journal.rows import (
    Above,
    Add,
    Among,
    Below,
    Beyond,
    Clear,
    Delete,
    Find,
    If,
    Least,
    More,
    Most,
    Move,
    NoneOf,
    Not,
    Once,
    OneOf,
    Put,
    Test,
    UpTo,
    Where,
)
from toolwright.core.limits import Page
from toolwright.core.spaces import SpaceMessage
from toolwright.core.threads.run import Run
from toolwright.core.value import Record

R = TypeVar("R", bound=Record)

ROWS: dict[type[Record], Mapping[Any]] = {  # of each class
    each.kind: each
    for each in (
        *(THREADS, RUNS, STEPS, CALLS, INBOX, MESSAGES, MESSAGE_VERSIONS, FILES, ENV, WAKES, NODES),
        *(COMPACTIONS, SENT_TEXTS, THREAD_VALUES),
        *(SPACES, MEMBERS, SPACE_MESSAGES, REACTIONS, ENTITIES, REQUESTS, ASKED),
        *(AGENT_HEADS, AGENT_REVISIONS, SIGN_OUTS, DROPPED_BYTES),
        *(OWN_BLOCKS, BLOCK_LINKS, PASSAGE_ROWS, MCP_DEFINITIONS, *RECORDS.values()),
    )
}

_Condition: TypeAlias = tuple[str, str, Any]
"""The column, the test, and its number of values or what it selects."""
_Conditions: TypeAlias = tuple[tuple[_Condition, ...], ...]
"""Alternatives, each of conditions that must all hold."""
_Shape: TypeAlias = tuple[
    Any, ...
]  # how a column changes: a word, and for `If` its conditions and two shapes
_Column: TypeAlias = sa.ColumnElement[Any]  # of any type
Described: TypeAlias = Put | Add | Delete | Find | Move | Clear


_STORED: dict[type[Record], tuple[sa.ColumnElement[bool], ...]] = {
    SpaceMessage: (sa.exists().where(spaces.c.id == space_messages.c.space_id),)
}
"""Conditions of all reads of a class: other rows await their deletion."""


def _unfinished(where: Where) -> str:
    """Return the condition of the index of unfinished runs, if the runs have one of its statuses."""
    if isinstance(where, tuple) or "thread_id" in where:
        return ""
    return NOT_COMPLETED if where.get("status", "completed") != "completed" else ""


_HINTS: dict[type[Record], Callable[[Where], str]] = {Run: _unfinished}
"""The condition that a query of a class must repeat exactly to use an index of some of the rows, or an empty text."""


class _Description:
    """The shape of an operation, which is the key of its statement, and its values in the order of the parameters."""

    def __init__(self, kind: type[Record], values: Params | None = None) -> None:
        self._rows = ROWS[kind]
        self.values: Params = {} if values is None else values

    def conditions(self, where: Where) -> _Conditions:
        every = where if isinstance(where, tuple) else (where,)
        return tuple([tuple([self._condition(*each) for each in one.items()]) for one in every])

    def change(self, column: str, change: object) -> _Shape:
        match change:
            case More(by=0):
                return ("stored",)
            case If(when=when, then=then, other=other):
                return ("if", self.conditions(when), self.change(column, then), self.change(column, other))
            case More(by=value) | Once(value=value) | Least(value=value) | Most(value=value):
                self._add(column, value)
                return (type(change).__name__,)
            case None:
                return ("null",)
            case value:
                self._add(column, value)
                return ("value",)

    def _condition(self, column: str, test: object) -> _Condition:
        values: Sequence[object] = ()
        match test:
            case str():
                values = (test,)
            case bool():
                return column, str(test), 0
            case Among(kind=kind, column=name, where=where):
                return column, "Among", (kind, name, _Description(kind, self.values).conditions(where))
            case OneOf() | NoneOf():
                values = test.values
            case Not() | UpTo() | Beyond() | Above() | Below():
                values = () if test.value is None else (test.value,)
            case _:
                values = () if test is None else (test,)
        for value in values:
            self._add(column, value)
        return column, type(test).__name__ if isinstance(test, Test) else "", len(values)

    def _add(self, column: str, value: object) -> None:
        self.values[f"v{len(self.values)}"] = self._rows.encode(column, value)


class _Clauses:
    """The clauses of a statement, with the parameters that a description has numbered."""

    def __init__(self, table: sa.Table, numbers: Iterator[int] | None = None) -> None:
        self._table = table
        self._numbers = numbers or count()

    def conditions(self, alternatives: _Conditions) -> sa.ColumnElement[bool]:
        every = [sa.and_(*[self._condition(*each) for each in one]) for one in alternatives]
        return every[0] if len(every) == 1 else sa.or_(*every)

    def change(self, column: str, shape: _Shape) -> _Column:
        stored = self._table.c[column]
        match shape:
            case ("stored",):
                return stored
            case ("null",):
                return sa.null()
            case ("if", when, then, other):
                condition = self.conditions(when)
                return sa.case((condition, self.change(column, then)), else_=self.change(column, other))
            case _:
                return self._value(str(shape[0]), stored, self._next(column))

    def _value(self, word: str, stored: _Column, value: _Column) -> _Column:
        match word:
            case "More":
                return stored + value
            case "Once":
                return sa.func.coalesce(stored, value)
            case "Least":
                return sa.case((value < stored, value), else_=stored)
            case "Most":
                return sa.case((value > stored, value), else_=stored)
            case _:
                return value

    def _condition(self, column: str, test: str, of: Any) -> sa.ColumnElement[bool]:
        stored = self._table.c[column]
        if test == "Among":
            kind, name, where = of
            table = ROWS[kind].table
            conditions = _Clauses(table, self._numbers).conditions(where)
            chosen: RowQuery = sa.select(table.c[str(name)]).where(conditions).correlate(None)
            return stored.in_(chosen)
        values = [self._next(column) for _ in range(of)]
        match test, values:
            case "True", _:
                # It is part of the statement, because an index can have only the rows with one of the values.
                return stored
            case "False", _:
                return ~stored
            case "OneOf", _:
                return stored.in_(values)
            case "NoneOf", _:
                return sa.and_(*[stored.is_distinct_from(each) for each in values])
            case "Not", []:
                return stored.is_not(None)
            case "Not", [value]:
                return stored.is_distinct_from(value)
            case "UpTo", [value]:
                return stored <= value
            case "Above", [value]:
                return stored > value
            case "Below", [value]:
                return stored < value
            case "Beyond", [value]:
                return sa.or_(stored.is_(None), stored > value)
            case _, []:
                return stored.is_(None)
            case _:
                return stored == values[0]

    def _next(self, column: str) -> _Column:
        return sa.bindparam(f"v{next(self._numbers)}", type_=self._table.c[column].type)


class RowStatements:
    """Row operations as operations of one dialect."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = Compiler(name)
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._known: dict[_Shape, Statement] = {}

    def op(self, operation: Described) -> Op:
        """Return the operation with its statement."""
        match operation:
            case Put(record=record, merged=merged):
                kind = type(record)
                new = _Description(kind)
                shapes = tuple([(name, new.change(name, each)) for name, each in merged.items()])
                statement = self._statement(("put", kind, shapes), self._put)
                return Op(statement, {**ROWS[kind].params(record), **new.values})
            case Add(record=record, guard=guard):
                statement = self._statement(("add", type(record)), self._add)
                return Op(statement, ROWS[type(record)].params(record), guard)
            case Delete(kind=kind, key=key, guard=guard):
                where = dict(zip(kind.STORED.key, key, strict=True))
                return self.op(Clear(kind=kind, where=where, guard=guard))
            case Find(kind=kind, guard=guard):
                row = _Description(kind)
                how = (operation.columns, operation.order, operation.limit, operation.lock)
                shape = ("find", kind, row.conditions(operation.where), how)
                return Op(self._statement(shape, self._find), row.values, guard)
            case Move(kind=kind, fields=fields, guard=guard):
                row = _Description(kind)
                shapes = tuple([(name, row.change(name, each)) for name, each in fields.items()])
                returned = _returned(operation)
                shape = ("move", kind, shapes, row.conditions(operation.where), returned)
                return Op(self._statement(shape, self._move), row.values, guard)
            case Clear(kind=kind, guard=guard):
                row = _Description(kind)
                shape = ("clear", kind, row.conditions(operation.where), _returned(operation))
                return Op(self._statement(shape, self._clear), row.values, guard)

    def select(
        self,
        kind: type[Record],
        where: Where,
        order: tuple[str, ...] = (),
        columns: tuple[str, ...] = (),
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> tuple[Statement, Params]:
        """Return the statement of a read (`core.journal.reads.RowReads`), and its parameters."""
        row = _Description(kind)
        hint = _HINTS[kind](where) if kind in _HINTS else ""
        shape = ("select", kind, row.conditions(where), order, columns, hint, limit is not None, offset > 0)
        if limit is not None:
            row.values["limit"] = limit
        if offset:
            row.values["offset"] = offset
        return self._statement(shape, self._select), row.values

    def _statement(self, shape: _Shape, compile: Callable[..., Statement]) -> Statement:
        statement = self._known.get(shape)
        if statement is None:
            statement = self._known[shape] = compile(*shape[1:])
        return statement

    def _put(self, kind: type[Record], merged: Iterable[tuple[str, _Shape]]) -> Statement:
        table, stored, clauses = ROWS[kind].table, kind.STORED, _Clauses(ROWS[kind].table)
        inserted = self._insert(table).values(row_params(table))
        new = {name: clauses.change(name, shape) for name, shape in merged}
        unchanged = {*stored.key, *stored.kept, *new}
        new |= {
            each.name: inserted.excluded[each.name] for each in table.columns if each.name not in unchanged
        }
        return self._compiled(inserted.on_conflict_do_update(index_elements=[*stored.key], set_=new))

    def _add(self, kind: type[Record]) -> Statement:
        table = ROWS[kind].table
        inserted = self._insert(table).values(row_params(table)).on_conflict_do_nothing()
        return self._compiled(inserted.returning(table.c[kind.STORED.key[-1]]))

    def _select(
        self,
        kind: type[Record],
        where: _Conditions,
        order: tuple[str, ...],
        columns: tuple[str, ...],
        hint: str,
        is_limited: bool,
        is_offset: bool,
    ) -> Statement:
        table = ROWS[kind].table
        query = sa.select(*[table.c[each] for each in columns]).distinct() if columns else ROWS[kind].query
        conditions = [_Clauses(table).conditions(where)] if where != ((),) else []
        query = query.where(*conditions, *_STORED.get(kind, ()), *([sa.text(hint)] if hint else ()))
        for name in order:
            column = table.c[name.removeprefix("-")]
            query = query.order_by(column.desc() if name[0] == "-" else column)
        query = query.limit(number("limit")) if is_limited else query
        return self._compiled(query.offset(number("offset")) if is_offset else query)

    def _find(self, kind: type[Record], where: _Conditions, how: _Shape) -> Statement:
        table, (columns, order, limit, lock) = ROWS[kind].table, how
        chosen: RowQuery = (
            sa.select(*[table.c[str(each)] for each in columns]) if columns else ROWS[kind].query
        )
        query = chosen.where(_Clauses(table).conditions(where)).order_by(
            *[table.c[str(each)] for each in order]
        )
        query = query if limit is None else query.limit(sa.literal_column(str(limit)))
        return self._compiled(query.with_for_update(read=lock == "share") if lock else query)

    def _move(
        self,
        kind: type[Record],
        fields: Iterable[tuple[str, _Shape]],
        where: _Conditions,
        returned: tuple[str, ...],
    ) -> Statement:
        table = ROWS[kind].table
        clauses = _Clauses(table)
        new = {name: clauses.change(name, shape) for name, shape in fields}
        changed = sa.update(table).values(new).where(clauses.conditions(where))
        return self._compiled(
            changed.returning(*[table.c[each] for each in returned]) if returned else changed
        )

    def _clear(self, kind: type[Record], where: _Conditions, returned: tuple[str, ...]) -> Statement:
        table = ROWS[kind].table
        gone = sa.delete(table).where(_Clauses(table).conditions(where))
        return self._compiled(gone.returning(*[table.c[each] for each in returned]) if returned else gone)


def _returned(operation: Move | Clear) -> tuple[str, ...]:
    """Return the columns that the statement returns. With a guard it returns a column, so that rows are counted."""
    if operation.returns or operation.guard is None:
        return operation.returns
    return operation.kind.STORED.key[-1:]


def read(
    operation: Described, rows: Sequence[Row]
) -> Sequence[Any]:  # values of the class, or rows of its columns
    """Return the rows of an operation as objects with the fields that it has asked for."""
    if isinstance(operation, Find) and not operation.columns:
        return ROWS[operation.kind].readable(rows)
    if isinstance(operation, Add):
        return rows
    columns = operation.columns if isinstance(operation, Find) else getattr(operation, "returns", ())
    if not columns:
        return ()
    convert = _reader(operation.kind, columns)  # type: ignore[union-attr]  # only these have columns
    return [convert(row) for row in rows]


@cache
def _reader(kind: type[Record], columns: tuple[str, ...]) -> Callable[[Row], Any]:  # as above
    decoders = [(each, ROWS[kind].decoder(each)) for each in columns]

    def convert(row: Row) -> Any:  # as above
        return SimpleNamespace(
            **{name: decode(value) for (name, decode), value in zip(decoders, row, strict=False)}
        )

    return convert


class SqlRows:
    """The `RowReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(RowStatements, driver.dialect)

    async def one(self, kind: type[R], *key: object) -> R | None:
        """Return the row with that key."""
        return await self.first(kind, dict(zip(kind.STORED.key, key, strict=True)))

    async def first(self, kind: type[R], where: Where) -> R | None:
        """Return a row that meets the conditions."""
        return await read_rows(self._driver, ROWS[kind].first, *self._sql.select(kind, where))

    async def find(
        self,
        kind: type[R],
        where: Where,
        order: tuple[str, ...] = (),
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> Page[R]:
        """Return the rows that meet the conditions, or a page of them."""
        selected = self._sql.select(kind, where, order, limit=limit, offset=offset)
        return await read_rows(self._driver, ROWS[kind].page, *selected)

    async def readable(
        self, kind: type[R], where: Where, order: tuple[str, ...] = (), *, limit: int | None = None
    ) -> list[R]:
        """Return the rows that meet the conditions without the broken ones."""
        return await read_rows(
            self._driver, ROWS[kind].readable, *self._sql.select(kind, where, order, limit=limit)
        )

    async def distinct(self, kind: type[R], columns: tuple[str, ...], where: Where) -> list[R]:
        """Return rows of these fields that meet the conditions."""
        convert = _reader(kind, columns)
        selected = self._sql.select(kind, where, (), columns)
        return await read_rows(self._driver, lambda rows: [convert(row) for row in rows], *selected)
