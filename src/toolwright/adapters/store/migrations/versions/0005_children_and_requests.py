"""Threads have children and sides, calls are made by calls, and values can be requested."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("active_agent", "activated", "link", "report", "state"):
        op.add_column("threads", sa.Column(name, sa.Text))
    op.create_index("threads_by_parent", "threads", ["parent_id", "created_at"])
    op.add_column("runs", sa.Column("queued", sa.Text))
    op.add_column("messages", sa.Column("within", sa.Text))
    _partial("messages_within", "messages", "within")
    op.add_column("calls", sa.Column("parent_id", sa.Text))
    _partial("calls_by_parent", "calls", "parent_id")
    op.create_table(
        "thread_values",
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "key"),
    )
    op.create_table(
        "requests",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("required", sa.Text, nullable=False),
        sa.Column("child", sa.Text),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("requests_by_thread", "requests", ["thread_id"])
    op.create_table(
        "asked",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", "request_id"),
    )
    op.create_index("asked_by_request", "asked", ["request_id"])


def _partial(index: str, table: str, column: str) -> None:
    set_ = sa.text(f"{column} IS NOT NULL")
    op.create_index(index, table, [column], sqlite_where=set_, postgresql_where=set_)
