"""The statements that write families of threads, their requests and their values."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Table,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.compiled import Compiler, DialectName
from toolwright.adapters.store.statements_wakes import woken
from toolwright.adapters.store.tables_children import asked, requests, thread_values
from toolwright.adapters.store.tables_events import wakes
from toolwright.adapters.store.tables_threads import runs, threads
from toolwright.core.child import MUTE
from toolwright.core.run import OVER


def _big(name: str) -> Any:  # SQLAlchemy's own parameter type is generic over what it is compared with
    return bindparam(name, type_=BigInteger)


def _text(name: str) -> Any:  # as above
    return bindparam(name, type_=Text)


def _all(table: Table) -> dict[str, Any]:  # parameters of the columns' types
    return {c.name: bindparam(c.name, type_=c.type) for c in table.columns}


class ChildStatements:
    """Statements about children, compiled for one dialect; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        compiled = Compiler(name)
        self._thread_statements(compiled)
        self._cancel_statements(compiled)
        self._request_statements(compiled)
        put = self._insert(thread_values).values(_all(thread_values))
        key = [thread_values.c.thread_id, thread_values.c.key]
        self.put_value = compiled(
            put.on_conflict_do_update(index_elements=key, set_={"value": put.excluded.value})
        )
        this = and_(thread_values.c.thread_id == _text("thread_id"), thread_values.c.key == _text("key"))
        self.drop_value = compiled(delete(thread_values).where(this))

    def _thread_statements(self, compiled: Compiler) -> None:
        here = threads.c.id == _text("thread_id")
        changed = update(threads).where(here)
        self.forget_state = compiled(changed.values(report=null(), state=null()))
        begun = {"run_id": _text("new_run"), "report": _text("report"), "state": null()}
        counted = {"posted": threads.c.posted + 1, "ev": threads.c.ev + 1}
        idle = changed.where(threads.c.run_id.is_(None)).values(**begun, **counted)
        self.begin = compiled(
            idle.returning(threads.c.run_id, threads.c.posted, threads.c.ev, threads.c.agent)
        )
        awaited = or_(
            threads.c.report == _text("report"), and_(threads.c.report.is_(None), _text("report").is_(None))
        )
        ended = changed.values(report=null(), state=_text("state"))
        not_terminated = or_(threads.c.state.is_(None), threads.c.state != "terminated")
        self.report = compiled(ended.where(awaited, not_terminated).returning(threads.c.id))
        self.end_unheard = compiled(
            changed.values(
                report=null(),
                state=case((threads.c.state == "terminated", "terminated"), else_=_text("state")),
            )
        )
        self.terminate = compiled(changed.values(report=MUTE, state="terminated"))
        self.close = compiled(changed.values(state="terminated"))
        ours = and_(
            threads.c.parent_id == _text("thread_id"), threads.c.agent == _text("agent"), not_terminated
        )
        alive = select(func.count()).select_from(threads).where(ours).scalar_subquery()
        self.room = compiled(select(literal(1, BigInteger)).where(alive < _big("most")))
        self.hand_off = compiled(changed.values(active_agent=_text("agent"), activated=null()))
        self.activated = compiled(changed.values(activated=_text("activated")))

    def _cancel_statements(self, compiled: Compiler) -> None:
        busy = and_(threads.c.parent_id == _text("thread_id"), threads.c.run_id.is_not(None))
        self.mute_children = compiled(update(threads).where(busy).values(report=MUTE))
        self.cancel_children = compiled(self._cancelled(select(threads.c.run_id).where(busy)))
        self.wake_children = compiled(self._woken(select(threads.c.id, _big("due"), _big("gen")).where(busy)))
        one = and_(threads.c.id == _text("thread_id"), threads.c.run_id.is_not(None))
        self.cancel_run = compiled(self._cancelled(select(threads.c.run_id).where(one)))
        self.wake_busy = compiled(self._woken(select(threads.c.id, _big("due"), _big("gen")).where(one)))

    def _cancelled(self, chosen: Any) -> Any:  # statements of SQLAlchemy
        open_run = and_(runs.c.id.in_(chosen), *(runs.c.status != status for status in sorted(OVER)))
        at = func.coalesce(runs.c.cancel_requested_at, _big("at"))
        return update(runs).where(open_run).values(cancel_requested_at=at)

    def _woken(self, chosen: Any) -> Any:  # as above
        all_of_them = chosen.where(literal(value=True))  # SQLite wants a WHERE before ON CONFLICT
        several = self._insert(wakes).from_select(["thread_id", "due", "gen"], all_of_them)
        # It returns something, so that it is not put together with others that wake the same thread.
        return woken(several).returning(wakes.c.thread_id)

    def _request_statements(self, compiled: Compiler) -> None:
        once = self._insert(requests).values(_all(requests)).on_conflict_do_nothing()
        self.open_request = compiled(once)
        self.ask = compiled(self._insert(asked).values(_all(asked)).on_conflict_do_nothing())
        closed = delete(requests).where(requests.c.id == _text("id"))
        self.close_request = compiled(closed)
        held = update(requests).where(requests.c.id == _text("id")).values(id=requests.c.id)
        self.hold_request = compiled(held.returning(requests.c.id))
        self.take_request = compiled(closed.returning(requests.c.id))
        self.drop_asked = compiled(delete(asked).where(asked.c.request_id == _text("id")))
        asking = (
            select(asked.c.thread_id, _big("due"), _big("gen"))
            .where(asked.c.name == _text("name"))
            .distinct()
        )
        self.wake_askers = compiled(self._woken(asking))
