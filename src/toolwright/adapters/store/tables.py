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
    false,
    text,
)

metadata = MetaData()

ON_OFFER = "kind = 'external' AND completed_at IS NULL"
"""Among which calls those are that outside workers may claim: a query that is to use the indexes says it so."""

_NESTED, _BELOW = text("within IS NOT NULL"), text("parent_id IS NOT NULL")
_OFFERED, _LEASED = text(ON_OFFER), text(f"{ON_OFFER} AND leased_until IS NOT NULL")

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
    Column("state", Text),
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
    Column("role", Text, nullable=False),
    Column("kept", Boolean, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("within", Text),
    PrimaryKeyConstraint("thread_id", "seq"),
    Index("messages_within", "within", sqlite_where=_NESTED, postgresql_where=_NESTED),
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
    Column("visible", Boolean, nullable=False, server_default=false()),
    Column("space_id", Text),
    Column("repeatable", Boolean, nullable=False, server_default=false()),
    Column("worker", Text),
    Column("leased_until", BigInteger),
    Column("agent", Text),
    Column("parent_id", Text),
    Index("calls_by_parent", "parent_id", sqlite_where=_BELOW, postgresql_where=_BELOW),
    Index("calls_by_run", "run_id", "step", "position"),
    Index("calls_by_status", "status", "created_at"),
    Index("calls_by_space", "space_id", "created_at"),
    Index("calls_on_offer", "started_at", "id", sqlite_where=_OFFERED, postgresql_where=_OFFERED),
    Index("calls_leased", "leased_until", sqlite_where=_LEASED, postgresql_where=_LEASED),
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
    Column("author", Text),
    Column("promised", Text),
    Column("depth", Integer, nullable=False, server_default=text("0")),
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

spaces = Table(
    "spaces",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text),
    Column("description", Text),
    Column("metadata", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("spaces_by_time", "created_at"),
)

members = Table(
    "members",
    metadata,
    Column("space_id", Text, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("read_seq", BigInteger, nullable=False),
    Column("joined_at", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    PrimaryKeyConstraint("space_id", "entity_id"),
    Index("members_by_entity", "entity_id"),
)

space_messages = Table(
    "space_messages",
    metadata,
    Column("id", Text, primary_key=True),
    Column("space_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("parent_id", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("edited_at", BigInteger),
    UniqueConstraint("space_id", "seq", name="space_messages_in_order"),
)

reactions = Table(
    "reactions",
    metadata,
    Column("message_id", Text, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("emoji", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("message_id", "entity_id", "emoji"),
)

space_events = Table(
    "space_events",
    metadata,
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    Column("space_id", Text, nullable=False),
    Column("thread_id", Text),
    Column("run_id", Text),
    Column("agent", Text),
    Column("type", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("space_events_by_space", "space_id", "n"),
    Index("space_events_by_time", "at"),
)

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("name", name="agents_by_name"),
    Index("agents_by_time", "created_at"),
)

agent_revisions = Table(
    "agent_revisions",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "revision"),
)

goals = Table(
    "goals",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("priority", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "id"),
)

memories = Table(
    "memories",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "key"),
)

plans = Table(
    "plans",
    metadata,
    Column("agent_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("instruction", Text, nullable=False),
    Column("next_run_at", BigInteger, nullable=False),
    Column("cron", Text),
    Column("timezone", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent_id", "id"),
)

clients = Table(
    "clients",
    metadata,
    Column("id", Text, primary_key=True),
    Column("entity_id", Text, nullable=False),
    Column("name", Text),
    Column("metadata", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("clients_by_entity", "entity_id", "created_at"),
)

thread_values = Table(
    "thread_values",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("thread_id", "key"),
)

requests = Table(
    "requests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("required", Text, nullable=False),
    Column("child", Text),
    Column("expires_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Index("requests_by_thread", "thread_id"),
)

asked = Table(
    "asked",
    metadata,
    Column("name", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    PrimaryKeyConstraint("name", "request_id"),
    Index("asked_by_request", "request_id"),
)

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
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
