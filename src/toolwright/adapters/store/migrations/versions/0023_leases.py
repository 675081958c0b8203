"""Several processes execute runs at the same time: the nodes of a cluster, and which threads each has leased."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    free, leased = sa.text("node IS NULL"), sa.text("node IS NOT NULL")
    op.add_column("wakes", sa.Column("node", sa.Text))
    op.drop_index("wakes_by_due", "wakes")
    op.create_index("wakes_by_due", "wakes", ["due"], sqlite_where=free, postgresql_where=free)
    op.create_index("wakes_by_node", "wakes", ["node"], sqlite_where=leased, postgresql_where=leased)
    op.create_table(
        "nodes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("busy", sa.Integer, nullable=False),
        sa.Column("seen", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "duties",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
