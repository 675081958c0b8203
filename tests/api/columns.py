"""Columns of the journal that hold plain words, numbers or timestamps, and values that are invalid in them."""

from typing import Any

from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, Table, Text

from toolwright.adapters.store.engine.columns import ALLOWED


def plain_columns(table: Table) -> list[Column[Any]]:  # columns of any type
    """Return the columns of the table that hold no free text."""
    return [each for each in table.columns if ALLOWED in each.info or not isinstance(each.type, Text)]


def junk_of(column: Column[Any]) -> list[str]:  # a column of any type
    """Return values that are invalid in the column, as SQL literals."""
    if str(column) in ("unnumbered_events.place", "passages.place", "passage_keepers.number"):
        return []  # SQLite's own row number
    junk = ["'weird'"] if isinstance(column.type, LargeBinary) else ["'weird'", "X'ff00'"]
    match column.type:
        case Boolean():
            junk += ["7", "0.5"]
        case Float():
            pass  # a model can report any cost, including infinity
        case Integer():
            junk += ["1.5", *([str(2**62)] if is_time(column) else [])]
        case _:
            pass
    return junk


def is_time(column: Column[Any]) -> bool:  # a column of any type
    """Return whether the column holds timestamps: microseconds since 1970."""
    name = column.name
    return name.endswith(("_at", "_until")) or name in {"at", "due", "deadline", "not_before"}
