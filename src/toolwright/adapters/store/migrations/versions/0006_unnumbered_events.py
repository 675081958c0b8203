"""On Postgres the events of spaces get their numbers once their units are committed: until then they lie here."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "unnumbered_events",
        sa.Column("place", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("i", sa.Integer, nullable=False),
        sa.Column("space_id", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text),
        sa.Column("run_id", sa.Text),
        sa.Column("agent", sa.Text),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
