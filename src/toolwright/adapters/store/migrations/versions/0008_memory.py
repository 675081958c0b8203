"""Agents have memory blocks, which others may read, and passages, which are searched by an index of trigrams."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SQLITE_INDEX = (
    "CREATE VIRTUAL TABLE passage_index USING fts5(coded, tokenize='trigram case_sensitive 1')",
    "CREATE TRIGGER passage_index_drop AFTER DELETE ON passages BEGIN"
    " DELETE FROM passage_index WHERE rowid = old.place; END",
)
POSTGRES_INDEX = """
DO $$ BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    CREATE INDEX passage_index ON passages USING gin (folded gin_trgm_ops);
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file OR undefined_object THEN
    RAISE NOTICE 'Passages are searched without an index: the extension pg_trgm cannot be had (%).', SQLERRM;
END $$
"""
"""Without it a search gives the same, and reads all passages of its agent: see docs/reference/memory.md."""


def upgrade() -> None:
    _create_blocks()
    _create_passages()
    if op.get_bind().dialect.name == "sqlite":
        for statement in SQLITE_INDEX:
            op.execute(statement)
    else:
        op.execute(POSTGRES_INDEX)


def _create_blocks() -> None:
    op.create_table(
        "blocks",
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "label"),
    )
    op.create_table(
        "block_links",
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("reader_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "label", "reader_id"),
    )
    op.create_index("block_links_by_reader", "block_links", ["reader_id"])


def _create_passages() -> None:
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "passage_keepers",
        sa.Column("number", number, primary_key=True),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("stored", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("agent_id", name="passage_keepers_by_agent"),
    )
    op.create_table(
        "passages",
        sa.Column("place", number, primary_key=True, autoincrement=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("folded", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("agent_id", "id", name="passages_by_id"),
    )
