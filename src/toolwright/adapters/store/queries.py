"""The statements that read the journal, in SQLAlchemy, compiled once for a driver."""

from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Boolean, Text, bindparam, func, select

from toolwright.adapters.store.compiled import Compiler, DialectName, Rows, Statement
from toolwright.adapters.store.tables import calls, events, inbox, messages, runs, steps, threads, wakes


def _big(name: str) -> Any:  # SQLAlchemy's own parameter type is generic over what it is compared with
    return bindparam(name, type_=BigInteger)


def _text(name: str) -> Any:  # as above
    return bindparam(name, type_=Text)


def _page(statement: Rows) -> Rows:
    return statement.limit(_big("limit")).offset(_big("offset"))


class Queries:
    """The journal's queries, compiled for one dialect; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = compiled = Compiler(name)
        self.runs = cache(self._runs)
        self.calls = cache(self._calls)

        in_thread = _text("thread_id")
        self.thread = compiled(select(threads).where(threads.c.id == in_thread))
        every_thread = _page(select(threads).order_by(threads.c.created_at, threads.c.id))
        self.threads = compiled(every_thread)
        self.threads_of = compiled(every_thread.where(threads.c.user_id == _text("user_id")))

        said = select(messages).order_by(messages.c.seq)
        here = said.where(messages.c.thread_id == in_thread)
        self.kept_messages = compiled(here.where(messages.c.kept == bindparam("kept", type_=Boolean)))
        self.messages = compiled(_page(here))
        self.run_messages = compiled(said.where(messages.c.run_id == _text("run_id")))

        waiting = select(inbox).where(inbox.c.thread_id == in_thread).order_by(inbox.c.n)
        self.unread = compiled(waiting.where(inbox.c.status == "pending"))
        self.inbox = compiled(_page(waiting))

        self.run = compiled(select(runs).where(runs.c.id == _text("run_id")))
        self.steps = compiled(select(steps).where(steps.c.run_id == _text("run_id")).order_by(steps.c.number))
        self.call = compiled(select(calls).where(calls.c.id == _text("call_id")))
        of_step = (calls.c.run_id == _text("run_id"), calls.c.step == _big("step"))
        self.step_calls = compiled(select(calls).where(*of_step).order_by(calls.c.position))

        self.wake = compiled(select(wakes).where(wakes.c.thread_id == in_thread))
        due = select(wakes).where(wakes.c.due <= _big("at")).order_by(wakes.c.due)
        self.due = compiled(due.limit(_big("limit")))
        self.next_due = compiled(select(func.min(wakes.c.due)).where(wakes.c.due > _big("at")))
        self._event_queries(compiled)

    def _event_queries(self, compiled: Compiler) -> None:
        newer = select(events).where(events.c.n > _big("after")).order_by(events.c.n).limit(_big("limit"))
        of_thread = events.c.thread_id == _text("topic")
        of_run = events.c.run_id == _text("topic")
        bounds = select(func.coalesce(func.min(events.c.n), 0), func.coalesce(func.max(events.c.n), 0))
        self.events = {"thread": compiled(newer.where(of_thread)), "run": compiled(newer.where(of_run))}
        self.bounds = {"thread": compiled(bounds.where(of_thread)), "run": compiled(bounds.where(of_run))}

    def _runs(self, filters: tuple[str, ...]) -> Statement:
        chosen = [runs.c[name] == _text(name) for name in filters]
        newest_first = select(runs).order_by(runs.c.created_at.desc(), runs.c.id.desc())
        return self._compiled(_page(newest_first.where(*chosen)))

    def _calls(self, filters: tuple[str, ...], statuses: int) -> Statement:
        chosen = [calls.c[name] == _text(name) for name in filters]
        if statuses:
            chosen.append(calls.c.status.in_([_text(f"status_{i}") for i in range(statuses)]))
        return self._compiled(_page(select(calls).where(*chosen).order_by(calls.c.created_at, calls.c.id)))
