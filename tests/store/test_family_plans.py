"""The time to end a child depends on the size of its thread tree, not on the size of the journal."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.databases import create_file

from toolwright.adapters.store.sql.statements import Statements


def test_what_stops_a_family_goes_through_no_table_and_not_through_all_pending_calls(tmp_path: Path) -> None:
    create_file(tmp_path / "journal.db")
    children = Statements("sqlite").children
    ends = [*children.stop, *children.stop_below, children.below, children.cancel_calls, children.end_unheard]
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        for end in ends:
            values = [end.constants.get(name, "x") for name in end.order]
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {end.sql}", values)]
            assert not [line for line in plan if "calls_by_status" in line]
            assert not [line for line in plan if line.startswith("SCAN") and line != "SCAN family"]
