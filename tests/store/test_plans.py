"""Query plans of reads: the rows of a list or a sweep are found by an index, for any size of the journal."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.databases import create_file
from tests.play import AT
from tests.postgres_server import fresh_database

from toolwright.adapters.store.engine.program import Statement
from toolwright.adapters.store.postgres.connection import Connection, connect
from toolwright.adapters.store.sql.readers import Queries
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.journal.reads import BY_TIME
from toolwright.core.journal.rows import Among, UpTo, Where
from toolwright.core.journal.store import NEWEST_FIRST
from toolwright.core.spaces import Member, Space
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Wake
from toolwright.core.value import Record

QUERIES, STATEMENTS = Queries("sqlite"), Statements("sqlite")


def page(kind: type[Record], where: Where, order: tuple[str, ...] = NEWEST_FIRST) -> Statement:
    """The statement of a page of rows."""
    return STATEMENTS.rows.select(kind, where, order, limit=1)[0]


OF_ENTITY = Among(kind=Member, column="space_id", where={"entity_id": "e"})
IN_ORDER = {"SCAN runs USING INDEX runs_by_time", "SCAN calls USING INDEX calls_by_time"}
"""The plan of a page that could contain nearly all rows of the table: in the order of time until it is full."""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    create_file(tmp_path / "journal.db")
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        yield connection


def plan(file: sqlite3.Connection, statement: Statement) -> list[str]:
    values = [statement.constants.get(name, 1) for name in statement.order]
    return [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {statement.sql}", values)]


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (page(Run, {"status": "failed"}), "runs_by_status (status=?)"),
        (page(Run, {"status": "failed", "agent": "a"}), "runs_by_status (status=?)"),
        (page(Run, {"thread_id": "t", "status": "failed"}), "runs_by_thread (thread_id=?)"),
        (QUERIES.depths, "calls_by_status (status=?)"),
        (QUERIES.depths, "runs_by_status (status=?)"),
        (QUERIES.calls((), 1, None, True), "calls_by_status (status=?)"),
        (QUERIES.calls((), 2, None, True), "calls_by_status (status=?)"),
        (QUERIES.calls((), 2, 1, True), "calls_by_status (status=?)"),
        (QUERIES.calls(("agent",), 2, None, True), "calls_by_status (status=?)"),
        (QUERIES.calls(("run_id",), 2, None, True), "calls_by_run (run_id=?)"),
        (QUERIES.calls(("run_id",), 9, None, False), "calls_by_run (run_id=?)"),
        (QUERIES.calls(("space_id",), 2, None, True), "calls_by_space (space_id=?)"),
        (QUERIES.calls(("space_id",), 1, 1, False), "calls_by_space (space_id=?)"),
        (STATEMENTS.agents.orphans, "calls_by_status (status=?)"),
        (STATEMENTS.agents.pending_calls, "calls_by_status (status=?)"),
        (page(Message, {"run_id": "r"}, ("seq",)), "messages_by_run (run_id=?)"),
        (QUERIES.events["run"], "events_by_run (run_id=? AND n>? AND n<?)"),
        (QUERIES.bounds["run"], "events_by_run (run_id=? AND n<?)"),
        (page(Message, {"within": "c"}, ("seq",)), "messages_within (within=?)"),
        (page(Call, {"parent_id": "c"}, ("step", "position")), "calls_by_parent (parent_id=?)"),
        (page(Wake, {"due": UpTo(value=AT), "node": None}, ("due", "thread_id")), "wakes_by_due (due<?)"),
        (page(Space, {"id": OF_ENTITY}, BY_TIME), "members_by_entity (entity_id=?)"),
        (STATEMENTS.prune_events, "events_by_time (at<?)"),
        (STATEMENTS.prune_space_events, "space_events_by_time (at<?)"),
    ],
)
def test_what_is_looked_for_is_found_by_an_index(
    file: sqlite3.Connection, statement: Statement, index: str
) -> None:
    lines = plan(file, statement)
    assert any(line.endswith(f"INDEX {index}") for line in lines), lines
    assert not [line for line in lines if line.startswith("SCAN") and line.split()[1] in ("runs", "calls")]


@pytest.mark.parametrize(
    "statement",
    [page(Run, {}), page(Run, {"status": "completed"}), QUERIES.calls((), 1, None, False)],
    ids=["all runs", "completed runs", "calls that are done"],
)
def test_a_page_of_what_most_rows_are_is_read_in_the_order_of_an_index(
    file: sqlite3.Connection, statement: Statement
) -> None:
    assert IN_ORDER.issuperset(line for line in plan(file, statement) if line.startswith("SCAN"))
    assert len(IN_ORDER.intersection(plan(file, statement))) == 1


RETENTION = Statements("postgresql").retention
ROWS, LIMIT = 2_000, 200


@pytest.mark.anyio
async def test_a_piece_is_found_once_although_statistics_take_the_tables_for_empty() -> None:
    """As after a vacuum that found only deleted rows: until the next one the planner expects no row in the table."""
    async with fresh_database() as url:
        connection = await connect(url)
        try:
            for table in ("calls", "runs"):
                await connection.execute(await filling(connection, table))
                await connection.execute(f"DELETE FROM {table}")
                await connection.execute(f"VACUUM (TRUNCATE off, ANALYZE) {table}")
                await connection.execute(await filling(connection, table))
            sweep = next(each for each in RETENTION.sweeps if each.sql.startswith("DELETE FROM calls"))
            explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {sweep.sql}"
            found = await connection.fetchval(explained, *sweep.bind({"thread_id": "x", "limit": LIMIT}))
            [whole] = json.loads(found)
            assert rows_of(whole["Plan"]) <= 10 * ROWS
        finally:
            await connection.close()


async def filling(connection: Connection, table: str) -> str:
    """A statement that writes `ROWS` rows with a value for each required column."""
    columns = await connection.fetch(
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
        " WHERE table_name = $1 ORDER BY ordinal_position",
        table,
    )
    own = {"id": "'x' || n", "run_id": "'x1'"}
    by_kind = {"bigint": "n", "integer": "n", "smallint": "n", "boolean": "false"}
    values = [
        own.get(name) or ("NULL" if nullable == "YES" else by_kind.get(kind, "'x'"))
        for name, kind, nullable in columns
    ]
    return f"INSERT INTO {table} SELECT {', '.join(values)} FROM generate_series(1, {ROWS}) n"


def rows_of(node: dict[str, Any]) -> float:
    """The rows that the node of a plan and those below it have read."""
    removed = node.get("Rows Removed by Join Filter", 0) + node.get("Rows Removed by Filter", 0)
    rows = node["Actual Rows"] * node["Actual Loops"] + removed * node["Actual Loops"]
    return rows + sum(rows_of(each) for each in node.get("Plans", []))
