"""Rows of what comes and what has happened: events of inboxes, events for followers, wakes."""

from toolwright.adapters.store.engine.codecs import Params, Row, an_object, read, read_instant
from toolwright.adapters.store.engine.instants import micros
from toolwright.core.journal.units import Wake
from toolwright.core.json_value import dumps, dumps_unescaped
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent


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
