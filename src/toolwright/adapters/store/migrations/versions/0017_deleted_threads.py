"""Threads can be deleted: what is left of them, and which bytes the files of a thread have had."""

import json
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

PAGE = 1000


def upgrade() -> None:
    op.create_table(
        "dropped_threads",
        sa.Column("thread_id", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "dropped_bytes",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "kept_bytes",
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("digest", "thread_id"),
    )
    op.create_index("kept_bytes_by_thread", "kept_bytes", ["thread_id"])
    op.execute("INSERT INTO kept_bytes SELECT DISTINCT digest, thread_id FROM files")
    _keep_those_of_messages()
    if op.get_bind().dialect.name == "sqlite":
        _triggers_on_sqlite()
    else:
        _triggers_on_postgres()


def _keep_those_of_messages() -> None:
    """Messages refer to bytes that no file has any more, where another was written to its path."""
    rows = [{"digest": digest, "thread_id": thread_id} for thread_id, digest in set(_of_messages())]
    insert = sa.text("INSERT INTO kept_bytes VALUES (:digest, :thread_id) ON CONFLICT DO NOTHING")
    for first in range(0, len(rows), PAGE):
        op.get_bind().execute(insert, rows[first : first + PAGE])


def _of_messages() -> Iterator[tuple[str, str]]:
    # by pages and not by a cursor: Postgres alters no table in a transaction in which a cursor reads it
    query = sa.text(
        "SELECT thread_id, seq, body FROM messages WHERE body LIKE '%\"attachments\"%' "
        "AND (thread_id > :thread_id OR (thread_id = :thread_id AND seq > :seq)) "
        "ORDER BY thread_id, seq LIMIT :most"
    )
    place: dict[str, object] | None = {"thread_id": "", "seq": 0}
    while place is not None:
        found = op.get_bind().execute(query, {**place, "most": PAGE}).all()
        place = {"thread_id": found[-1][0], "seq": found[-1][1]} if len(found) == PAGE else None
        for thread_id, _, body in found:
            try:
                attachments = json.loads(body).get("attachments", ())
                digests = [each[8] for each in attachments]
            except (ValueError, TypeError, LookupError, AttributeError):
                continue  # a broken row is shown where it is read, and refers to nothing
            yield from ((thread_id, digest) for digest in digests if isinstance(digest, str))


def _triggers_on_sqlite() -> None:
    op.execute(
        "CREATE TRIGGER files_written AFTER INSERT ON files BEGIN "
        "INSERT INTO kept_bytes VALUES (NEW.digest, NEW.thread_id) ON CONFLICT DO NOTHING; END"
    )
    op.execute(
        "CREATE TRIGGER files_rewritten AFTER UPDATE OF digest ON files BEGIN "
        "INSERT INTO kept_bytes VALUES (NEW.digest, NEW.thread_id) ON CONFLICT DO NOTHING; END"
    )


def _triggers_on_postgres() -> None:
    op.execute(
        "CREATE FUNCTION keep_bytes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO kept_bytes VALUES (NEW.digest, NEW.thread_id) ON CONFLICT DO NOTHING; RETURN NULL; END $$"
    )
    op.execute(
        "CREATE TRIGGER files_written AFTER INSERT OR UPDATE OF digest ON files "
        "FOR EACH ROW EXECUTE FUNCTION keep_bytes()"
    )
