"""Threads that are found by a key of their owner."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("threads", sa.Column("key", sa.Text(), nullable=True))
    op.add_column("threads", sa.Column("owner_key", sa.Text(), nullable=True))
    where = sa.text("owner_key IS NOT NULL")
    op.create_index(
        "threads_by_key", "threads", ["owner_key"], unique=True, sqlite_where=where, postgresql_where=where
    )
