"""SQLAlchemy statements, compiled once into what a driver takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar, cast

from sqlalchemy import Delete, Insert, Select, Update
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Params, Row

Rows: TypeAlias = Select[*tuple[Any, ...]]  # a query of any row shape
DialectName: TypeAlias = Literal["sqlite", "postgresql"]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as its driver takes it: the text, and the names of its parameters in order."""

    sql: str
    order: tuple[str, ...]
    returns: bool
    constants: Mapping[str, Any]  # the statement's literals, of whatever types its columns have

    def bind(self, params: Params) -> Row:
        """The parameters in the driver's order."""
        if self.constants:
            params = {**self.constants, **params}
        return tuple([params[name] for name in self.order])

    def for_rows(self, count: int) -> str:
        """The text of an INSERT … VALUES that takes so many rows at once; with `?` for parameters only."""
        head, values = self.sql.rsplit(" VALUES ", 1)
        return f"{head} VALUES {', '.join([values] * count)}"


class Compiler:
    """Compiles for one dialect."""

    def __init__(self, name: DialectName) -> None:
        self._dialect = sqlite.dialect() if name == "sqlite" else postgresql.asyncpg.dialect()

    def __call__(self, statement: Insert | Update | Delete | Rows) -> Statement:
        compiled = statement.compile(dialect=self._dialect)
        sql, given = str(compiled), compiled.params
        return Statement(
            sql=sql,
            order=tuple(compiled.positiontup or ()),
            returns=isinstance(statement, Select) or " RETURNING " in sql,
            constants={name: value for name, value in given.items() if value is not None},
        )


def statements(kind: Callable[[DialectName], Made], name: DialectName) -> Made:
    """The statements of that kind for a dialect. They never change, so all journals of a process share them."""
    return cast("Made", _statements(kind, name))


@cache
def _statements(kind: Callable[[DialectName], object], name: DialectName) -> object:
    return kind(name)
