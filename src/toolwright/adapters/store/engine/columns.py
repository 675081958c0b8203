"""Columns: which values may stand in each of a query's, whatever the database has let in.

SQLite takes any value in any column, and a fault of the disk asks nobody.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Boolean, Column, ColumnElement, Float, Integer

from toolwright.adapters.store.engine.codecs import Row, UnreadableColumn
from toolwright.adapters.store.engine.metadata import WORDS

TRUTHS = frozenset({0, 1})  # SQLite has no others


class Columns:
    """Judges rows by the types of their columns, by whether these may be empty, and by the words they may hold."""

    def __init__(self, columns: Sequence[ColumnElement[Any]]) -> None:  # of any types
        self._columns = tuple(columns)
        self._words = [(n, column, _words(column)) for n, column in enumerate(columns) if _words(column)]
        self._good: set[tuple[type, ...]] = set()  # the types of rows that were judged already: there are few

    def check(self, row: Row) -> Row:
        """The row; raises `UnreadableColumn` for a value that cannot stand in its column."""
        types = tuple(map(type, row))
        if types not in self._good:
            for n, (column, kind) in enumerate(zip(self._columns, types, strict=False)):
                if kind not in _types(column):
                    raise UnreadableColumn(n, _fault(column, kind))
            self._good.add(types)
        for n, column, words in self._words:
            if row[n] is not None and row[n] not in words:
                raise UnreadableColumn(n, _no_word(column, words))
        return row


def blank(column: Column[Any]) -> str | int | None:  # of any type
    """What may stand in the place of a value that cannot."""
    if column.nullable:
        return None
    return 0 if isinstance(column.type, Integer | Float | Boolean) else ""


def _types(column: ColumnElement[Any]) -> tuple[type, ...]:
    empty = (type(None),) if not isinstance(column, Column) or column.nullable else ()
    match column.type:
        case Boolean():
            return (bool, int, *empty)
        case Float():
            return (float, int, *empty)
        case Integer():
            return (int, *empty)
        case _:
            return (str, *empty)


def _fault(column: ColumnElement[Any], kind: type) -> str:
    if kind is type(None):
        return "is missing"
    match column.type:
        case Boolean():
            return "is neither true nor false"
        case Float():
            return "is not a number"
        case Integer():
            return "is not a whole number"
        case _:
            return "is not text in UTF-8" if kind is bytes else "is not text"


def _words(column: ColumnElement[Any]) -> frozenset[object]:
    """All values that the column may hold, none if they are not to be counted."""
    if isinstance(column.type, Boolean):
        return TRUTHS
    return column.info.get(WORDS, frozenset()) if isinstance(column, Column) else frozenset()


def _no_word(column: ColumnElement[Any], words: frozenset[object]) -> str:
    if words is TRUTHS:
        return "is neither true nor false"
    return f"is none of {', '.join(sorted(map(str, words)))}"
