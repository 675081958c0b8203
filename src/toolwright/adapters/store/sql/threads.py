"""Tables of threads: runs, steps, compactions, sent texts, inboxes, wake-ups, events, tokens of units; and of nodes."""

import json
from collections.abc import Sequence
from typing import Any, cast, get_args

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
    UniqueConstraint,
    and_,
    false,
    select,
    text,
)

from toolwright.adapters.store.engine.codecs import a_text, an_object, texts
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.journal.units import Node, Wake
from toolwright.core.json_value import JSON, dumps, dumps_unescaped
from toolwright.core.threads.child import ENDED, ChildEnd, Link, link_from_json, link_json
from toolwright.core.threads.compaction import Cause, Compaction, ReadingSide, SentText
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent, InboxStatus, InboxType
from toolwright.core.threads.run import QueuedCall, Run, RunStatus, Side, Step, StopReason, Usage
from toolwright.core.threads.thread import Thread

SIDES = frozenset(get_args(Side))
_NO_USAGE = Usage()
_NO_USAGE_TEXT = "[0,0,0,0]"


def _usage_text(usage: Usage) -> str:
    if usage == _NO_USAGE:
        return _NO_USAGE_TEXT
    return dumps([usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens])


def _read_usage(written: str) -> Usage:
    return _NO_USAGE if written == _NO_USAGE_TEXT else _usage(json.loads(written))


def _usage(counts: Sequence[Any]) -> Usage:  # as written by _usage_text
    if any(type(count) is not int for count in counts):
        raise TypeError("a count must be a whole number")
    read, written, cache_read, cache_write = counts
    return Usage(
        input_tokens=read, output_tokens=written, cache_read_tokens=cache_read, cache_write_tokens=cache_write
    )


def _sides(parsed: JSON) -> tuple[Side, ...]:
    sides = texts(parsed)
    if not SIDES.issuperset(sides):
        raise ValueError("the name of a side is unknown")
    return cast("tuple[Side, ...]", sides)  # checked above


def _places(parsed: JSON) -> tuple[int, ...]:
    if not isinstance(parsed, list) or any(type(each) is not int for each in parsed):
        raise TypeError("places are whole numbers")
    return tuple(cast("list[int]", parsed))


def _link_text(link: Link) -> str:
    return dumps(link_json(link))


def _queued(parsed: Sequence[Any]) -> tuple[QueuedCall, ...]:  # as written by _queued_text
    return tuple([QueuedCall(name=n, arguments=a, within=w) for n, a, w in parsed])


def _queued_text(queued: Sequence[QueuedCall]) -> str:
    return dumps([[call.name, call.arguments, call.within] for call in queued])


threads = Table(
    "threads",
    metadata,
    Column("id", Text, primary_key=True),
    Column("agent", Text, nullable=False),
    Column("user_id", Text),
    Column("parent_id", Text),
    Column("name", Json(a_text)),
    Column("tags", Json(texts), nullable=False),
    Column("arguments", Json(an_object, dumps_unescaped)),
    Column("run_id", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("ev", BigInteger, nullable=False),
    Column("posted", BigInteger, nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("begun", Boolean, nullable=False, server_default=false()),
    Column("next_run_id", Text),
    Column("space_id", Text),
    Column("active_agent", Text),
    Column("activated", Json(_sides, absent=())),
    Column("link", Json(link_from_json, _link_text)),
    Column("report", Text),
    Column("state", Text, info=one_of(ChildEnd)),
    Column("faults", BigInteger, nullable=False, server_default=text("0")),
    Column("not_before", Instant()),
    Column("cut", BigInteger, nullable=False, server_default=text("0")),
    Column("compacted", BigInteger, nullable=False, server_default=text("0")),
    Index("threads_by_parent", "parent_id", "created_at"),
    Index("threads_by_user", "user_id", "created_at"),
    Index("threads_by_time", "created_at"),
)

NOT_OVER = and_(*(threads.c.state.is_distinct_from(end) for end in ENDED))
"""Condition of threads that accept messages."""

NOT_COMPLETED = "status <> 'completed'"
"""Condition of the index of run statuses. A query must repeat it exactly to use the index."""

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("status", Text, nullable=False, info=one_of(RunStatus)),
    Column("stop_reason", Text, info=one_of(StopReason)),
    Column("error", Json(a_text)),
    Column("step_count", Integer, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("side", Text, nullable=False, info=one_of(Side)),
    Column("chain_depth", Integer, nullable=False),
    Column("lives", Integer, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("usage", Json(_usage, _usage_text, read=_read_usage), nullable=False),
    Column("cost", Float),
    Column("output", Json(write=dumps_unescaped), nullable=False),
    Column("waiting", Json(an_object)),
    Column("cancel_requested_at", Instant()),
    Column("created_at", Instant(), nullable=False),
    Column("started_at", Instant()),
    Column("completed_at", Instant()),
    Column("revision", BigInteger),
    Column("queued", Json(_queued, _queued_text, absent=())),
    Column("calls_only", Boolean, nullable=False, server_default=false()),
    Column("traceparent", Text),
    Column("error_code", Text),
    Index("runs_by_thread", "thread_id", "created_at"),
    Index(
        "runs_by_status",
        "status",
        "created_at",
        sqlite_where=text(NOT_COMPLETED),
        postgresql_where=text(NOT_COMPLETED),
    ),
    Index("runs_by_time", "created_at"),
)

steps = Table(
    "steps",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("usage", Json(_usage, _usage_text, read=_read_usage), nullable=False),
    Column("cost", Float),
    Column("finish_reason", Text),
    Column("created_at", Instant(), nullable=False),
    PrimaryKeyConstraint("run_id", "number"),
)

compactions = Table(
    "compactions",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("within", Text, nullable=False),
    Column("side", Text, nullable=False, info=one_of(ReadingSide)),
    Column("number", BigInteger, nullable=False),
    Column("cut", BigInteger, nullable=False),
    Column("cleared", BigInteger, nullable=False),
    Column("bare", BigInteger, nullable=False),
    Column("kept", Json(_places), nullable=False),
    Column("text", Json(a_text), nullable=False),
    Column("summary", Json(a_text)),
    Column("covers", BigInteger, nullable=False),
    Column("omitted", BigInteger, nullable=False),
    Column("model", Text),
    Column("version", Integer, nullable=False),
    Column("usage", Json(_usage, _usage_text, read=_read_usage)),
    Column("cost", Float),
    Column("budget", BigInteger),
    Column("cause", Text, nullable=False, info=one_of(Cause)),
    Column("edited_by", Text),
    Column("run_id", Text),
    Column("step", Integer, nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("refused_by", Text),
    PrimaryKeyConstraint("thread_id", "number"),
)

sent_texts = Table(
    "sent_texts",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("text", Json(a_text), nullable=False),
    PrimaryKeyConstraint("thread_id", "digest"),
)


def family_of(first: Any) -> Any:  # SQLAlchemy queries
    """Return the query of the ids of the given threads and all of their descendants."""
    family = first.cte("family", recursive=True)
    return family.union_all(select(threads.c.id).join(family, threads.c.parent_id == family.c.id))


THREADS = Mapping(threads, Thread)
RUNS = Mapping(runs, Run)
STEPS = Mapping(steps, Step, "number")
COMPACTIONS = Mapping(compactions, Compaction, "number")
SENT_TEXTS = Mapping(sent_texts, SentText, "digest")


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
