"""A plan names the thread that it wakes, if that is not the home thread of its agent."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plans", sa.Column("thread_id", sa.Text))
