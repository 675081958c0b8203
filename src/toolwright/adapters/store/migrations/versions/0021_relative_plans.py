"""A plan says whether it was set by `runAfter`: it comes no later where the clock was set back."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plans", sa.Column("relative", sa.Boolean, nullable=False, server_default=sa.false()))
