"""Messages that the owner of a thread has hidden from its models."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("threads", sa.Column("hides", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.add_column("messages", sa.Column("hidden_by", sa.Text(), nullable=True))
