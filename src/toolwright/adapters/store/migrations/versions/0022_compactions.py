"""Long conversations: what is left out, summaries, pinned and edited messages, the texts that models were sent."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("threads", sa.Column("cut", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.add_column(
        "threads", sa.Column("compacted", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )
    op.add_column("messages", sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_index(
        "messages_pinned",
        "messages",
        ["thread_id"],
        sqlite_where=sa.text("pinned = 1"),
        postgresql_where=sa.text("pinned"),
    )
    op.create_table(
        "compactions",
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("within", sa.Text, nullable=False),
        sa.Column("side", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("cut", sa.BigInteger, nullable=False),
        sa.Column("cleared", sa.BigInteger, nullable=False),
        sa.Column("bare", sa.BigInteger, nullable=False),
        sa.Column("kept", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("summary", sa.Text),
        sa.Column("covers", sa.BigInteger, nullable=False),
        sa.Column("omitted", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("usage", sa.Text),
        sa.Column("cost", sa.Float),
        sa.Column("budget", sa.BigInteger),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("edited_by", sa.Text),
        sa.Column("run_id", sa.Text),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "number"),
    )
    op.create_table(
        "message_versions",
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "seq", "until"),
    )
    op.create_table(
        "sent_texts",
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "digest"),
    )
