"""Indexes of statuses and spaces leave out the usual calls and runs, so that a step of a run writes fewer pages."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

INDEXES = (
    ("calls_by_status", "calls", ["status", "created_at"], "status NOT IN ('created', 'running', 'done')"),
    ("calls_by_space", "calls", ["space_id", "created_at"], "space_id IS NOT NULL"),
    ("runs_by_status", "runs", ["status", "created_at"], "status <> 'completed'"),
)


def upgrade() -> None:
    op.create_index("calls_by_time", "calls", ["created_at"])
    for name, table, columns, condition in INDEXES:
        op.drop_index(name, table)
        where = sa.text(condition)
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
