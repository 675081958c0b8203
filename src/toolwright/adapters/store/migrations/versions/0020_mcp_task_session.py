"""A task of an MCP server keeps the session in which its server has made it."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("mcp_tasks", sa.Column("session", sa.Text))
