"""The statements that write families of threads, their requests, values and wakes."""

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import (
    BigInteger,
    and_,
    case,
    delete,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.statement import (
    Compiler,
    DialectName,
    Statement,
    number,
    row_params,
    string,
)
from toolwright.adapters.store.tables.calls import calls
from toolwright.adapters.store.tables.children import asked, requests, thread_values
from toolwright.adapters.store.tables.events import inbox, wakes
from toolwright.adapters.store.tables.threads import NOT_OVER, family_of, runs, threads
from toolwright.core.threads.call import MOVES
from toolwright.core.threads.child import MUTE
from toolwright.core.threads.run import OVER


class Inserting(Protocol):
    """An INSERT of either dialect into the wakes."""

    @property
    def excluded(self) -> Any:  # the columns of the row that was to be inserted
        ...

    def on_conflict_do_update(self, *, index_elements: Any, set_: Any) -> Any: ...  # as SQLAlchemy has them


def woken(inserting: Inserting) -> Any:  # a statement of SQLAlchemy
    """Return the schedule entry with the earlier due time and the next generation."""
    due = inserting.excluded.due
    earlier = case((due < wakes.c.due, due), else_=wakes.c.due)
    return inserting.on_conflict_do_update(
        index_elements=[wakes.c.thread_id], set_={"due": earlier, "gen": wakes.c.gen + 1}
    )


# Said so that no database goes through all pending calls of the journal: there may be many of them.
PENDING = and_(*(calls.c.status != status for status in MOVES if status != "pending"))


class ChildStatements:
    """Statements about children, compiled for one dialect; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        compiled = Compiler(name)
        self._thread_statements(compiled)
        self._cancel_statements(compiled)
        self._request_statements(compiled)
        put = self._insert(thread_values).values(row_params(thread_values))
        key = [thread_values.c.thread_id, thread_values.c.key]
        self.put_value = compiled(
            put.on_conflict_do_update(index_elements=key, set_={"value": put.excluded.value})
        )
        this = and_(thread_values.c.thread_id == string("thread_id"), thread_values.c.key == string("key"))
        self.drop_value = compiled(delete(thread_values).where(this))

    def _thread_statements(self, compiled: Compiler) -> None:
        here = threads.c.id == string("thread_id")
        changed = update(threads).where(here)
        self.forget_state = compiled(changed.values(report=null(), state=null()))
        begun = {"run_id": string("new_run"), "report": string("report"), "state": null()}
        counted = {"posted": threads.c.posted + 1, "ev": threads.c.ev + 1}
        idle = changed.where(threads.c.run_id.is_(None), NOT_OVER).values(**begun, **counted)
        self.begin = compiled(
            idle.returning(threads.c.run_id, threads.c.posted, threads.c.ev, threads.c.agent)
        )
        awaited = or_(
            threads.c.report == string("report"),
            and_(threads.c.report.is_(None), string("report").is_(None)),
        )
        ended = changed.values(report=null(), state=string("state"))
        self.report = compiled(ended.where(awaited, NOT_OVER).returning(threads.c.id))
        self.end_unheard = compiled(
            changed.values(
                report=case((threads.c.run_id.is_(None), null()), else_=threads.c.report),
                state=case((NOT_OVER, string("state")), else_=threads.c.state),
            ).returning(threads.c.id)
        )
        self.close = compiled(changed.values(state="terminated").returning(threads.c.id))
        ours = and_(threads.c.parent_id == string("thread_id"), threads.c.agent == string("agent"), NOT_OVER)
        alive = select(func.count()).select_from(threads).where(ours).scalar_subquery()
        self.room = compiled(select(literal(1, BigInteger)).where(alive < number("most")))
        self.hand_off = compiled(
            changed.values(active_agent=string("agent"), activated=null()).returning(threads.c.id)
        )
        self.activated = compiled(changed.values(activated=string("activated")).returning(threads.c.id))
        self.back_off = compiled(
            changed.values(faults=number("faults"), not_before=number("until")).returning(threads.c.id)
        )
        self.hurry = compiled(changed.values(not_before=null()))

    def _cancel_statements(self, compiled: Compiler) -> None:
        here = string("thread_id")
        children = select(threads.c.id).where(threads.c.parent_id == here)
        self.stop_below = self._stopping(children, compiled)
        self.stop = self._stopping(select(threads.c.id).where(threads.c.id == here), compiled)
        over = select(threads.c.id).where(threads.c.id == here, not_(NOT_OVER))
        own = calls.c.run_id.in_(select(runs.c.id).where(runs.c.thread_id == here))
        hopes = update(calls).where(own, PENDING, over.exists())
        cancelled = {"status": "cancelled", "result": string("result"), "completed_at": number("at")}
        self.give_up = compiled(hopes.values(**cancelled).returning(*calls.c))
        unread = update(inbox).where(inbox.c.thread_id == here, inbox.c.status == "pending")
        unread = unread.where(over.where(threads.c.run_id.is_(None)).exists())
        self.set_aside = compiled(unread.values(status="failed").returning(inbox.c.event_id))
        self.below = compiled(select(family_of(children).c.id))

    def _stopping(self, first: Any, compiled: Compiler) -> Sequence[Statement]:  # statements of SQLAlchemy
        """Return statements that stop the runs of the threads and their descendants, including queued ones.

        No report is sent, so calls that still accept a late result are cancelled. Waiting calls are ended by their own
        runs.
        """
        family = select(family_of(first).c.id)
        at_work = and_(threads.c.id.in_(family), threads.c.run_id.is_not(None))
        chosen = union_all(
            select(threads.c.run_id).where(at_work), select(threads.c.next_run_id).where(at_work)
        )
        open_run = and_(runs.c.id.in_(chosen), *(runs.c.status != status for status in sorted(OVER)))
        at = func.coalesce(runs.c.cancel_requested_at, number("at"))
        # All return something, so that they are executed in this order, which is that of locks.
        awaited = select(threads.c.report).where(at_work)
        unheard = update(calls).where(calls.c.id.in_(awaited), PENDING)
        return (
            compiled(unheard.values(status="cancelled", completed_at=number("at")).returning(calls.c.id)),
            compiled(update(runs).where(open_run).values(cancel_requested_at=at).returning(runs.c.id)),
            compiled(update(threads).where(at_work).values(report=MUTE).returning(threads.c.id)),
            compiled(self._woken(select(threads.c.id, number("due"), number("gen")).where(at_work))),
        )

    def _woken(self, chosen: Any) -> Any:  # as above
        all_of_them = chosen.where(literal(value=True))  # SQLite wants a WHERE before ON CONFLICT
        several = self._insert(wakes).from_select(["thread_id", "due", "gen"], all_of_them)
        # It returns something, so that it is not put together with others that wake the same thread.
        return woken(several).returning(wakes.c.thread_id)

    def _request_statements(self, compiled: Compiler) -> None:
        once = self._insert(requests).values(row_params(requests)).on_conflict_do_nothing()
        self.open_request = compiled(once)
        self.ask = compiled(self._insert(asked).values(row_params(asked)).on_conflict_do_nothing())
        closed = delete(requests).where(requests.c.id == string("id"))
        self.close_request = compiled(closed)
        living = select(threads.c.id).where(threads.c.id == requests.c.thread_id, NOT_OVER)
        held = update(requests).where(requests.c.id == string("id"), living.exists()).values(id=requests.c.id)
        self.hold_request = compiled(held.returning(requests.c.id))
        self.take_request = compiled(closed.returning(requests.c.id))
        self.drop_asked = compiled(delete(asked).where(asked.c.request_id == string("id")))
        asking = (
            select(asked.c.thread_id, number("due"), number("gen"))
            .where(asked.c.name == string("name"))
            .distinct()
        )
        self.wake_askers = compiled(self._woken(asking))
