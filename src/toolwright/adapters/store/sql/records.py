"""SQL of records: their tables, and the statements and reads derived from them.

A new kind of record is a table and a mapping here, in `RECORDS`. The names in its class (`core.value.Stored`) are
columns of the table.
"""

from typing import Any, TypeVar

import sqlalchemy as sa

from toolwright.adapters.store.engine.codecs import a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.env.env import SigningKey
from toolwright.core.hooks import HookVerdict
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.mcp.servers import McpTask
from toolwright.core.spaces import FrontEnd
from toolwright.core.value import Record

R = TypeVar("R", bound=Record)

goals = sa.Table(
    "goals",
    metadata,
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("description", Json(a_text), nullable=False),
    sa.Column("status", Json(a_text), nullable=False),
    sa.Column("priority", Json(a_text), nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.PrimaryKeyConstraint("agent_id", "id"),
)

memories = sa.Table(
    "memories",
    metadata,
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("value", Json(a_text), nullable=False),
    sa.Column("updated_at", Instant(), nullable=False),
    sa.PrimaryKeyConstraint("agent_id", "key"),
)

plans = sa.Table(
    "plans",
    metadata,
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("name", Json(a_text), nullable=False),
    sa.Column("instruction", Json(a_text), nullable=False),
    sa.Column("next_run_at", Instant(), nullable=False),
    sa.Column("cron", Json(a_text)),
    sa.Column("timezone", Json(a_text)),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("thread_id", sa.Text),
    sa.Column("run_id", sa.Text),
    sa.PrimaryKeyConstraint("agent_id", "id"),
)

clients = sa.Table(
    "clients",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("entity_id", sa.Text, nullable=False),
    sa.Column("name", Json(a_text)),
    sa.Column("metadata", Json(an_object), nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Index("clients_by_entity", "entity_id", "created_at"),
)

mcp_tasks = sa.Table(
    "mcp_tasks",
    metadata,
    sa.Column("call_id", sa.Text, primary_key=True),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("agent_id", sa.Text, nullable=False),
    sa.Column("server", Json(a_text), nullable=False),
    sa.Column("task_id", Json(a_text), nullable=False),
    sa.Column("questions", Json(an_object, dumps_unescaped), nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("output", Json(an_object, dumps_unescaped)),
    sa.Column("place", sa.Text),
    sa.Column("space_id", sa.Text),
    sa.Column("session", sa.Text),
    sa.Index("mcp_tasks_by_thread", "thread_id"),
)

hook_verdicts = sa.Table(
    "hook_verdicts",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("hook", Json(a_text), nullable=False),
    sa.Column("point", sa.Text, nullable=False),
    sa.Column("ruling", sa.Text, nullable=False),
    sa.Column("reason", Json(a_text)),
    sa.Column("call_id", sa.Text),
    sa.Column("details", Json(an_object, dumps_unescaped)),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Index("hook_verdicts_by_thread", "thread_id"),
    sa.Index("hook_verdicts_by_run", "run_id", "created_at"),
)

signing_keys = sa.Table(
    "signing_keys",
    metadata,
    sa.Column("entity_id", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.PrimaryKeyConstraint("entity_id", "name"),
)

GOALS = Mapping(goals, Goal)
MEMORIES = Mapping(memories, Memory)
PLANS = Mapping(plans, Plan)
FRONT_ENDS = Mapping(clients, FrontEnd)
MCP_TASKS = Mapping(mcp_tasks, McpTask)
HOOK_VERDICTS = Mapping(hook_verdicts, HookVerdict)
SIGNING_KEYS = Mapping(signing_keys, SigningKey)

RECORDS: dict[type[Record], Mapping[Any]] = {  # of each class
    each.kind: each for each in (GOALS, MEMORIES, PLANS, FRONT_ENDS, MCP_TASKS, HOOK_VERDICTS, SIGNING_KEYS)
}
