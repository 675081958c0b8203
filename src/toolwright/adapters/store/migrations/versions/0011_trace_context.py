"""A run keeps the W3C trace context that it belongs to; what nobody has read in all inboxes is counted."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("traceparent", sa.Text))
    unread = sa.text("status = 'pending'")
    op.create_index("inbox_unread", "inbox", ["thread_id"], sqlite_where=unread, postgresql_where=unread)
