"""Spaces and what agents keep: members, messages, reactions, events; configured agents, goals, memories, plans."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _grow()
    _spaces()
    _agents()


def _grow() -> None:
    """Tables that are there get columns. SQLite makes them again, so that they read as if they were born so."""
    recreate = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table("threads", recreate=recreate) as threads:
        threads.add_column(sa.Column("begun", sa.Boolean(), nullable=False, server_default=sa.false()))
        threads.add_column(sa.Column("next_run_id", sa.Text(), nullable=True))
        threads.add_column(sa.Column("space_id", sa.Text(), nullable=True))
    with op.batch_alter_table("calls", recreate=recreate) as calls:
        calls.add_column(sa.Column("visible", sa.Boolean(), nullable=False, server_default=sa.false()))
        calls.add_column(sa.Column("space_id", sa.Text(), nullable=True))
        calls.add_column(sa.Column("repeatable", sa.Boolean(), nullable=False, server_default=sa.false()))
        calls.add_column(sa.Column("worker", sa.Text(), nullable=True))
        calls.add_column(sa.Column("leased_until", sa.BigInteger(), nullable=True))
        calls.add_column(sa.Column("agent", sa.Text(), nullable=True))
    with op.batch_alter_table("inbox", recreate=recreate) as inbox:
        inbox.add_column(sa.Column("author", sa.Text(), nullable=True))
        inbox.add_column(sa.Column("promised", sa.Text(), nullable=True))
        inbox.add_column(sa.Column("depth", sa.Integer(), nullable=False, server_default=sa.text("0")))
    with op.batch_alter_table("runs", recreate=recreate) as runs:
        runs.add_column(sa.Column("revision", sa.BigInteger(), nullable=True))
    op.execute("UPDATE calls SET agent = (SELECT agent FROM runs WHERE runs.id = calls.run_id)")
    op.create_index("calls_by_space", "calls", ["space_id", "created_at"])
    op.execute(
        "UPDATE threads SET begun = true WHERE run_id IN (SELECT id FROM runs WHERE started_at IS NOT NULL)"
    )


def _spaces() -> None:
    op.create_table(
        "spaces",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("spaces_by_time", "spaces", ["created_at"])
    op.create_table(
        "members",
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("read_seq", sa.BigInteger(), nullable=False),
        sa.Column("joined_at", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "entity_id"),
    )
    op.create_index("members_by_entity", "members", ["entity_id"])
    op.create_table(
        "space_messages",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("entity_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("edited_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("space_id", "seq", name="space_messages_in_order"),
    )
    op.create_table(
        "reactions",
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.Text(), nullable=False),
        sa.Column("emoji", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "entity_id", "emoji"),
    )
    op.create_table(
        "space_events",
        sa.Column("n", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("n"),
    )
    op.create_index("space_events_by_space", "space_events", ["space_id", "n"])
    op.create_index("space_events_by_time", "space_events", ["at"])
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.execute("INSERT INTO counters (name, value) VALUES ('space_events', 0)")


def _agents() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", name="agents_by_name"),
    )
    op.create_index("agents_by_time", "agents", ["created_at"])
    op.create_table(
        "agent_revisions",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "revision"),
    )
    op.create_table(
        "goals",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("priority", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "id"),
    )
    op.create_table(
        "memories",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "key"),
    )
    op.create_table(
        "plans",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("instruction", sa.Text(), nullable=False),
        sa.Column("next_run_at", sa.BigInteger(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "id"),
    )
    op.create_table(
        "clients",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("clients_by_entity", "clients", ["entity_id", "created_at"])
