"""Older versions can use a database while it says so; nodes show their clocks, their keys and their files."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("compatibility", sa.Column("least", sa.Text, primary_key=True))
    op.add_column("nodes", sa.Column("skew", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.add_column("nodes", sa.Column("keys", sa.Text, nullable=False, server_default=sa.text("''")))
    op.add_column("nodes", sa.Column("files", sa.Text, nullable=False, server_default=sa.text("''")))
