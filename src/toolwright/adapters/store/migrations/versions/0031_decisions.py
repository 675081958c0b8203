"""Calls and runs store who has decided about them."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("calls", "runs"):
        op.add_column(table, sa.Column("decisions", sa.Text))
