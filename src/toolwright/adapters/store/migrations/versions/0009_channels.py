"""A space says in which order a person's messages reach its agents; the answers to a message are found by it."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    delivery = sa.Column("delivery", sa.Text, nullable=False, server_default=sa.text("'all'"))
    op.add_column("spaces", delivery)
    op.create_index("space_messages_by_parent", "space_messages", ["parent_id"])
