"""Readers of all tables, and queries about threads, runs, messages, calls, events, env, files and people."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from toolwright.adapters.store.engine.codecs import Row, UnreadableColumn
from toolwright.adapters.store.engine.columns import blank, metadata
from toolwright.adapters.store.engine.mapping import RowReader, plain
from toolwright.adapters.store.engine.program import (
    NOW,
    Compiler,
    DialectName,
    RowQuery,
    Statement,
    number,
    statements,
    string,
)
from toolwright.adapters.store.sql.agents import AGENTS
from toolwright.adapters.store.sql.memory import BLOCKS, PASSAGES, VECTORS, passage_keepers
from toolwright.adapters.store.sql.messages import (
    BY_STATUS,
    CALLS,
    IS_OPEN,
    calls,
    messages,
)
from toolwright.adapters.store.sql.retention import dropped_threads
from toolwright.adapters.store.sql.rows import ROWS, RowStatements
from toolwright.adapters.store.sql.spaces import (
    SPACE_EVENTS,
    members,
    space_events,
    space_messages,
    unnumbered_events,
)
from toolwright.adapters.store.sql.threads import (
    EVENTS,
    IS_UNREAD,
    NOT_COMPLETED,
    commits,
    compactions,
    counters,
    duties,
    entities,
    env,
    events,
    inbox,
    runs,
    threads,
    wakes,
)
from toolwright.core.broken_rows import OTHER_SHAPE
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Event
from toolwright.core.value import changed
from toolwright.wire.call import has_result_to_show

RESULT = list(calls.columns.keys()).index("result")
MAX_NUMBER = 2**63 - 1
"""Largest number. On SQLite values that are not numbers sort after all numbers, and must be excluded."""


def _shown_call(row: Row) -> Call:
    """Return a call whose result, if any, can be displayed."""
    call = CALLS.read(row)
    if not has_result_to_show(call):
        raise UnreadableColumn(RESULT, OTHER_SHAPE)
    return call


SHOWN_CALLS = RowReader(calls, _shown_call)

_BY_TABLE = {
    each.table: each for each in (*ROWS.values(), EVENTS, SPACE_EVENTS, SHOWN_CALLS, BLOCKS, AGENTS, PASSAGES)
}
_PLAIN = (passage_keepers, unnumbered_events, counters, commits, duties, dropped_threads)
READERS: tuple[RowReader[Any], ...] = (
    *_BY_TABLE.values(),
    VECTORS,
    *map(plain, _PLAIN),
)  # of each table's values


def each_event(reader: RowReader[Event], rows: Sequence[Row]) -> list[Event]:
    """Return all events in order. A broken one has blank fields and a payload that reports the error."""
    return [_event(reader, row) for row in rows]


def _event(reader: RowReader[Event], row: Row) -> Event:
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


def all_tables() -> sa.MetaData:
    """Return the metadata of all tables. This module imports the tables of every noun."""
    return metadata


def _owned_by(count: int) -> sa.ColumnElement[bool]:
    return sa.or_(sa.false(), *[threads.c.user_id == string(f"user_{i}") for i in range(count)])


def _page(statement: RowQuery) -> RowQuery:
    return statement.limit(number("limit")).offset(number("offset"))


_CALL, _SHOWING = "call_", sa.literal("msg_", sa.Text)
"""Prefixes of the ids of calls, and of the messages that show them (see `wire.call_shown`)."""


class Queries:
    """The journal's queries, compiled for one dialect; each attribute is a query."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = compiled = Compiler(name)
        self.rows = statements(RowStatements, name)
        self.calls = cache(self._calls)
        self.kept_after = cache(self._messages_after_cut)
        c = compactions.c
        conversation = (c.thread_id == string("thread_id"), c.within == string("within"))
        last = sa.select(sa.func.max(c.number)).where(*conversation).group_by(c.side)
        of_thread = sa.select(compactions).where(c.thread_id == string("thread_id"))
        self.compactions_in_force = compiled(of_thread.where(c.number.in_(last)).order_by(c.number))
        self.now = compiled(sa.select(sa.literal_column(NOW[name])))
        self.next_due = compiled(
            sa.select(sa.func.min(wakes.c.due)).where(
                wakes.c.due > number("at"), wakes.c.due <= MAX_NUMBER, wakes.c.node.is_(None)
            )
        )
        pending_calls = (
            sa.select(sa.func.count()).select_from(calls).where(sa.text(IS_OPEN)).scalar_subquery()
        )
        inbox_events = (
            sa.select(sa.func.count()).select_from(inbox).where(sa.text(IS_UNREAD)).scalar_subquery()
        )
        oldest_event = sa.select(sa.func.min(inbox.c.created_at)).where(sa.text(IS_UNREAD)).scalar_subquery()
        unfinished = sa.select(sa.func.count()).select_from(runs).where(sa.text(NOT_COMPLETED))
        of_status = (
            unfinished.where(runs.c.status == each).scalar_subquery()
            for each in ("queued", "running", "waiting")
        )
        oldest_wake = sa.select(sa.func.min(wakes.c.due)).where(wakes.c.node.is_(None)).scalar_subquery()
        self.depths = compiled(sa.select(pending_calls, inbox_events, oldest_event, *of_status, oldest_wake))
        self._event_queries(compiled)
        self._env_queries(compiled)

    def _env_queries(self, compiled: Compiler) -> None:
        user = sa.select(threads.c.user_id).where(threads.c.id == string("thread_id")).scalar_subquery()
        person = sa.select(entities.c.id).where(sa.or_(entities.c.id == user, entities.c.external_id == user))
        by_name = sa.select(env).order_by(env.c.owner, env.c.kind, env.c.name)
        start = sa.select(threads.c.id, threads.c.parent_id).where(threads.c.id == string("thread_id"))
        ancestors = start.cte("up", recursive=True)
        ancestors = ancestors.union_all(
            sa.select(threads.c.id, threads.c.parent_id).join(
                ancestors, threads.c.id == ancestors.c.parent_id
            )
        )
        theirs = env.c.owner.in_(sa.select(ancestors.c.id))
        self.env = compiled(
            by_name.where(sa.or_(env.c.owner == string("thread_id"), theirs, env.c.owner.in_(person)))
        )

    def _event_queries(self, compiled: Compiler) -> None:
        newer = _page(
            sa.select(events)
            .where(events.c.n > number("after"), events.c.n <= MAX_NUMBER)
            .order_by(events.c.n)
        )
        of_thread = events.c.thread_id == string("topic")
        of_run = events.c.run_id == string("topic")
        bounds = sa.select(
            sa.func.coalesce(sa.func.min(events.c.n), 0), sa.func.coalesce(sa.func.max(events.c.n), 0)
        )
        bounds = bounds.where(events.c.n <= MAX_NUMBER)
        n = space_events.c.n
        newer_told = _page(sa.select(space_events).where(n > number("after"), n <= MAX_NUMBER).order_by(n))
        numbers = sa.select(sa.func.coalesce(sa.func.min(n), 0), sa.func.coalesce(sa.func.max(n), 0)).where(
            n <= MAX_NUMBER
        )
        of_space = space_events.c.space_id == string("topic")
        self.events = {
            "thread": compiled(newer.where(of_thread)),
            "run": compiled(newer.where(of_run)),
            "space": compiled(newer_told.where(of_space)),
            "spaces": compiled(newer_told),
        }
        self.bounds = {
            "thread": compiled(bounds.where(of_thread)),
            "run": compiled(bounds.where(of_run)),
            "space": compiled(numbers.where(of_space)),
            "spaces": compiled(numbers),
        }

    def _messages_after_cut(self, kept: int) -> Statement:
        """Return the query of the messages after the cut and some earlier ones.

        The earlier ones are messages of the open run, pinned messages and `kept` messages. Each part uses an index, so
        omitted texts are not read.
        `+ 0` keeps SQLite from using the index of positions for pinned messages.
        """
        c = messages.c
        in_thread, is_left_out = c.thread_id == string("thread_id"), c.seq <= number("cut")
        stay = sa.union(
            sa.select(c.seq).where(in_thread, is_left_out, c.run_id == string("run_id")),
            sa.select(c.seq).where(in_thread, c.seq + 0 <= number("cut"), c.pinned),
            *[sa.select(number(f"kept_{i}")) for i in range(kept)],
        )
        spoken = (in_thread, c.within.is_(None), c.kept)
        newer = sa.select(messages).where(*spoken, c.seq > number("cut"))
        older = sa.select(messages).where(*spoken, c.seq.in_(stay))
        return self._compiled(sa.union_all(newer, older).order_by(sa.text("seq")))

    def _calls(
        self, filters: tuple[str, ...], statuses: int, users: int | None, by_status: bool
    ) -> Statement:
        """Return the query of calls. With `users`: calls in their threads, and calls shown in an entity's spaces.

        With `by_status` the calls have statuses that the index contains.
        """
        chosen = [calls.c[name] == string(name) for name in filters]
        if by_status:
            chosen.append(sa.text(f"calls.{BY_STATUS}"))
        if statuses:
            chosen.append(calls.c.status.in_([string(f"status_{i}") for i in range(statuses)]))
        if users is not None:
            in_space = sa.select(members.c.space_id).where(members.c.entity_id == string("seen_by"))
            message = _SHOWING + sa.func.substr(calls.c.id, len(_CALL) + 1)
            is_shown = sa.exists().where(space_messages.c.id == message)
            theirs = calls.c.thread_id.in_(sa.select(threads.c.id).where(_owned_by(users)))
            chosen.append(sa.or_(theirs, sa.and_(calls.c.visible, calls.c.space_id.in_(in_space), is_shown)))
        return self._compiled(_page(sa.select(calls).where(*chosen).order_by(calls.c.created_at, calls.c.id)))
