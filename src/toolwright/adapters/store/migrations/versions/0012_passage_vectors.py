"""A passage may have a vector, and says whose it is."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("passages", sa.Column("embedder", sa.Text))
    op.add_column("passages", sa.Column("floats", sa.LargeBinary))
