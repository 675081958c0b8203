"""Broken rows of tasks and definitions of MCP servers: the other rows stay readable."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.conformance.test_mcp import definition, task
from tests.conformance.test_spaces import act
from tests.databases import sqlite_journal
from tests.play import committed

from toolwright.adapters.store.opening import inspect_sqlite
from toolwright.core.broken_rows import broken_rows
from toolwright.core.errors import RowBroken
from toolwright.core.journal.effects import PinMcpTool, Put
from toolwright.core.mcp.servers import McpTask

pytestmark = pytest.mark.anyio


async def test_broken_rows_of_tasks_and_definitions_lie_beside_the_others(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = await sqlite_journal(path, lambda _: None)
    tools = [PinMcpTool(definition=definition(each)) for each in ("read", "write")]
    tasks = [Put(record=task(each)) for each in ("call_1", "call_2")]
    await committed(store, act(*tools, *tasks))
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("""UPDATE mcp_tasks SET questions = '[]' WHERE call_id = 'call_1'""")
        file.execute("""UPDATE mcp_definitions SET definition = 'no' WHERE tool = '"read"'""")
    found_tasks, found_tools = await store.records.list(McpTask, "th_1"), await store.mcp.definitions("agt_1")
    assert (list(found_tasks), list(found_tools)) == ([task("call_2")], [definition("write")])
    broken = [*broken_rows(found_tools), *broken_rows(found_tasks)]
    assert [(each.id, each.column) for each in broken] == [('"read"', "definition"), ("call_1", "questions")]
    with pytest.raises(RowBroken, match="'call_1' is broken: questions"):
        await store.records.one(McpTask, "call_1")
    assert sorted(inspect_sqlite(path), key=lambda each: each.table) == broken
    await store.close()
