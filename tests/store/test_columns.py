"""Every column of the journal with plain words, numbers or timestamps: invalid values are found."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, create_engine
from tests.api.columns import is_time, junk_of, plain_columns

from toolwright.adapters.store.engine.columns import ALLOWED
from toolwright.adapters.store.opening import inspect_sqlite
from toolwright.adapters.store.sql.readers import all_tables

NO_VALUE = {"agents", "commits", "unnumbered_events", "passage_keepers", "sign_outs", "duties"}
"""Tables whose rows are not converted to values: a number too large for a timestamp is not noticed there."""


def _fitting(column: Column[Any]) -> object:  # a value of any type
    if ALLOWED in column.info:
        return min(column.info[ALLOWED])
    match column.type:
        case Boolean() | Integer():
            return 1
        case Float():
            return 0.5
        case LargeBinary():
            return b"\xff"
        case _:
            return "{}"


@pytest.mark.slow
@pytest.mark.parametrize("name", all_tables().tables)
def test_junk_in_a_column_is_found_whatever_it_is(tmp_path: Path, name: str) -> None:
    path, table = tmp_path / "journal.db", all_tables().tables[name]
    engine = create_engine(f"sqlite:///{path}")
    all_tables().create_all(engine)
    engine.dispose()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        marks = ", ".join("?" for _ in table.columns)
        connection.execute(
            f"INSERT INTO {name} VALUES ({marks})", [_fitting(column) for column in table.columns]
        )
        for column in plain_columns(table):
            for junk in junk_of(column):
                if junk == str(2**62) and name in NO_VALUE:
                    continue
                connection.execute(f"UPDATE {name} SET {column.name} = {junk}")
                found = {(row.table, row.column) for row in inspect_sqlite(path)}
                too_late = junk == str(2**62) and is_time(column)
                assert (name, column.name) in found or (too_late and found), (name, column.name, junk)
            connection.execute(f"UPDATE {name} SET {column.name} = ?", (_fitting(column),))
