"""Tables of threads: runs, steps, sent texts, inboxes, wake-ups, events, files, env; of nodes, people and sessions."""

import json
from collections.abc import Sequence
from typing import Any, cast, get_args

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from toolwright.adapters.store.engine.codecs import a_text, an_object, texts
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of, partial_index
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.env.env import EnvKind, EnvRow, EnvType
from toolwright.core.files import File, fold
from toolwright.core.journal.units import Node, SignedOut
from toolwright.core.json_value import JSON, dumps, dumps_unescaped
from toolwright.core.spaces import Entity, EntityType
from toolwright.core.threads.child import ENDED, ChildEnd, Link, link_from_json, link_json
from toolwright.core.threads.compaction import Cause, Compaction, ReadingSide, SentText
from toolwright.core.threads.decision import decisions_from_json
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent, InboxStatus, InboxType
from toolwright.core.threads.run import QueuedCall, Run, RunStatus, Side, Step, StopReason, Usage
from toolwright.core.threads.thread import Thread, Wake

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
    Column("description", Json(a_text)),
    Column("created_at", Instant(), nullable=False),
    PrimaryKeyConstraint("thread_id", "folded"),
)

env = Table(
    "env",
    metadata,
    Column("owner", Text, nullable=False),
    Column("kind", Text, nullable=False, info=one_of(EnvKind)),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False, info=one_of(EnvType)),
    Column("value", Text, nullable=False),
    Column("key", Text),
    Column("updated_at", Instant(), nullable=False),
    PrimaryKeyConstraint("owner", "kind", "name"),
    Index("env_by_key", "key"),
)

entities = Table(
    "entities",
    metadata,
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False, info=one_of(EntityType)),
    Column("external_id", Text),
    Column("display_name", Json(a_text)),
    Column("metadata", Json(an_object), nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("updated_at", Instant(), nullable=False),
    UniqueConstraint("external_id", name="entities_by_external_id"),
    Index("entities_by_time", "created_at"),
)

sign_outs = Table(
    "sign_outs",
    metadata,
    Column("key", Text, primary_key=True),
    Column("at", Instant(), nullable=False),
    Column("until", Instant(), nullable=False),
)


FILES = Mapping(files, File, derived={"folded": lambda file: fold(file.path)})
ENV = Mapping(env, EnvRow)
ENTITIES = Mapping(entities, Entity)


SIDES = frozenset(get_args(Side))
_NO_USAGE = Usage()
_NO_USAGE_TEXT = "[0,0,0,0]"
NOT_COMPLETED = "status <> 'completed'"
"""Condition of the index of run statuses. A query must repeat it exactly to use the index."""
IS_UNREAD = "status = 'pending'"
"""Condition of unread events. A query must repeat it exactly to use the index."""
IS_FREE, IS_LEASED = "node IS NULL", "node IS NOT NULL"
"""Conditions of wake-ups that no cluster node has leased, and of leased wake-ups."""


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


_KEYED = sa.text("owner_key IS NOT NULL")

threads = sa.Table(
    "threads",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text),
    sa.Column("parent_id", sa.Text),
    sa.Column("name", Json(a_text)),
    sa.Column("tags", Json(texts), nullable=False),
    sa.Column("arguments", Json(an_object, dumps_unescaped)),
    sa.Column("run_id", sa.Text),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("ev", sa.BigInteger, nullable=False),
    sa.Column("posted", sa.BigInteger, nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("begun", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("next_run_id", sa.Text),
    sa.Column("space_id", sa.Text),
    sa.Column("active_agent", sa.Text),
    sa.Column("activated", Json(_sides, absent=())),
    sa.Column("link", Json(link_from_json, _link_text)),
    sa.Column("report", sa.Text),
    sa.Column("state", sa.Text, info=one_of(ChildEnd)),
    sa.Column("faults", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("not_before", Instant()),
    sa.Column("cut", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("compacted", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("hides", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("key", sa.Text),
    sa.Column("owner_key", sa.Text),
    sa.Index("threads_by_key", "owner_key", unique=True, sqlite_where=_KEYED, postgresql_where=_KEYED),
    sa.Index("threads_by_parent", "parent_id", "created_at"),
    sa.Index("threads_by_user", "user_id", "created_at"),
    sa.Index("threads_by_time", "created_at"),
)

NOT_OVER = sa.and_(*(threads.c.state.is_distinct_from(end) for end in ENDED))
"""Condition of threads that accept messages."""


runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False, info=one_of(RunStatus)),
    sa.Column("stop_reason", sa.Text, info=one_of(StopReason)),
    sa.Column("error", Json(a_text)),
    sa.Column("step_count", sa.Integer, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("side", sa.Text, nullable=False, info=one_of(Side)),
    sa.Column("chain_depth", sa.Integer, nullable=False),
    sa.Column("lives", sa.Integer, nullable=False),
    sa.Column("held", sa.Boolean, nullable=False),
    sa.Column("usage", Json(_usage, _usage_text, read=_read_usage), nullable=False),
    sa.Column("cost", sa.Float),
    sa.Column("output", Json(write=dumps_unescaped), nullable=False),
    sa.Column("waiting", Json(an_object)),
    sa.Column("cancel_requested_at", Instant()),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("started_at", Instant()),
    sa.Column("completed_at", Instant()),
    sa.Column("revision", sa.BigInteger),
    sa.Column("queued", Json(_queued, _queued_text, absent=())),
    sa.Column("calls_only", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("traceparent", sa.Text),
    sa.Column("error_code", sa.Text),
    sa.Column("isolated", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("decisions", Json(decisions_from_json, dumps_unescaped, absent=())),
    sa.Column("deps", Json(an_object, dumps_unescaped)),
    sa.Index("runs_by_thread", "thread_id", "created_at"),
    partial_index("runs_by_status", "status", "created_at", where=NOT_COMPLETED),
    sa.Index("runs_by_time", "created_at"),
)

steps = sa.Table(
    "steps",
    metadata,
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("usage", Json(_usage, _usage_text, read=_read_usage), nullable=False),
    sa.Column("cost", sa.Float),
    sa.Column("finish_reason", sa.Text),
    sa.Column("created_at", Instant(), nullable=False),
    sa.PrimaryKeyConstraint("run_id", "number"),
)

compactions = sa.Table(
    "compactions",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("within", sa.Text, nullable=False),
    sa.Column("side", sa.Text, nullable=False, info=one_of(ReadingSide)),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("cut", sa.BigInteger, nullable=False),
    sa.Column("cleared", sa.BigInteger, nullable=False),
    sa.Column("bare", sa.BigInteger, nullable=False),
    sa.Column("kept", Json(_places), nullable=False),
    sa.Column("text", Json(a_text), nullable=False),
    sa.Column("summary", Json(a_text)),
    sa.Column("covers", sa.BigInteger, nullable=False),
    sa.Column("omitted", sa.BigInteger, nullable=False),
    sa.Column("model", sa.Text),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("usage", Json(_usage, _usage_text, read=_read_usage)),
    sa.Column("cost", sa.Float),
    sa.Column("budget", sa.BigInteger),
    sa.Column("cause", sa.Text, nullable=False, info=one_of(Cause)),
    sa.Column("edited_by", sa.Text),
    sa.Column("run_id", sa.Text),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("refused_by", sa.Text),
    sa.PrimaryKeyConstraint("thread_id", "number"),
)

sent_texts = sa.Table(
    "sent_texts",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("text", Json(a_text), nullable=False),
    sa.PrimaryKeyConstraint("thread_id", "digest"),
)


def family_of(first: Any) -> Any:  # SQLAlchemy queries
    """Return the query of the ids of the given threads and all of their descendants."""
    family = first.cte("family", recursive=True)
    return family.union_all(sa.select(threads.c.id).join(family, threads.c.parent_id == family.c.id))


THREADS = Mapping(threads, Thread, derived={"owner_key": lambda thread: thread.owner_key})
RUNS = Mapping(runs, Run)
STEPS = Mapping(steps, Step)
COMPACTIONS = Mapping(compactions, Compaction)
SENT_TEXTS = Mapping(sent_texts, SentText)


inbox = sa.Table(
    "inbox",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("event_id", sa.Text, nullable=False),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Column("type", sa.Text, nullable=False, info=one_of(InboxType)),
    sa.Column("status", sa.Text, nullable=False, info=one_of(InboxStatus)),
    sa.Column("run_id", sa.Text),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("content", Json(an_object, dumps_unescaped), nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("author", sa.Text),
    sa.Column("promised", sa.Text),
    sa.Column("depth", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.PrimaryKeyConstraint("thread_id", "event_id"),
    sa.UniqueConstraint("thread_id", "n", name="inbox_in_order"),
    sa.Index("inbox_by_status", "thread_id", "status", "n"),
    partial_index("inbox_unread", "thread_id", where=IS_UNREAD),
)

wakes = sa.Table(
    "wakes",
    metadata,
    sa.Column("thread_id", sa.Text, primary_key=True),
    sa.Column("due", Instant(), nullable=False),
    sa.Column("gen", sa.BigInteger, nullable=False),
    sa.Column("node", sa.Text),
    partial_index("wakes_by_due", "due", where=IS_FREE),
    partial_index("wakes_by_node", "node", where=IS_LEASED),
)

nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("slots", sa.Integer, nullable=False),
    sa.Column("busy", sa.Integer, nullable=False),
    sa.Column("seen", Instant(), nullable=False),
    sa.Column("skew", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("keys", sa.Text, nullable=False, server_default=sa.text("''")),
    sa.Column("files", sa.Text, nullable=False, server_default=sa.text("''")),
    sa.Column("address", sa.Text, nullable=False, server_default=sa.text("''")),
    sa.Column("alike", sa.Text, nullable=False, server_default=sa.text("''")),
)

compatibility = sa.Table("compatibility", metadata, sa.Column("least", sa.Text, primary_key=True))

duties = sa.Table(
    "duties",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("until", Instant(), nullable=False),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("payload", Json(an_object), nullable=False),
    sa.Column("at", Instant(), nullable=False),
    sa.PrimaryKeyConstraint("thread_id", "n"),
    sa.Index("events_by_run", "run_id", "n"),
    sa.Index("events_by_time", "at"),
)

counters = sa.Table(
    "counters",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
)

commits = sa.Table(
    "commits",
    metadata,
    sa.Column("token", sa.Text, primary_key=True),
    sa.Column("answer", sa.Text, nullable=False),
    sa.Column("at", Instant(), nullable=False),
    sa.Index("commits_by_time", "at"),
)


INBOX = Mapping(inbox, InboxEvent)
WAKES = Mapping(wakes, Wake)
SIGN_OUTS = Mapping(sign_outs, SignedOut)
NODES = Mapping(nodes, Node)
EVENTS = Mapping(events, Event)
