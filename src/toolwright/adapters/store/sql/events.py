"""Tables of inboxes, wake-ups, nodes, events with their counter, and the tokens of units."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from toolwright.adapters.store.engine.codecs import an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.journal.units import Node, Wake
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent, InboxStatus, InboxType

IS_UNREAD = "status = 'pending'"
"""Condition of unread events. A query must repeat it exactly to use the index."""
IS_FREE, IS_LEASED = "node IS NULL", "node IS NOT NULL"
"""Conditions of wake-ups that no cluster node has leased, and of leased wake-ups."""

inbox = Table(
    "inbox",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("type", Text, nullable=False, info=one_of(InboxType)),
    Column("status", Text, nullable=False, info=one_of(InboxStatus)),
    Column("run_id", Text),
    Column("attempts", Integer, nullable=False),
    Column("content", Json(an_object, dumps_unescaped), nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("author", Text),
    Column("promised", Text),
    Column("depth", Integer, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("thread_id", "event_id"),
    UniqueConstraint("thread_id", "n", name="inbox_in_order"),
    Index("inbox_by_status", "thread_id", "status", "n"),
    Index("inbox_unread", "thread_id", sqlite_where=text(IS_UNREAD), postgresql_where=text(IS_UNREAD)),
)

wakes = Table(
    "wakes",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("due", Instant(), nullable=False),
    Column("gen", BigInteger, nullable=False),
    Column("node", Text),
    Index("wakes_by_due", "due", sqlite_where=text(IS_FREE), postgresql_where=text(IS_FREE)),
    Index("wakes_by_node", "node", sqlite_where=text(IS_LEASED), postgresql_where=text(IS_LEASED)),
)

nodes = Table(
    "nodes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("busy", Integer, nullable=False),
    Column("seen", Instant(), nullable=False),
    Column("skew", BigInteger, nullable=False, server_default=text("0")),
    Column("keys", Text, nullable=False, server_default=text("''")),
    Column("files", Text, nullable=False, server_default=text("''")),
    Column("address", Text, nullable=False, server_default=text("''")),
    Column("alike", Text, nullable=False, server_default=text("''")),
)

compatibility = Table("compatibility", metadata, Column("least", Text, primary_key=True))

duties = Table(
    "duties",
    metadata,
    Column("name", Text, primary_key=True),
    Column("node", Text, nullable=False),
    Column("until", Instant(), nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("run_id", Text),
    Column("agent", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", Json(an_object), nullable=False),
    Column("at", Instant(), nullable=False),
    PrimaryKeyConstraint("thread_id", "n"),
    Index("events_by_run", "run_id", "n"),
    Index("events_by_time", "at"),
)

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

commits = Table(
    "commits",
    metadata,
    Column("token", Text, primary_key=True),
    Column("answer", Text, nullable=False),
    Column("at", Instant(), nullable=False),
    Index("commits_by_time", "at"),
)


INBOX = Mapping(inbox, InboxEvent, "event_id")
WAKES = Mapping(wakes, Wake, "thread_id")
NODES = Mapping(nodes, Node, "id")
EVENTS = Mapping(events, Event, "n")
