"""Columns of the journal that hold words, numbers or times, and what cannot stand in them."""

from typing import Any

from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, Table, Text

from toolwright.adapters.store.engine.columns import ALLOWED


def plain_columns(table: Table) -> list[Column[Any]]:  # of any type
    """Those of the table that hold no free text."""
    return [each for each in table.columns if ALLOWED in each.info or not isinstance(each.type, Text)]


def junk_of(column: Column[Any]) -> list[str]:  # of any type
    """What cannot stand in the column, in SQL."""
    if str(column) in ("unnumbered_events.place", "passages.place", "passage_keepers.number"):
        return []  # SQLite's own number of the row
    junk = ["'weird'"] if isinstance(column.type, LargeBinary) else ["'weird'", "X'ff00'"]
    match column.type:
        case Boolean():
            junk += ["7", "0.5"]
        case Float():
            pass  # a model may ask any price, also an endless one
        case Integer():
            junk += ["1.5", *([str(2**62)] if is_time(column) else [])]
        case _:
            pass
    return junk


def is_time(column: Column[Any]) -> bool:  # as above
    """Whether the column holds instants: microseconds since 1970."""
    name = column.name
    return name.endswith(("_at", "_until")) or name in {"at", "due", "deadline", "not_before"}
