"""Reads of tasks of MCP servers and definitions of their tools on SQL: the queries of one dialect, and the port."""

from collections.abc import Sequence

from toolwright.adapters.store.engine.codecs import Row
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.statement import Compiler, DialectName, statements, string
from toolwright.adapters.store.tables.mcp import MCP_DEFINITIONS, MCP_TASKS, mcp_definitions, mcp_tasks
from toolwright.core.broken_rows import Rows
from toolwright.core.mcp.records import McpDefinition, McpTask


class McpQueries:
    """The queries about tasks and definitions; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        self.task = compiled(MCP_TASKS.query.where(mcp_tasks.c.call_id == string("call_id")))
        of_thread = MCP_TASKS.query.where(mcp_tasks.c.thread_id == string("thread_id"))
        self.tasks = compiled(of_thread.order_by(mcp_tasks.c.created_at, mcp_tasks.c.call_id))
        mine = mcp_definitions.c.agent_id == string("agent_id")
        self.definitions = compiled(MCP_DEFINITIONS.query.where(mine))


class SqlMcp:
    """The `McpReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(McpQueries, driver.dialect)

    async def task(self, call_id: str) -> McpTask | None:
        return await read_rows(self._driver, MCP_TASKS.first, self._sql.task, {"call_id": call_id})

    async def tasks(self, thread_id: str) -> Sequence[McpTask]:
        return await read_rows(self._driver, MCP_TASKS.each, self._sql.tasks, {"thread_id": thread_id})

    async def definitions(self, agent_id: str) -> Sequence[McpDefinition]:
        return await read_rows(self._driver, _in_order, self._sql.definitions, {"agent_id": agent_id})


def _in_order(rows: Sequence[Row]) -> Rows[McpDefinition]:
    """Definitions by server and tool: their names lie as JSON, and databases would sort them each in its way."""
    definitions = MCP_DEFINITIONS.each(rows)
    definitions.sort(key=lambda each: (each.server, each.tool))
    return definitions
