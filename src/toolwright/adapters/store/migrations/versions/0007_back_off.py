"""A thread whose model fails is left alone until its next try."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    faults = sa.Column("faults", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    op.add_column("threads", faults)
    op.add_column("threads", sa.Column("not_before", sa.BigInteger))
