"""The journal's tables. JSON is kept as ASCII text, instants as microseconds since 1970 in UTC.

Text rather than JSONB: arguments must come back byte for byte, and neither NUL nor a lone surrogate may make
a row unwritable (see docs/decisions/0002-json-as-text.md).
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

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
    Index("threads_by_user", "user_id", "created_at"),
    Index("threads_by_time", "created_at"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("stop_reason", Text),
    Column("error", Text),
    Column("step_count", Integer, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("side", Text, nullable=False),
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
    Column("role", Text, nullable=False),
    Column("kept", Boolean, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_id", "seq"),
    Index("messages_by_run", "run_id", "seq"),
)

calls = Table(
    "calls",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("model_call_id", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("route", Text),
    Column("result", Text),
    Column("attempts", Integer, nullable=False),
    Column("deadline", BigInteger),
    Column("expires_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Index("calls_by_run", "run_id", "step", "position"),
    Index("calls_by_status", "status", "created_at"),
)

inbox = Table(
    "inbox",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("run_id", Text),
    Column("attempts", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_id", "event_id"),
    UniqueConstraint("thread_id", "n", name="inbox_in_order"),
    Index("inbox_by_status", "thread_id", "status", "n"),
)

files = Table(
    "files",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("folded", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("mime_type", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("width", BigInteger),
    Column("height", BigInteger),
    Column("description", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_id", "folded"),
)

env = Table(
    "env",
    metadata,
    Column("owner", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("key", Text),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "kind", "name"),
    Index("env_by_key", "key"),
)

entities = Table(
    "entities",
    metadata,
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("external_id", Text),
    Column("display_name", Text),
    Column("metadata", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("external_id", name="entities_by_external_id"),
    Index("entities_by_time", "created_at"),
)

wakes = Table(
    "wakes",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("due", BigInteger, nullable=False),
    Column("gen", BigInteger, nullable=False),
    Index("wakes_by_due", "due"),
)

events = Table(
    "events",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("run_id", Text),
    Column("agent", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_id", "n"),
    Index("events_by_run", "run_id", "n"),
    Index("events_by_time", "at"),
)

commits = Table(
    "commits",
    metadata,
    Column("token", Text, primary_key=True),
    Column("answer", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("commits_by_time", "at"),
)
