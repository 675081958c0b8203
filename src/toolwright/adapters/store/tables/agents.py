"""Tables of configured agents, and of what agents keep in mind."""

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from toolwright.adapters.store.engine.metadata import metadata

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("name", name="agents_by_name"),
    Index("agents_by_time", "created_at"),
)

agent_revisions = Table(
    "agent_revisions",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "revision"),
)

goals = Table(
    "goals",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("priority", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "id"),
)

memories = Table(
    "memories",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "key"),
)

plans = Table(
    "plans",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("instruction", Text, nullable=False),
    Column("next_run_at", BigInteger, nullable=False),
    Column("cron", Text),
    Column("timezone", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "id"),
)
