"""SQLAlchemy statements, compiled once into a driver's form."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Literal, TypeAlias, TypeVar, cast

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Delete,
    Insert,
    Select,
    Table,
    Text,
    Update,
    any_,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Param, Params, Row, Values

Rows: TypeAlias = Select[*tuple[Any, ...]]  # a query of any row shape
Query: TypeAlias = Rows | CompoundSelect[*tuple[Any, ...]]  # a query of any row shape
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
            for place, value in places:
                values[place] = value
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


def _is_plain_insert(statement: Insert | Update | Delete | Query) -> bool:
    return type(statement) is Insert and cast("Table", statement.table).name in LOGS


def number(name: str) -> Any:  # SQLAlchemy's own parameter type is generic over the type it is compared with
    """Return an integer parameter."""
    return bindparam(name, type_=BigInteger)


def string(name: str) -> Any:  # as above
    """Return a text parameter."""
    return bindparam(name, type_=Text)


def row_params(table: Table) -> dict[str, Any]:  # as above
    """Return parameters for all columns of a row, by column name."""
    return {column.name: bindparam(column.name, type_=column.type) for column in table.columns}


class Compiler:
    """Compiles SQLAlchemy statements for one dialect."""

    def __init__(self, name: DialectName) -> None:
        self._dialect = sqlite.dialect() if name == "sqlite" else postgresql.asyncpg.dialect()

    def __call__(self, statement: Insert | Update | Delete | Query) -> Statement:
        compiled = statement.compile(dialect=self._dialect)
        sql, given = str(compiled), compiled.params
        return Statement(
            sql=sql,
            order=tuple(compiled.positiontup or ()),
            returns=isinstance(statement, Select) or " RETURNING " in sql,
            constants={name: value for name, value in given.items() if value is not None},
            appends=_is_plain_insert(statement) and " RETURNING " not in sql,
        )

    def delete_some(
        self,
        table: Table,
        key: Sequence[ColumnElement[Any]],  # of any types
        *where: ColumnElement[bool],
        oldest_by: ColumnElement[int] | None = None,
    ) -> Statement:
        """Compile a deletion of at most `limit` rows, the oldest first if a column is given. Returns a row for each.

        On Postgres the rows are found once, as an array of their physical places. With a search by key, a planner whose
        statistics take the table for empty would repeat the search for each row of the table.
        """
        is_postgres = self._dialect.name == "postgresql"
        place: ColumnElement[Any] = literal_column(f"{table.name}.ctid")
        columns: Sequence[ColumnElement[Any]] = [place] if is_postgres else key
        chosen: Rows = select(*columns).where(*where).limit(number("limit")).correlate(None)
        if oldest_by is not None:
            chosen = chosen.order_by(oldest_by)
        places = func.array(chosen.scalar_subquery())
        is_chosen = place == any_(places) if is_postgres else tuple_(*key).in_(chosen)
        return self(delete(table).where(is_chosen).returning(key[0]))


def statements(kind: Callable[[DialectName], Made], name: DialectName) -> Made:
    """Return the statements of a class for a dialect. They are immutable and shared by all journals of a process."""
    return cast("Made", _statements(kind, name))


@cache
def _statements(kind: Callable[[DialectName], object], name: DialectName) -> object:
    return kind(name)
