"""Nodes of a cluster show where they are and what all should have alike; compactions name the model that refused."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nodes", sa.Column("address", sa.Text, nullable=False, server_default=sa.text("''")))
    op.add_column("nodes", sa.Column("alike", sa.Text, nullable=False, server_default=sa.text("''")))
    op.add_column("compactions", sa.Column("refused_by", sa.Text))
