"""Tables of configured agents, and of what agents keep in mind."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from toolwright.adapters.store.engine.codecs import a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.agents.mind import Goal, Memory, Plan

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("updated_at", Instant(), nullable=False),
    UniqueConstraint("name", name="agents_by_name"),
    Index("agents_by_time", "created_at"),
)

agent_revisions = Table(
    "agent_revisions",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Json(a_text), nullable=False),
    Column("config", Json(an_object), nullable=False),
    Column("created_at", Instant(), nullable=False),
    PrimaryKeyConstraint("agent_id", "revision"),
)

goals = Table(
    "goals",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("description", Json(a_text), nullable=False),
    Column("status", Json(a_text), nullable=False),
    Column("priority", Json(a_text), nullable=False),
    Column("created_at", Instant(), nullable=False),
    PrimaryKeyConstraint("agent_id", "id"),
)

memories = Table(
    "memories",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Json(a_text), nullable=False),
    Column("updated_at", Instant(), nullable=False),
    PrimaryKeyConstraint("agent_id", "key"),
)

plans = Table(
    "plans",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Json(a_text), nullable=False),
    Column("instruction", Json(a_text), nullable=False),
    Column("next_run_at", Instant(), nullable=False),
    Column("cron", Json(a_text)),
    Column("timezone", Json(a_text)),
    Column("created_at", Instant(), nullable=False),
    Column("thread_id", Text),
    Column("relative", Boolean, nullable=False, server_default=false()),
    PrimaryKeyConstraint("agent_id", "id"),
)


_of = agent_revisions.c
AGENTS = Mapping(
    agent_revisions,
    ConfiguredAgent,
    "agent_id",
    columns=(
        *(_of.agent_id, _of.name, _of.revision, _of.description, _of.config, _of.created_at),
        _of.created_at.label("updated_at"),
    ),
    names={"agent_id": "id"},
)
"""An agent as it is now lies in both tables: of the revision are name, description, configuration, time of update."""

GOALS = Mapping(goals, Goal)
MEMORIES = Mapping(memories, Memory, "key")
PLANS = Mapping(plans, Plan)
