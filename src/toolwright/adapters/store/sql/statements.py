"""Statements that write the journal, of threads and of all other nouns, compiled once per dialect."""

from functools import cache, partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningUpdate

from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Statement,
    number,
    row_params,
    statements,
    string,
)
from toolwright.adapters.store.sql.agents import AgentStatements, McpStatements, SessionStatements
from toolwright.adapters.store.sql.children import ChildStatements, woken
from toolwright.adapters.store.sql.memory import MemoryStatements
from toolwright.adapters.store.sql.messages import calls, message_versions, messages
from toolwright.adapters.store.sql.records import record_statements
from toolwright.adapters.store.sql.retention import RetentionStatements
from toolwright.adapters.store.sql.spaces import SpaceStatements, space_events
from toolwright.adapters.store.sql.threads import (
    NOT_OVER,
    commits,
    compactions,
    entities,
    env,
    events,
    files,
    inbox,
    runs,
    sent_texts,
    steps,
    threads,
    wakes,
)
from toolwright.core.threads.call import MOVES, OPEN
from toolwright.core.threads.run import OVER

SAVED_COLUMNS = tuple(
    [
        c.name
        for c in runs.columns
        if c.name not in {"id", "thread_id", "agent", "created_at", "cancel_requested_at"}
    ]
)
"""The columns of runs that a worker writes. The other columns never change, or are written by others."""

_NOT_OVER = sa.and_(*(runs.c.status != status for status in sorted(OVER)))
_OPEN = sa.or_(*(calls.c.status == status for status in OPEN))
_CALL_NOT_OVER = sa.or_(*(calls.c.status == status for status, moves in MOVES.items() if moves))


def _insert_all(table: sa.Table) -> sa.Insert:
    return sa.insert(table).values(row_params(table))


def _retry_run() -> ReturningUpdate[*tuple[Any, ...]]:
    """Return the statement that retries a failed run if it is the last of its thread."""
    later = runs.alias("later")
    is_last = ~sa.exists().where(
        later.c.thread_id == runs.c.thread_id, later.c.created_at > runs.c.created_at
    )
    failed = sa.and_(
        runs.c.id == string("id"),
        runs.c.thread_id == string("thread_id"),
        runs.c.status == "failed",
        is_last,
    )
    empty = dict.fromkeys(
        ("stop_reason", "error", "error_code", "waiting", "cancel_requested_at", "completed_at"), sa.null()
    )
    return (
        sa.update(runs)
        .where(failed)
        .values(status="queued", lives=0, isolated=0, **empty)
        .returning(runs.c.id)
    )


def _oldest(
    compiled: Compiler,
    table: sa.Table,
    key: tuple[sa.ColumnElement[Any], ...],  # of any types
    at: sa.ColumnElement[int],
    *deletable: sa.ColumnElement[bool],
) -> Statement:
    return compiled.delete_some(table, key, at < number("before"), *deletable, oldest_by=at)


class Statements:
    """The journal's statements, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._compiled = compiled = Compiler(name)
        self.spaces = statements(SpaceStatements, name)
        self.agents = statements(AgentStatements, name)
        self.memory = statements(MemoryStatements, name)
        self.mcp = statements(McpStatements, name)
        self.sessions = statements(SessionStatements, name)
        self.records = partial(record_statements, name)
        self.children = statements(ChildStatements, name)
        self.retention = statements(RetentionStatements, name)
        self._commit_statements(compiled)
        self._thread_statements(compiled)
        self._message_statements(compiled)
        self._run_statements(compiled)
        self._call_statements(compiled)
        self._event_statements(compiled)
        self._inbox_statements(compiled)
        self._file_statements(compiled)
        self._env_statements(compiled)
        self._entity_statements(compiled)
        self._wake_statements(compiled)

    def _once(self, table: sa.Table, *returning: str) -> Statement:
        """Return the statement that inserts a row, or returns nothing if it exists."""
        statement = self._insert(table).values(row_params(table)).on_conflict_do_nothing()
        return self._compiled(statement.returning(*(table.c[column] for column in returning)))

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
        self.prune_commits = _oldest(compiled, commits, (commits.c.token,), commits.c.at)

    def _thread_statements(self, compiled: Compiler) -> None:
        self.insert_thread = self._once(threads, "id")
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
        self.post = compiled(
            sa.update(threads)
            .where(threads.c.id == string("thread_id"), NOT_OVER)
            .values(
                posted=threads.c.posted + 1,
                ev=threads.c.ev + sa.case((threads.c.run_id.is_(None), 1), else_=0),
                run_id=sa.func.coalesce(threads.c.run_id, string("new_run")),
            )
            .returning(threads.c.run_id, threads.c.posted, threads.c.ev, threads.c.agent)
        )
        idle = sa.and_(threads.c.id == string("thread_id"), threads.c.run_id.is_(None), NOT_OVER)
        self.open_idle = compiled(
            sa.update(threads)
            .where(idle)
            .values(
                run_id=string("run_id"),
                begun=sa.true(),
                state=sa.null(),
                report=sa.null(),
                faults=0,
                not_before=sa.null(),
                ev=threads.c.ev + 1,
            )
            .returning(threads.c.ev, threads.c.agent)
        )
        self.rename_thread = compiled(
            sa.update(threads)
            .where(threads.c.id == string("thread_id"))
            .values(name=string("name"))
            .returning(threads.c.id)
        )
        self.thread_state = compiled(sa.select(threads.c.state).where(threads.c.id == string("thread_id")))
        self.touch = compiled(
            sa.update(threads)
            .where(threads.c.id == string("thread_id"))
            .values(ev=threads.c.ev + number("more"))
            .returning(threads.c.ev, threads.c.agent)
        )
        self.count_posted = compiled(
            sa.update(threads)
            .where(threads.c.id == string("thread_id"))
            .values(posted=threads.c.posted + 1)
            .returning(threads.c.posted)
        )

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
        self.drop_message = compiled(
            sa.update(messages)
            .where(messages.c.thread_id == string("thread_id"), messages.c.seq == number("seq"))
            .values(kept=sa.false())
        )

        m, other = messages.c, messages.alias()
        pinned = sa.select(sa.func.count()).select_from(other)
        pinned = pinned.where(
            other.c.thread_id == string("thread_id"),
            other.c.pinned,
            other.c.kept,
            other.c.seq != number("seq"),
        )
        by_key = (m.thread_id == string("thread_id"), m.seq == number("seq"), m.within.is_(None))
        self.pin_message = compiled(
            sa.update(messages)
            .where(*by_key, m.kept, pinned.scalar_subquery() < number("most"))
            .values(pinned=sa.true())
            .returning(m.seq)
        )
        self.unpin_message = compiled(
            sa.update(messages).where(*by_key).values(pinned=sa.false()).returning(m.seq)
        )

        hiding = sa.update(threads).where(threads.c.id == string("thread_id"))
        self.count_hide = compiled(hiding.values(hides=threads.c.hides + 1).returning(threads.c.id))
        self.hide_message = compiled(
            sa.update(messages)
            .where(*by_key, m.kept)
            .values(kept=sa.false(), hidden_by=string("by"))
            .returning(m.seq)
        )
        self.show_message = compiled(
            sa.update(messages)
            .where(*by_key, m.hidden_by.is_not(None))
            .values(kept=sa.true(), hidden_by=sa.null())
            .returning(m.seq)
        )

        self.insert_compaction = self._once(compactions, "number")
        compacted = sa.update(threads).where(threads.c.id == string("thread_id"))
        self.count_compaction = compiled(
            compacted.values(
                compacted=threads.c.compacted + 1,
                cut=sa.func.coalesce(number("cut"), threads.c.cut),
                posted=threads.c.posted + number("told"),
            ).returning(threads.c.id)
        )
        self.keep_text = self._once(sent_texts, "digest")

    def _run_statements(self, compiled: Compiler) -> None:
        self.insert_run = self._once(runs, "id")
        self.insert_step = compiled(_insert_all(steps))
        by_id = sa.and_(runs.c.id == string("id"), runs.c.thread_id == string("thread_id"), _NOT_OVER)
        self.find_open_run = compiled(sa.select(runs.c.id).where(by_id))
        asked = sa.select(runs.c.cancel_requested_at).where(by_id)
        self.hold_run = compiled(asked.with_for_update(key_share=True))
        completed = sa.and_(
            runs.c.id == string("id"), runs.c.thread_id == string("thread_id"), runs.c.status == "completed"
        )
        opened = {"status": "queued", "completed_at": sa.null(), "calls_only": sa.true()}
        self.reopen_run = compiled(sa.update(runs).where(completed).values(opened).returning(runs.c.id))
        self.retry_run = compiled(_retry_run())
        self.begin = compiled(
            sa.update(threads).where(threads.c.id == string("thread_id")).values(begun=sa.true())
        )
        self._save = sa.update(runs).where(by_id).returning(runs.c.cancel_requested_at)
        self.save_run = cache(self._save_run)
        every = {c: sa.bindparam(c, type_=runs.c[c].type) for c in SAVED_COLUMNS}
        self.end_run = compiled(self._save.values(every).where(runs.c.cancel_requested_at.is_(None)))
        self.request_cancel = compiled(
            sa.update(runs)
            .where(runs.c.id == string("run_id"), runs.c.thread_id == string("thread_id"), _NOT_OVER)
            .values(cancel_requested_at=sa.func.coalesce(runs.c.cancel_requested_at, number("at")))
            .returning(runs.c.id)
        )

    def _save_run(self, columns: tuple[str, ...]) -> Statement:
        """Return the statement that updates these columns of an unfinished run."""
        return self._compiled(self._save.values({c: sa.bindparam(c, type_=runs.c[c].type) for c in columns}))

    def _call_statements(self, compiled: Compiler) -> None:
        self.insert_call = compiled(_insert_all(calls))
        self.insert_call_once = self._once(calls, "id")
        by_id = sa.and_(calls.c.id == string("call_id"), calls.c.thread_id == string("thread_id"))
        self.hold_call = compiled(sa.select(calls.c.id).where(by_id, _CALL_NOT_OVER).with_for_update())
        move = (
            sa.update(calls)
            .where(by_id, calls.c.status == string("was"))
            .values(
                status=string("now"),
                result=sa.func.coalesce(string("result"), calls.c.result),
                attempts=calls.c.attempts + number("begun"),
                deadline=sa.func.coalesce(number("deadline"), calls.c.deadline),
                expires_at=sa.func.coalesce(number("expires_at"), calls.c.expires_at),
                space_id=sa.func.coalesce(string("space_id"), calls.c.space_id),
                started_at=sa.func.coalesce(number("started_at"), calls.c.started_at),
                completed_at=sa.func.coalesce(number("completed_at"), calls.c.completed_at),
            )
            .returning(calls.c.id)
        )
        self.move_call = compiled(move)
        self.ask_call = compiled(move.values(approval="asked", terms=string("terms")))
        settle = (
            sa.update(calls)
            .where(by_id, _OPEN)
            .values(
                status=string("now"),
                route=sa.case((calls.c.status == "pending", "inbox"), else_="inline"),
                result=string("result"),
                completed_at=number("at"),
            )
            .returning(calls.c.route, calls.c.run_id)
        )
        self.settle = compiled(settle)
        in_time = sa.or_(calls.c.expires_at.is_(None), calls.c.expires_at > number("at"))
        is_asked = sa.and_(calls.c.status == "waiting", calls.c.approval == "asked")
        unasked = sa.or_(calls.c.status == "pending", calls.c.approval.is_(None), calls.c.approval != "asked")
        self.settle_in_time = compiled(settle.where(in_time, unasked))
        self.refuse_call = compiled(settle.where(in_time, is_asked))
        self.approve_call = compiled(
            sa.update(calls)
            .where(by_id, in_time, is_asked)
            .values(
                status="created",
                approval=string("approval"),
                arguments=sa.func.coalesce(string("arguments"), calls.c.arguments),
                terms=sa.null(),
                expires_at=sa.null(),
            )
            .returning(calls.c.run_id)
        )
        self.settle_late = compiled(settle.where(calls.c.expires_at <= number("at")))
        over = sa.and_(calls.c.repeatable, calls.c.leased_until <= number("at"))
        free = sa.or_(calls.c.worker.is_(None), calls.c.worker == string("worker"), over)
        self.lease_call = compiled(
            sa.update(calls)
            .where(calls.c.id == string("call_id"), _OPEN, in_time, free)
            .values(worker=string("worker"), leased_until=number("until"))
            .returning(calls.c.id)
        )

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
        key = (events.c.thread_id, events.c.n)
        self.prune_events = _oldest(compiled, events, key, events.c.at, ~at_work)

    def _inbox_statements(self, compiled: Compiler) -> None:
        self.insert_inbox = self._once(inbox, "n")
        self.read_inbox = compiled(
            sa.update(inbox)
            .where(
                inbox.c.thread_id == string("thread_id"),
                inbox.c.event_id == string("event_id"),
                inbox.c.status == "pending",
            )
            .values(status="processed")
            .returning(inbox.c.n)
        )
        by_key = sa.and_(inbox.c.thread_id == string("thread_id"), inbox.c.event_id == string("event_id"))
        changed = {
            "status": string("now"),
            "run_id": string("run_id"),
            "attempts": number("attempts"),
        }
        self.change_inbox = compiled(
            sa.update(inbox)
            .where(by_key, inbox.c.status == string("was"))
            .values(changed)
            .returning(inbox.c.n)
        )
        self.retry_event = compiled(
            sa.update(inbox)
            .where(by_key, inbox.c.status == "failed")
            .values(status="pending", run_id=sa.null(), attempts=0)
            .returning(inbox.c.n)
        )
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

    def _file_statements(self, compiled: Compiler) -> None:
        self.insert_file = self._once(files, "path")
        self.put_file = self._put(files, "thread_id", "folded")
        self.drop_file = compiled(
            sa.delete(files).where(
                files.c.thread_id == string("thread_id"), files.c.folded == string("folded")
            )
        )

    def _env_statements(self, compiled: Compiler) -> None:
        self.put_env = self._put(env, "owner", "kind", "name")
        by_key = sa.and_(
            env.c.owner == string("owner"),
            env.c.kind == string("kind"),
            env.c.name == string("name"),
        )
        self.reseal = compiled(
            sa.update(env)
            .where(by_key, env.c.value == string("was"))
            .values(value=string("now"), key=string("by"))
            .returning(env.c.name)
        )
        self.drop_env = compiled(sa.delete(env).where(by_key))
        self.drop_env_of = compiled(sa.delete(env).where(env.c.owner == string("owner")))

    def _entity_statements(self, compiled: Compiler) -> None:
        by_id = sa.select(entities.c.id).where(entities.c.id == string("entity_id"))
        self.hold_entity = compiled(by_id.with_for_update(read=True))  # not deleted before this commit
        self.insert_entity = self._once(entities, "id")
        gone = sa.delete(entities).where(entities.c.id == string("entity_id")).returning(entities.c.id)
        self.drop_entity = compiled(gone)
        self.drop_entity_seen = compiled(gone.where(entities.c.updated_at == number("seen")))

    def _wake_statements(self, compiled: Compiler) -> None:
        one = self._insert(wakes).values(thread_id=string("thread_id"), due=number("due"), gen=number("gen"))
        self.wake = compiled(woken(one))
        leased = sa.and_(wakes.c.thread_id == string("thread_id"), wakes.c.node == string("node"))
        self.hold_lease = compiled(sa.select(wakes.c.node).where(leased).with_for_update())
        is_unchanged = sa.and_(wakes.c.thread_id == string("thread_id"), wakes.c.gen == number("gen"))
        self.drop_wake = compiled(sa.delete(wakes).where(is_unchanged).returning(wakes.c.gen))
        self.delay_wake = compiled(
            sa.update(wakes).where(is_unchanged).values(due=number("due")).returning(wakes.c.gen)
        )
        self.prune_space_events = _oldest(compiled, space_events, (space_events.c.n,), space_events.c.at)
