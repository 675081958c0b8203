"""Tables of what is left of deleted threads, spaces and agents, and of the bytes that threads keep.

`dropped_threads` names what was deleted: a thread by its id, a space or an agent by its note.

`kept_bytes` has every digest that a file of a thread ever had, for messages refer to bytes although another file lies
at the path by now. Triggers on `files` write it, so that no writer of a file can forget to.
"""

from sqlalchemy import DDL, Column, Index, PrimaryKeyConstraint, Table, Text, event

from toolwright.adapters.store.engine.columns import Instant, metadata
from toolwright.adapters.store.tables.kept import files

SPACE, AGENT = "space:", "agent:"


def space_note(space_id: str) -> str:
    """Return the name under which a deleted space is noted."""
    return SPACE + space_id


def agent_note(agent_id: str) -> str:
    """Return the name under which a deleted agent is noted."""
    return AGENT + agent_id


dropped_threads = Table(
    "dropped_threads",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("at", Instant(), nullable=False),
)

kept_bytes = Table(
    "kept_bytes",
    metadata,
    Column("digest", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    PrimaryKeyConstraint("digest", "thread_id"),
    Index("kept_bytes_by_thread", "thread_id"),
)

dropped_bytes = Table(
    "dropped_bytes",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("at", Instant(), nullable=False),
)

_KEEP = "INSERT INTO kept_bytes VALUES (NEW.digest, NEW.thread_id) ON CONFLICT DO NOTHING"
for trigger in (
    f"CREATE TRIGGER files_written AFTER INSERT ON files BEGIN {_KEEP}; END",
    f"CREATE TRIGGER files_rewritten AFTER UPDATE OF digest ON files BEGIN {_KEEP}; END",
):
    event.listen(files, "after_create", DDL(trigger).execute_if(dialect="sqlite"))
"""On Postgres it is one trigger with a function, which the migration makes."""
