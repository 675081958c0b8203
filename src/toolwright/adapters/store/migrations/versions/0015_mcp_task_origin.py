"""A task of an MCP server keeps what its result must fit, where its server is, and where its questions are shown."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("output", "place", "space_id"):
        op.add_column("mcp_tasks", sa.Column(column, sa.Text))
