"""The time to end a child depends on the size of its thread tree, not on the size of the journal."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.databases import create_file
from tests.play import AT

from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.journal.rows import Find, Move, Not, Once, OneOf
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread


def test_what_stops_a_family_goes_through_no_table_and_not_through_all_pending_calls(tmp_path: Path) -> None:
    create_file(tmp_path / "journal.db")
    sql = Statements("sqlite")
    children, some = sql.children, OneOf(values=["x"])
    at_work = {"id": some, "run_id": Not(value=None)}
    moves = [
        Find(kind=Thread, where=at_work, columns=("id", "run_id")),
        Move(kind=Run, where={"id": some}, fields={"cancel_requested_at": Once(value=AT)}),
        Move(kind=Call, where={"id": some, "status": "pending"}, fields={"status": "cancelled"}),
    ]
    ends = [children.below, children.pending_in, children.pending_in_family]
    ends += [sql.rows.op(each).statement for each in moves]
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        for end in ends:
            values = [end.constants.get(name, "x") for name in end.order]
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {end.sql}", values)]
            assert not [line for line in plan if "calls_by_status" in line]
            assert not [line for line in plan if line.startswith("SCAN") and line != "SCAN family"]
