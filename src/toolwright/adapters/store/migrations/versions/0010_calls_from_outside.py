"""A run may execute calls that are made from outside, and ask no model."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("calls_only", sa.Boolean, nullable=False, server_default=sa.false()))
