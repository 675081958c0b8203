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
from toolwright.core.errors import RowBroken
from toolwright.core.journal.agent_effects import PinMcpTool
from toolwright.core.journal.rows import Put
from toolwright.core.mcp.servers import McpTask

pytestmark = pytest.mark.anyio


async def test_a_broken_task_is_refused_and_a_broken_definition_does_not_hold_up_the_others(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    store = await sqlite_journal(path, lambda _: None)
    tools = [PinMcpTool(definition=definition(each)) for each in ("read", "write")]
    tasks = [Put(record=task(each)) for each in ("call_1", "call_2")]
    await committed(store, act(*tools, *tasks))
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("""UPDATE mcp_tasks SET questions = '[]' WHERE call_id = 'call_1'""")
        file.execute("""UPDATE mcp_definitions SET definition = 'no' WHERE tool = '"read"'""")
    assert await store.mcp.definitions("agt_1") == [definition("write")]
    assert await store.records.one(McpTask, "call_2") == task("call_2")
    for reading in (store.records.list(McpTask, "th_1"), store.records.one(McpTask, "call_1")):
        with pytest.raises(RowBroken, match="'call_1' is broken: questions"):
            await reading
    broken = sorted(inspect_sqlite(path), key=lambda each: each.table)
    assert [(each.table, each.column) for each in broken] == [
        ("mcp_definitions", "definition"),
        ("mcp_tasks", "questions"),
    ]
    await store.close()
