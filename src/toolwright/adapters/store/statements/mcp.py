"""The statements that write tasks of MCP servers and definitions of their tools."""

from sqlalchemy import delete, null, or_, update
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.statement import Compiler, DialectName, number, row_params, string
from toolwright.adapters.store.tables.mcp import mcp_definitions, mcp_tasks


class McpStatements:
    """Statements about tasks and definitions, compiled for one dialect; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._task_statements(compiled := Compiler(name))
        self._definition_statements(compiled)

    def _task_statements(self, compiled: Compiler) -> None:
        put = self._insert(mcp_tasks).values(row_params(mcp_tasks))
        rest = {each.name: put.excluded[each.name] for each in mcp_tasks.columns if each.name != "call_id"}
        self.put_task = compiled(put.on_conflict_do_update(index_elements=["call_id"], set_=rest))
        self.drop_task = compiled(delete(mcp_tasks).where(mcp_tasks.c.call_id == string("call_id")))

    def _definition_statements(self, compiled: Compiler) -> None:
        """All return something, so that they are executed in their order."""
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
