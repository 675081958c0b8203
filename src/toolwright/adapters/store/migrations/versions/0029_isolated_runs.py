"""Runs count the processes that have ended while they were the only suspect that was executed."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("isolated", sa.Integer, nullable=False, server_default=sa.text("0")))
