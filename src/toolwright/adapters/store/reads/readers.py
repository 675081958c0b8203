"""The readers of all tables."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy import Table, select

from toolwright.adapters.store.engine.codecs import Row, UnreadableColumn
from toolwright.adapters.store.engine.columns import blank
from toolwright.adapters.store.engine.row_reader import Reader
from toolwright.adapters.store.tables import agents as rows_agents
from toolwright.adapters.store.tables import calls as rows_calls
from toolwright.adapters.store.tables import children as rows_children
from toolwright.adapters.store.tables import events as rows_events
from toolwright.adapters.store.tables import kept as rows_kept
from toolwright.adapters.store.tables import rows_messages
from toolwright.adapters.store.tables import spaces as rows_spaces
from toolwright.adapters.store.tables import threads as rows_threads
from toolwright.adapters.store.tables.agents import agent_revisions, agents, goals, memories, plans
from toolwright.adapters.store.tables.calls import calls
from toolwright.adapters.store.tables.children import asked, requests, thread_values
from toolwright.adapters.store.tables.events import commits, counters, events, inbox, wakes
from toolwright.adapters.store.tables.kept import clients, entities, env, files
from toolwright.adapters.store.tables.spaces import (
    members,
    reactions,
    space_events,
    space_messages,
    spaces,
    unnumbered_events,
)
from toolwright.adapters.store.tables.threads import messages, runs, steps, threads
from toolwright.core.broken_rows import OTHER_SHAPE
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Event
from toolwright.wire.call import has_result_to_show

T = TypeVar("T")


def _shown_call(row: Row) -> Call:
    """A call whose result, if it has one, can be shown."""
    call = rows_calls.call(row)
    if not has_result_to_show(call):
        raise UnreadableColumn(RESULT, OTHER_SHAPE)
    return call


def _whole(table: Table, made: Callable[[Row], T], id: str = "id") -> Reader[T]:
    return Reader(table, select(table), made, id)


_of = agent_revisions.c
RESULT = list(calls.columns.keys()).index("result")
THREADS = _whole(threads, rows_threads.thread)
RUNS = _whole(runs, rows_threads.run)
STEPS = _whole(steps, rows_threads.step, "number")
MESSAGES = _whole(messages, rows_messages.message)
CALLS = _whole(calls, rows_calls.call)
SHOWN_CALLS = _whole(calls, _shown_call)
INBOX = _whole(inbox, rows_events.inbox_event, "event_id")
EVENTS = _whole(events, rows_events.event, "n")
SPACE_EVENTS = _whole(space_events, rows_spaces.event, "n")
WAKES = _whole(wakes, rows_events.wake, "thread_id")
FILES = _whole(files, rows_kept.file, "path")
ENV = _whole(env, rows_kept.env_row, "name")
ENTITIES = _whole(entities, rows_kept.entity)
FRONT_ENDS = _whole(clients, rows_kept.front_end)
SPACES = _whole(spaces, rows_spaces.space)
MEMBERS = _whole(members, rows_spaces.member, "entity_id")
SPACE_MESSAGES = _whole(space_messages, rows_spaces.message)
REACTIONS = _whole(reactions, rows_spaces.reaction, "message_id")
REQUESTS = _whole(requests, rows_children.request)
AGENTS = Reader(
    agent_revisions,
    select(_of.agent_id, _of.name, _of.revision, _of.description, _of.config, _of.created_at).add_columns(
        _of.created_at.label("updated_at")
    ),
    rows_agents.agent,
    "agent_id",
)
GOALS = _whole(goals, rows_agents.goal)
MEMORIES = _whole(memories, rows_agents.memory, "key")
PLANS = _whole(plans, rows_agents.plan)

READERS: tuple[Reader[Any], ...] = (  # of whatever lies in each
    THREADS,
    RUNS,
    STEPS,
    MESSAGES,
    SHOWN_CALLS,
    INBOX,
    WAKES,
    EVENTS,
    SPACE_EVENTS,
    FILES,
    ENV,
    ENTITIES,
    FRONT_ENDS,
    SPACES,
    MEMBERS,
    SPACE_MESSAGES,
    REACTIONS,
    REQUESTS,
    AGENTS,
    GOALS,
    MEMORIES,
    PLANS,
    _whole(agents, tuple),  # of these no value is made
    _whole(asked, tuple, "request_id"),
    _whole(thread_values, tuple, "key"),
    _whole(unnumbered_events, tuple, "place"),
    _whole(counters, tuple, "name"),
    _whole(commits, tuple, "token"),
)


def each_event(reader: Reader[Event], rows: Sequence[Row]) -> list[Event]:
    """Events in order, none left out: a broken one is blank where it is broken, with a payload that says so."""
    return [_event(reader, row) for row in rows]


def _event(reader: Reader[Event], row: Row) -> Event:
    columns, faults = list(reader.table.columns), list[str]()
    while True:
        try:
            event = reader.read(row)
        except UnreadableColumn as fault:
            n, column = fault.column, columns[fault.column]
            faults.append(f"{column.name} {fault.why}")
            row = [*row[:n], "{}" if column.name == "payload" else blank(column), *row[n + 1 :]]
        else:
            return replace(event, payload=_broken_payload(faults)) if faults else event


def _broken_payload(faults: Sequence[str]) -> JSONObject:
    return {"broken": True, "error": "; ".join(faults)}
