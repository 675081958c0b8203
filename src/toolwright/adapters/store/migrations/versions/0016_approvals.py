"""A call stores the status and the terms of its approval."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("approval", "terms"):
        op.add_column("calls", sa.Column(column, sa.Text))
