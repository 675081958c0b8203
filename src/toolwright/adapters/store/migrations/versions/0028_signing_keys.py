"""A random key signs the tokens of a server without encryption keys."""

import sqlalchemy as sa
from alembic import op

from toolwright.adapters.store.engine.columns import Instant

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "signing_keys",
        sa.Column("entity_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("entity_id", "name"),
    )
