"""Runs have deps, the value that their caller passes to tools; a plan names the run in which it was set."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("deps", sa.Text))
    op.add_column("plans", sa.Column("run_id", sa.Text))
