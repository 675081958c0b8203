"""SQL of MCP: tool definitions by agent."""

from collections.abc import Sequence

from sqlalchemy import Column, PrimaryKeyConstraint, Table, Text, delete, null, or_, update
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Row, a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.statement import (
    Compiler,
    DialectName,
    number,
    row_params,
    statements,
    string,
)
from toolwright.core.broken_rows import Rows
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.mcp.records import McpDefinition

mcp_definitions = Table(
    "mcp_definitions",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("server", Json(a_text), nullable=False),
    Column("tool", Json(a_text), nullable=False),
    Column("digest", Text, nullable=False),
    Column("held", Text),
    Column("definition", Json(an_object, dumps_unescaped)),
    Column("updated_at", Instant(), nullable=False),
    PrimaryKeyConstraint("agent_id", "server", "tool"),
)


MCP_DEFINITIONS = Mapping(mcp_definitions, McpDefinition, "tool")


class McpStatements:
    """Statements about definitions, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._definition_statements(Compiler(name))

    def _definition_statements(self, compiled: Compiler) -> None:
        """Compile the statements. All return rows, so that they are executed in order."""
        row = mcp_definitions.c
        once = self._insert(mcp_definitions).values(row_params(mcp_definitions)).on_conflict_do_nothing()
        self.pin = compiled(once.returning(row.tool))
        mine = row.agent_id == string("agent_id")
        this = (mine, row.server == string("server"), row.tool == string("tool"))
        changed = update(mcp_definitions).where(*this).returning(row.tool)
        offered, at = string("offered"), number("at")
        new = (row.digest != offered, or_(row.held.is_(None), row.held != offered))
        waits = {"held": offered, "definition": string("said"), "updated_at": at}
        self.hold = compiled(changed.where(*new).values(waits))
        none_waits = {"held": null(), "definition": null(), "updated_at": at}
        self.accept = compiled(changed.where(row.held == offered).values(digest=offered, **none_waits))
        self.unhold = compiled(changed.where(row.held.is_not(None)).values(none_waits))
        self.drop_definitions = compiled(delete(mcp_definitions).where(mine))


class McpQueries:
    """Queries about definitions; each attribute is a query."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        mine = mcp_definitions.c.agent_id == string("agent_id")
        self.definitions = compiled(MCP_DEFINITIONS.query.where(mine))


class SqlMcp:
    """The `McpReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(McpQueries, driver.dialect)

    async def definitions(self, agent_id: str) -> Sequence[McpDefinition]:
        return await read_rows(self._driver, _in_order, self._sql.definitions, {"agent_id": agent_id})


def _in_order(rows: Sequence[Row]) -> Rows[McpDefinition]:
    """Sort definitions by server and tool. Names are stored as JSON, which the databases would sort differently."""
    definitions = MCP_DEFINITIONS.each(rows)
    definitions.sort(key=lambda each: (each.server, each.tool))
    return definitions
