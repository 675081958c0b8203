"""Statements that write the journal, of threads and of all other nouns, compiled once per dialect."""

from functools import cache

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Statement,
    number,
    row_params,
    statements,
    string,
)
from toolwright.adapters.store.sql.agents import AgentStatements
from toolwright.adapters.store.sql.children import ChildStatements
from toolwright.adapters.store.sql.memory import MemoryStatements
from toolwright.adapters.store.sql.messages import calls, message_versions, messages
from toolwright.adapters.store.sql.retention import RetentionStatements
from toolwright.adapters.store.sql.rows import RowStatements
from toolwright.adapters.store.sql.spaces import SpaceStatements, space_events
from toolwright.adapters.store.sql.threads import (
    NOT_OVER,
    commits,
    events,
    inbox,
    runs,
    steps,
    threads,
)
from toolwright.core.threads.call import MOVED
from toolwright.core.threads.run import OVER

SAVED_COLUMNS = tuple(
    [
        c.name
        for c in runs.columns
        if c.name not in {"id", "thread_id", "agent", "created_at", "cancel_requested_at", "decisions"}
    ]
)
"""The columns of runs that a worker writes. The other columns never change, or are written by others."""

_NOT_OVER = sa.and_(*(runs.c.status != status for status in sorted(OVER)))


def _insert_all(table: sa.Table) -> sa.Insert:
    return sa.insert(table).values(row_params(table))


def _oldest(
    compiled: Compiler, table: sa.Table, at: sa.ColumnElement[int], *deletable: sa.ColumnElement[bool]
) -> Statement:
    return compiled.delete_some(table, at < number("before"), *deletable, oldest_by=at)


class Statements:
    """The journal's statements, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._compiled = compiled = Compiler(name)
        self.spaces = statements(SpaceStatements, name)
        self.agents = statements(AgentStatements, name)
        self.memory = statements(MemoryStatements, name)
        self.rows = statements(RowStatements, name)
        self.children = statements(ChildStatements, name)
        self.retention = statements(RetentionStatements, name)
        self._commit_statements(compiled)
        self._thread_statements(compiled)
        self._message_statements(compiled)
        self._run_statements(compiled)
        self._call_statements(compiled)
        self._event_statements(compiled)
        self._inbox_statements(compiled)

    def _put(self, table: sa.Table, *key: str) -> Statement:
        """Return the statement that inserts or updates a row."""
        inserted = self._insert(table).values(row_params(table))
        rest = {c.name: inserted.excluded[c.name] for c in table.columns if c.name not in key}
        return self._compiled(inserted.on_conflict_do_update(index_elements=list(key), set_=rest))

    def _commit_statements(self, compiled: Compiler) -> None:
        self.insert_commit = compiled(_insert_all(commits))
        self.commit_answer = compiled(sa.select(commits.c.answer).where(commits.c.token == string("token")))
        probes = sa.or_(commits.c.token == string("first"), commits.c.token == string("second"))
        self.probes = compiled(sa.select(commits.c.token).where(probes))
        self.probe = self._put(commits, "token")
        self.drop_commit = compiled(sa.delete(commits).where(commits.c.token == string("token")))
        self.prune_commits = _oldest(compiled, commits, commits.c.at)

    def _thread_statements(self, compiled: Compiler) -> None:
        held = sa.and_(
            threads.c.id == string("thread_id"),
            threads.c.epoch == number("held_epoch"),
            threads.c.seq == number("held_seq"),
        )
        moved = {
            "epoch": threads.c.epoch + number("raised"),
            "seq": threads.c.seq + number("said"),
            "ev": threads.c.ev + number("happened"),
            "begun": sa.bindparam("begun", type_=sa.Boolean),
        }
        fence = sa.update(threads).where(held).values(moved).returning(threads.c.ev, threads.c.posted)
        self.fence = compiled(fence)
        next_run = {"run_id": threads.c.next_run_id, "next_run_id": sa.null(), "begun": sa.false()}
        self.fence_and_close = compiled(fence.values(next_run))
        opened = fence.where(threads.c.run_id.is_(None), NOT_OVER).values(run_id=string("run_id"))
        self.fence_and_open = compiled(opened)

    def _message_statements(self, compiled: Compiler) -> None:
        self.insert_message = compiled(_insert_all(messages))
        edited = sa.select(messages.c.thread_id, messages.c.seq, number("until"), messages.c.body).where(
            messages.c.thread_id == string("thread_id"), messages.c.seq == number("seq")
        )
        columns = ["thread_id", "seq", "until", "body"]
        self.keep_version = compiled(
            self._insert(message_versions).from_select(columns, edited).on_conflict_do_nothing()
        )
        self.edit_message = compiled(
            sa.update(messages)
            .where(messages.c.thread_id == string("thread_id"), messages.c.seq == number("seq"))
            .values(body=string("body"))
        )

    def _run_statements(self, compiled: Compiler) -> None:
        self.insert_step = compiled(_insert_all(steps))
        by_id = sa.and_(runs.c.id == string("id"), runs.c.thread_id == string("thread_id"), _NOT_OVER)
        asked = sa.select(runs.c.cancel_requested_at).where(by_id)
        self.hold_run = compiled(asked.with_for_update(key_share=True))
        self._save = sa.update(runs).where(by_id).returning(runs.c.cancel_requested_at)
        self.save_run = cache(self._save_run)
        every = {c: sa.bindparam(c, type_=runs.c[c].type) for c in SAVED_COLUMNS}
        self.end_run = compiled(self._save.values(every).where(runs.c.cancel_requested_at.is_(None)))

    def _save_run(self, columns: tuple[str, ...]) -> Statement:
        """Return the statement that updates these columns of an unfinished run."""
        return self._compiled(self._save.values({c: sa.bindparam(c, type_=runs.c[c].type) for c in columns}))

    def _call_statements(self, compiled: Compiler) -> None:
        self.insert_call = compiled(_insert_all(calls))
        by_id = sa.and_(calls.c.id == string("id"), calls.c.thread_id == string("thread_id"))
        moved = {each: sa.bindparam(each, type_=calls.c[each].type) for each in MOVED}
        move = sa.update(calls).where(by_id, calls.c.status == string("was")).values(moved)
        self.move_call = compiled(move.returning(calls.c.id))

    def _event_statements(self, compiled: Compiler) -> None:
        numbers = {"n": number("n") + number("base")}  # `base` is 0 or taken from the fence
        self.insert_event = compiled(_insert_all(events).values(numbers).inline())  # otherwise it returns `n`
        self.events_between = compiled(
            sa.select(events)
            .where(
                events.c.thread_id == string("thread_id"),
                events.c.n.between(number("first"), number("last")),
            )
            .order_by(events.c.n)
        )
        at_work = sa.exists().where(threads.c.id == events.c.thread_id, threads.c.run_id.is_not(None))
        self.prune_events = _oldest(compiled, events, events.c.at, ~at_work)
        self.prune_space_events = _oldest(compiled, space_events, space_events.c.at)

    def _inbox_statements(self, compiled: Compiler) -> None:
        self.all_read = cache(self._all_read)

    def _all_read(self, count: int) -> Statement:
        """Return the query that returns the thread if `posted` is unchanged and all joined messages are read.

        `count` named messages need not be read.
        """
        unread = sa.select(inbox.c.event_id).where(
            inbox.c.thread_id == string("thread_id"),
            inbox.c.status == "pending",
            inbox.c.run_id == string("run_id"),
            *(inbox.c.event_id != string(f"read_{i}") for i in range(count)),
        )
        by_key = sa.and_(threads.c.id == string("thread_id"), threads.c.posted == number("posted"))
        return self._compiled(sa.select(threads.c.posted).where(by_key, ~unread.exists()))
