"""Readers: for each table how its rows become values, and what becomes of a row that is broken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Table, select

from toolwright.adapters.store import (
    rows_agents,
    rows_calls,
    rows_children,
    rows_events,
    rows_kept,
    rows_messages,
    rows_spaces,
    rows_threads,
)
from toolwright.adapters.store.compiled import Rows as Query
from toolwright.adapters.store.rows import Row, UnreadableColumn
from toolwright.adapters.store.tables_agents import agent_revisions, goals, memories, plans
from toolwright.adapters.store.tables_calls import calls
from toolwright.adapters.store.tables_children import requests
from toolwright.adapters.store.tables_events import events, inbox
from toolwright.adapters.store.tables_kept import clients, entities, files
from toolwright.adapters.store.tables_spaces import members, space_events, space_messages, spaces
from toolwright.adapters.store.tables_threads import messages, runs, steps, threads
from toolwright.core.broken_rows import OTHER_SHAPE, BrokenRow, Rows
from toolwright.core.call import Call
from toolwright.core.errors import RowBroken
from toolwright.core.event import Event
from toolwright.core.json_value import JSONObject, dumps
from toolwright.wire.call import has_result_to_show

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """Makes values of rows that have the columns of `query`; a row's noun is called by its column `id`."""

    table: Table
    query: Query
    made: Callable[[Row], T]
    id: str

    def each(self, rows: Sequence[Row]) -> Rows[T]:
        """The values of the rows, and beside them those that are broken."""
        values: list[T] = []
        broken: list[BrokenRow] = []
        for row in rows:
            try:
                values.append(self.made(_legible(row)))
            except UnreadableColumn as fault:
                broken.append(self._broken(row, fault))
        return Rows(values, broken)

    def all(self, rows: Sequence[Row]) -> list[T]:
        """The values of the rows; raises `RowBroken` if one is broken."""
        return [self._one(row) for row in rows]

    def first(self, rows: Sequence[Row]) -> T | None:
        """The value of the first row, None if there is none; raises `RowBroken`."""
        return self._one(rows[0]) if rows else None

    def _one(self, row: Row) -> T:
        try:
            return self.made(_legible(row))
        except UnreadableColumn as fault:
            raise RowBroken(self._broken(row, fault).sentence) from None

    def _broken(self, row: Row, fault: UnreadableColumn) -> BrokenRow:
        names = self.query.selected_columns.keys()
        columns = dict(zip(names, row, strict=False))
        key = " and ".join(f"{one.name} {columns[one.name]!r}" for one in self.table.primary_key.columns)
        return BrokenRow(
            table=self.table.name,
            id=str(columns[self.id]),
            key=key,
            column=names[fault.column],
            why=fault.why,
        )


def _legible(row: Row) -> Row:
    """The row, if all its texts are some: none of the journal's columns holds bytes."""
    if bytes in map(type, row):
        raise UnreadableColumn(
            next(n for n, each in enumerate(row) if type(each) is bytes), "is not text in UTF-8"
        )
    return row


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
FILES = _whole(files, rows_kept.file, "path")
ENTITIES = _whole(entities, rows_kept.entity)
FRONT_ENDS = _whole(clients, rows_kept.front_end)
SPACES = _whole(spaces, rows_spaces.space)
MEMBERS = _whole(members, rows_spaces.member, "entity_id")
SPACE_MESSAGES = _whole(space_messages, rows_spaces.message)
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
    EVENTS,
    SPACE_EVENTS,
    FILES,
    ENTITIES,
    FRONT_ENDS,
    SPACES,
    MEMBERS,
    SPACE_MESSAGES,
    REQUESTS,
    AGENTS,
    GOALS,
    MEMORIES,
    PLANS,
)


def each_event(reader: Reader[Event], rows: Sequence[Row]) -> list[Event]:
    """Events in order, none left out: one whose payload is broken has a payload that says so."""
    payload = list(reader.table.columns.keys()).index("payload")

    def shown(row: Row) -> Event:
        try:
            return reader.made(_legible(row))
        except UnreadableColumn as fault:
            if fault.column != payload:
                return reader.all([row])[0]
            said: JSONObject = {"broken": True, "error": f"payload {fault.why}"}
            return reader.made([*row[:payload], dumps(said), *row[payload + 1 :]])

    return [shown(row) for row in rows]
