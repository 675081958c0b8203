"""SQL of retention: rows left by deleted threads, spaces and agents, and bytes that threads keep.

`dropped_threads` lists deleted threads by id, and deleted spaces and agents by note.

`kept_bytes` has every digest that a file of a thread ever had, because messages refer to bytes even after the file at
the path was replaced. Triggers on `files` insert the rows, so that no writer of a file can omit it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Params, Row, instant, micros
from toolwright.adapters.store.engine.columns import Instant, metadata
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    Statement,
    number,
    read_rows,
    row_params,
    statements,
    string,
)
from toolwright.adapters.store.sql.children import thread_values
from toolwright.adapters.store.sql.memory import passage_keepers, passages
from toolwright.adapters.store.sql.messages import calls, message_versions, messages
from toolwright.adapters.store.sql.records import RECORDS
from toolwright.adapters.store.sql.spaces import reactions, space_messages
from toolwright.adapters.store.sql.threads import (
    THREADS,
    compactions,
    env,
    events,
    family_of,
    files,
    inbox,
    runs,
    sent_texts,
    steps,
    threads,
)
from toolwright.core.journal.retention import DroppedBytes
from toolwright.core.threads.thread import Thread
from toolwright.core.value import owned_by

_Piece: TypeAlias = tuple[sa.Table, sa.ColumnElement[bool]]
"""A table, and the condition of the rows that go with a deleted thread, space or agent."""
_LATEST = micros(datetime.max.replace(tzinfo=UTC))
"""Latest valid time. Invalid times count as later and are not touched; an inspection reports them."""
_KEEP = "INSERT INTO kept_bytes VALUES (NEW.digest, NEW.thread_id) ON CONFLICT DO NOTHING"


dropped_threads = sa.Table(
    "dropped_threads",
    metadata,
    sa.Column("thread_id", sa.Text, primary_key=True),
    sa.Column("at", Instant(), nullable=False),
)

kept_bytes = sa.Table(
    "kept_bytes",
    metadata,
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("digest", "thread_id"),
    sa.Index("kept_bytes_by_thread", "thread_id"),
)

dropped_bytes = sa.Table(
    "dropped_bytes",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("at", Instant(), nullable=False),
)

DROPPED_BYTES = Mapping(dropped_bytes, DroppedBytes)

for trigger in (
    f"CREATE TRIGGER files_written AFTER INSERT ON files BEGIN {_KEEP}; END",
    f"CREATE TRIGGER files_rewritten AFTER UPDATE OF digest ON files BEGIN {_KEEP}; END",
):
    event.listen(files, "after_create", sa.DDL(trigger).execute_if(dialect="sqlite"))
"""On Postgres it is one trigger with a function, which the migration creates."""


class RetentionStatements:
    """Statements about deleted threads, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._compiled = compiled = Compiler(name)
        self._sweeps(compiled)
        self._reads(compiled)

    def _reads(self, compiled: Compiler) -> None:
        first = sa.select(threads.c.id).where(threads.c.id == string("thread_id"))
        family = sa.select(family_of(first).c.id)
        at_work = sa.select(threads.c.id, threads.c.run_id).where(
            threads.c.id.in_(family), threads.c.run_id.is_not(None)
        )
        self.open_runs = compiled(at_work.order_by(threads.c.id))
        ended_late = sa.or_(runs.c.completed_at >= number("before"), runs.c.completed_at.is_(None))
        self.idle = compiled(
            THREADS.query.where(
                threads.c.id > string("after"),
                threads.c.parent_id.is_(None),
                threads.c.run_id.is_(None),
                threads.c.created_at < number("before"),
                ~sa.exists().where(runs.c.thread_id == threads.c.id, ended_late),
            )
            .order_by(threads.c.id)
            .limit(number("limit"))
        )
        self.left = compiled(sa.select(dropped_threads.c.thread_id).limit(1))
        needed = sa.exists().where(kept_bytes.c.digest == dropped_bytes.c.digest)
        self.dropped_bytes = compiled(
            sa.select(dropped_bytes.c.digest, dropped_bytes.c.at, needed)
            .where(dropped_bytes.c.digest > string("after"), dropped_bytes.c.at < _LATEST)
            .order_by(dropped_bytes.c.digest)
            .limit(number("limit"))
        )

    def _sweeps(self, compiled: Compiler) -> None:
        oldest = sa.select(dropped_threads.c.thread_id).order_by(dropped_threads.c.at).limit(1)
        self.next_dropped = compiled(oldest.with_for_update(skip_locked=True))
        note = self._insert(dropped_threads).values(row_params(dropped_threads)).on_conflict_do_nothing()
        self.note = compiled(note.returning(dropped_threads.c.thread_id))
        thread_id = string("thread_id")
        noted = sa.select(dropped_threads.c.thread_id).where(dropped_threads.c.thread_id == thread_id)
        self.find_note = compiled(noted)
        its_messages = sa.select(space_messages.c.id).where(space_messages.c.space_id == thread_id)
        has_reactions = sa.exists().where(reactions.c.message_id == space_messages.c.id)
        of_space: list[_Piece] = [  # reactions are found by their messages
            (reactions, reactions.c.message_id.in_(its_messages)),
            (space_messages, sa.and_(space_messages.c.space_id == thread_id, ~has_reactions)),
        ]
        of_agent: list[_Piece] = [
            (passages, passages.c.agent_id == thread_id),
            (passage_keepers, passage_keepers.c.agent_id == thread_id),
        ]
        its_runs = sa.select(runs.c.id).where(runs.c.thread_id == thread_id)
        has_calls = sa.exists().where(calls.c.run_id == runs.c.id)
        has_steps = sa.exists().where(steps.c.run_id == runs.c.id)
        bytes_of_thread = (kept_bytes, kept_bytes.c.thread_id == thread_id)
        owned = (messages, inbox, events, files, thread_values, compactions, message_versions, sent_texts)
        records = [RECORDS[each].table for each in owned_by("thread_id")]
        of_thread: list[_Piece] = [  # calls and steps are found by their runs
            *[(each, each.c.thread_id == thread_id) for each in (*owned, *records)],
            (env, env.c.owner == thread_id),
            (calls, calls.c.run_id.in_(its_runs)),
            (steps, steps.c.run_id.in_(its_runs)),
            (runs, sa.and_(runs.c.thread_id == thread_id, ~has_calls, ~has_steps)),
        ]
        self.sweep_bytes = compiled.delete_some(*bytes_of_thread)
        self.sweeps = [compiled.delete_some(*each) for each in of_thread]
        self.sweeps_of_space = [compiled.delete_some(*each) for each in of_space]
        self.sweeps_of_agent = [compiled.delete_some(*each) for each in of_agent]
        self.forget_thread = self._forget([bytes_of_thread, *of_thread])
        self.forget_space = self._forget(of_space)
        self.forget_agent = self._forget(of_agent)

    def _forget(self, pieces: Sequence[_Piece]) -> Statement:
        """Compile the deletion of the note, once no row is left.

        A row that another transaction was writing is skipped on Postgres, which a later unit then deletes.
        """
        is_empty = [
            ~sa.exists(sa.select(sa.literal(1)).select_from(table).where(where).correlate(None))
            for table, where in pieces
        ]
        last = sa.delete(dropped_threads).where(dropped_threads.c.thread_id == string("note"), *is_empty)
        return self._compiled(last.returning(dropped_threads.c.thread_id))


class SqlRetention:
    """The `RetentionReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(RetentionStatements, driver.dialect)

    async def open_runs(self, thread_id: str) -> Sequence[tuple[str, str]]:
        return await read_rows(self._driver, _pairs, self._sql.open_runs, {"thread_id": thread_id})

    async def idle(self, before: datetime, after: str, limit: int) -> Sequence[Thread]:
        page: Params = {"before": micros(before), "after": after, "limit": limit}
        return await read_rows(self._driver, THREADS.readable, self._sql.idle, page)

    async def has_rows_left(self) -> bool:
        return bool(await read_rows(self._driver, list, self._sql.left, {}))

    async def dropped_bytes(self, after: str, limit: int) -> Sequence[DroppedBytes]:
        page: Params = {"after": after, "limit": limit}
        return await read_rows(self._driver, _notes, self._sql.dropped_bytes, page)


def _pairs(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [(str(thread_id), str(run_id)) for thread_id, run_id in rows]


def _notes(rows: Sequence[Row]) -> list[DroppedBytes]:
    return [DroppedBytes(digest=digest, at=instant(at), needed=bool(needed)) for digest, at, needed in rows]
