"""Tables of what comes and what has happened: inboxes, wakes, events with their counter, the tokens of units."""

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

from toolwright.adapters.store.engine.codecs import Params, Row, an_object, micros, read, read_instant
from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.journal.units import Wake
from toolwright.core.json_value import dumps, dumps_unescaped
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent, InboxStatus, InboxType

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
    Column("content", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("author", Text),
    Column("promised", Text),
    Column("depth", Integer, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("thread_id", "event_id"),
    UniqueConstraint("thread_id", "n", name="inbox_in_order"),
    Index("inbox_by_status", "thread_id", "status", "n"),
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
    Column("at", BigInteger, nullable=False),
    Index("commits_by_time", "at"),
)


def inbox_params(event: InboxEvent, n: int) -> Params:
    return {
        "thread_id": event.thread_id,
        "event_id": event.event_id,
        "n": n,
        "type": event.type,
        "status": event.status,
        "run_id": event.run_id,
        "attempts": event.attempts,
        "content": dumps_unescaped(event.content),
        "created_at": micros(event.created_at),
        "author": event.author,
        "promised": event.promised,
        "depth": event.depth,
    }


def inbox_event(row: Row) -> InboxEvent:
    return InboxEvent(
        thread_id=row[0],
        event_id=row[1],
        n=row[2],
        type=row[3],
        status=row[4],
        run_id=row[5],
        attempts=row[6],
        content=read(row, 7, an_object),
        created_at=read_instant(row, 8),
        author=row[9],
        promised=row[10],
        depth=row[11],
    )


def event_params(event: Event) -> Params:
    return {
        "thread_id": event.thread_id,
        "n": event.n,
        "run_id": event.run_id,
        "agent": event.agent,
        "type": event.type,
        "payload": dumps(event.payload),
        "at": micros(event.at),
    }


def event(row: Row) -> Event:
    return Event(
        thread_id=row[0],
        n=row[1],
        run_id=row[2],
        agent=row[3],
        type=row[4],
        payload=read(row, 5, an_object),
        at=read_instant(row, 6),
    )


def wake(row: Row) -> Wake:
    return Wake(thread_id=row[0], due=read_instant(row, 1), gen=row[2])
