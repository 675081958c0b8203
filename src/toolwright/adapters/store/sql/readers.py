"""All tables, their readers, and reading of events, including broken rows."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import MetaData

from toolwright.adapters.store.engine.codecs import Row, UnreadableColumn
from toolwright.adapters.store.engine.columns import blank, metadata
from toolwright.adapters.store.engine.mapping import Reader, plain
from toolwright.adapters.store.sql.agents import AGENTS, agents
from toolwright.adapters.store.sql.calls import CALLS, calls
from toolwright.adapters.store.sql.children import REQUESTS, asked, thread_values
from toolwright.adapters.store.sql.events import EVENTS, INBOX, NODES, WAKES, commits, counters, duties
from toolwright.adapters.store.sql.kept import ENTITIES, ENV, FILES, sign_outs
from toolwright.adapters.store.sql.mcp import MCP_DEFINITIONS
from toolwright.adapters.store.sql.memory import BLOCKS, PASSAGES, VECTORS, block_links, passage_keepers
from toolwright.adapters.store.sql.messages import MESSAGE_VERSIONS, MESSAGES
from toolwright.adapters.store.sql.records import RECORDS
from toolwright.adapters.store.sql.retention import dropped_bytes, dropped_threads
from toolwright.adapters.store.sql.spaces import (
    MEMBERS,
    REACTIONS,
    SPACE_EVENTS,
    SPACE_MESSAGES,
    SPACES,
    unnumbered_events,
)
from toolwright.adapters.store.sql.threads import COMPACTIONS, RUNS, SENT_TEXTS, STEPS, THREADS
from toolwright.core.broken_rows import OTHER_SHAPE
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Event
from toolwright.core.value import changed
from toolwright.wire.call import has_result_to_show

RESULT = list(calls.columns.keys()).index("result")


def _shown_call(row: Row) -> Call:
    """Return a call whose result, if any, can be displayed."""
    call = CALLS.read(row)
    if not has_result_to_show(call):
        raise UnreadableColumn(RESULT, OTHER_SHAPE)
    return call


SHOWN_CALLS = Reader(calls, _shown_call)

READERS: tuple[Reader[Any], ...] = (  # of each table's values
    THREADS,
    RUNS,
    STEPS,
    MESSAGES,
    MESSAGE_VERSIONS,
    COMPACTIONS,
    SENT_TEXTS,
    SHOWN_CALLS,
    INBOX,
    WAKES,
    NODES,
    EVENTS,
    SPACE_EVENTS,
    FILES,
    ENV,
    ENTITIES,
    SPACES,
    MEMBERS,
    SPACE_MESSAGES,
    REACTIONS,
    REQUESTS,
    AGENTS,
    *RECORDS.values(),
    BLOCKS,
    PASSAGES,
    VECTORS,
    MCP_DEFINITIONS,
    plain(block_links, "label"),
    plain(passage_keepers, "agent_id"),
    plain(agents),
    plain(sign_outs, "key"),
    plain(asked, "request_id"),
    plain(thread_values, "key"),
    plain(unnumbered_events, "place"),
    plain(counters, "name"),
    plain(commits, "token"),
    plain(duties, "name"),
    plain(dropped_threads, "thread_id"),
    plain(dropped_bytes, "digest"),
)


def each_event(reader: Reader[Event], rows: Sequence[Row]) -> list[Event]:
    """Return all events in order. A broken one has blank fields and a payload that reports the error."""
    return [_event(reader, row) for row in rows]


def _event(reader: Reader[Event], row: Row) -> Event:
    columns, errors = list(reader.table.columns), list[str]()
    while True:
        try:
            event = reader.read(row)
        except UnreadableColumn as error:
            n, column = error.column, columns[error.column]
            errors.append(f"{column.name} {error.why}")
            row = [*row[:n], "{}" if column.name == "payload" else blank(column), *row[n + 1 :]]
        else:
            return changed(event, payload=_broken_payload(errors)) if errors else event


def _broken_payload(errors: Sequence[str]) -> JSONObject:
    return {"broken": True, "error": "; ".join(errors)}


def all_tables() -> MetaData:
    """Return the metadata of all tables. This module imports the tables of every noun."""
    return metadata
