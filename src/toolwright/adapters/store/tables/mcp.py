"""Tables of MCP: tasks of servers by the call that they are for, and definitions of tools by agent."""

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table, Text

from toolwright.adapters.store.engine.codecs import a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.mcp.records import McpDefinition, McpTask

mcp_tasks = Table(
    "mcp_tasks",
    metadata,
    Column("call_id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("server", Json(a_text), nullable=False),
    Column("task_id", Json(a_text), nullable=False),
    Column("questions", Json(an_object, dumps_unescaped), nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("output", Json(an_object, dumps_unescaped)),
    Column("place", Text),
    Column("space_id", Text),
    Column("session", Text),
    Index("mcp_tasks_by_thread", "thread_id"),
)

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


MCP_TASKS = Mapping(mcp_tasks, McpTask, "call_id")
MCP_DEFINITIONS = Mapping(mcp_definitions, McpDefinition, "tool")
