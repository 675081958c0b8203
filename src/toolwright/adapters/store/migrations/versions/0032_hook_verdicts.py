"""Verdicts of hooks. Calls keep the arguments that they had before a hook or an approver replaced them."""

import sqlalchemy as sa
from alembic import op

from toolwright.adapters.store.engine.columns import Instant

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "hook_verdicts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("hook", sa.Text, nullable=False),
        sa.Column("point", sa.Text, nullable=False),
        sa.Column("ruling", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("call_id", sa.Text),
        sa.Column("details", sa.Text),
        sa.Column("created_at", Instant(), nullable=False),
    )
    op.create_index("hook_verdicts_by_thread", "hook_verdicts", ["thread_id"])
    op.create_index("hook_verdicts_by_run", "hook_verdicts", ["run_id", "created_at"])
    op.add_column("calls", sa.Column("requested", sa.Text))
