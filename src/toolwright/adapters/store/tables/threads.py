"""Tables of threads and of what is said and done in them: runs, their steps, messages."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
    text,
)

from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.threads.child import ChildEnd
from toolwright.core.threads.message import Role
from toolwright.core.threads.run import RunStatus, Side, StopReason

_NESTED = text("within IS NOT NULL")

threads = Table(
    "threads",
    metadata,
    Column("id", Text, primary_key=True),
    Column("agent", Text, nullable=False),
    Column("user_id", Text),
    Column("parent_id", Text),
    Column("name", Text),
    Column("tags", Text, nullable=False),
    Column("arguments", Text),
    Column("run_id", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("ev", BigInteger, nullable=False),
    Column("posted", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("begun", Boolean, nullable=False, server_default=false()),
    Column("next_run_id", Text),
    Column("space_id", Text),
    Column("active_agent", Text),
    Column("activated", Text),
    Column("link", Text),
    Column("report", Text),
    Column("state", Text, info=one_of(ChildEnd)),
    Column("faults", BigInteger, nullable=False, server_default=text("0")),
    Column("not_before", BigInteger),
    Index("threads_by_parent", "parent_id", "created_at"),
    Index("threads_by_user", "user_id", "created_at"),
    Index("threads_by_time", "created_at"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("status", Text, nullable=False, info=one_of(RunStatus)),
    Column("stop_reason", Text, info=one_of(StopReason)),
    Column("error", Text),
    Column("step_count", Integer, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("side", Text, nullable=False, info=one_of(Side)),
    Column("chain_depth", Integer, nullable=False),
    Column("lives", Integer, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("usage", Text, nullable=False),
    Column("cost", Float),
    Column("output", Text, nullable=False),
    Column("waiting", Text),
    Column("cancel_requested_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("revision", BigInteger),
    Column("queued", Text),
    Index("runs_by_thread", "thread_id", "created_at"),
    Index("runs_by_status", "status", "created_at"),
    Index("runs_by_time", "created_at"),
)

steps = Table(
    "steps",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("usage", Text, nullable=False),
    Column("cost", Float),
    Column("finish_reason", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("run_id", "number"),
)

messages = Table(
    "messages",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("id", Text, nullable=False),
    Column("run_id", Text),
    Column("step", Integer, nullable=False),
    Column("role", Text, nullable=False, info=one_of(Role)),
    Column("kept", Boolean, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("within", Text),
    PrimaryKeyConstraint("thread_id", "seq"),
    Index("messages_within", "within", sqlite_where=_NESTED, postgresql_where=_NESTED),
    Index("messages_by_run", "run_id", "seq"),
)
