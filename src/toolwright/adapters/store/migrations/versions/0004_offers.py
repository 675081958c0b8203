"""Calls that outside workers may claim are found in the order in which they began, or became free again."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ON_OFFER = "kind = 'external' AND completed_at IS NULL"


def upgrade() -> None:
    offered, leased = sa.text(ON_OFFER), sa.text(f"{ON_OFFER} AND leased_until IS NOT NULL")
    op.create_index(
        "calls_on_offer", "calls", ["started_at", "id"], sqlite_where=offered, postgresql_where=offered
    )
    op.create_index("calls_leased", "calls", ["leased_until"], sqlite_where=leased, postgresql_where=leased)
