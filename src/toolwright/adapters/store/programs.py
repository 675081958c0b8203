"""Units of work as programs: ordered statements, each with the rows it must touch and what it returns.

A program is a generator: it yields an `Op`, is sent the rows, and returns what was committed. It does not know
whether its driver is SQLite's writer thread or a Postgres connection. A guard that fails raises `GuardFailed`,
and the driver rolls the whole unit back.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from toolwright.adapters.store import rows
from toolwright.adapters.store.compiled import Statement
from toolwright.adapters.store.rows import Params, Row
from toolwright.adapters.store.statements import Statements
from toolwright.core.call import CallChange, is_over
from toolwright.core.event import Event, EventDraft
from toolwright.core.units import (
    Advance,
    Claim,
    Committed,
    CreateThread,
    Guard,
    Leave,
    Leaving,
    PostMessage,
    Prune,
    RequestCancel,
    Settle,
    Submit,
    Takeover,
    Unit,
)


@dataclass(frozen=True, slots=True)
class Op:
    """One statement to run. With a `guard` it must give exactly one row. Many `params` are many executions."""

    statement: Statement
    params: Params
    guard: Guard | None = None
    more: Sequence[Params] | None = None


class GuardFailed(Exception):
    """A statement did not touch the row it must."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(guard)
        self.guard: Guard = guard


@dataclass(frozen=True, slots=True)
class Written:
    """What a program did: the answer for the caller, and the events for the bus."""

    answer: Committed
    events: tuple[Event, ...] = ()


Program: TypeAlias = Generator[Op, list[Row], Written]


def program(unit: Unit, sql: Statements) -> Program:
    """The unit as a program."""
    match unit:
        case Advance():
            return _advance(unit, sql)
        case PostMessage():
            return _post(unit, sql)
        case Settle():
            return _settle(unit, sql)
        case RequestCancel():
            return _request_cancel(unit, sql)
        case CreateThread():
            return _create_thread(unit, sql)
        case Leave():
            return _leave(unit, sql)
        case Prune():
            return _prune(unit, sql)
        case _:
            raise TypeError(f"No store knows the unit {type(unit).__name__}.")


def _create_thread(unit: CreateThread, sql: Statements) -> Program:
    yield Op(sql.insert_thread, rows.thread_params(unit.thread), "duplicate")
    return Written(Committed())


def _post(unit: PostMessage, sql: Statements) -> Program:
    thread_id, run = unit.event.thread_id, unit.run
    [(run_id, posted, ev, agent)] = yield Op(
        sql.post, {"thread_id": thread_id, "new_run": run.id}, "thread"
    )
    events: tuple[Event, ...] = ()
    if run_id == run.id:
        yield Op(sql.insert_run, rows.run_params(run), "duplicate")
        events = _numbered((unit.queued,), ev, unit, thread_id, run_id, agent)
    event = replace(unit.event, run_id=run_id)
    yield Op(sql.insert_inbox, rows.inbox_params(event, posted), "duplicate")
    yield from _insert_events(events, sql)
    yield _wake(unit, thread_id, sql)
    return Written(Committed(run_id=run_id), events)


def _request_cancel(unit: RequestCancel, sql: Statements) -> Program:
    yield Op(sql.request_cancel, {"run_id": unit.run_id, "at": rows.micros(unit.at)}, "run")
    yield _wake(unit, unit.thread_id, sql)
    return Written(Committed(run_id=unit.run_id))


def _settle(unit: Settle, sql: Statements) -> Program:
    [(posted, ev, agent)] = yield Op(sql.touch, {"thread_id": unit.thread_id}, "thread")
    statement = sql.settle_in_time if isinstance(unit, Submit) else sql.settle
    [(route, run_id)] = yield Op(
        statement,
        {
            "call_id": unit.call_id,
            "now": unit.outcome,
            "result": rows.text_or_none(unit.result),
            "at": rows.micros(unit.at),
        },
        "call",
    )
    if route == "inbox":
        yield Op(sql.insert_inbox, rows.inbox_params(unit.notice, posted), "duplicate")
    events = _numbered((unit.event,), ev, unit, unit.thread_id, run_id, agent)
    yield from _insert_events(events, sql)
    yield _wake(unit, unit.thread_id, sql)
    return Written(Committed(run_id=run_id, route=route), events)


def _advance(unit: Advance, sql: Statements) -> Program:
    run = unit.run
    [(ev, posted)] = yield Op(
        sql.fence_and_close if run.over else sql.fence,
        {
            "thread_id": unit.thread_id,
            "held_epoch": unit.epoch,
            "held_seq": unit.seq,
            "raised": 1 if isinstance(unit, Claim | Takeover) else 0,
            "said": len(unit.messages),
            "happened": len(unit.events),
        },
        "fence",
    )
    for change in unit.changes:
        yield Op(sql.move_call, _move_params(change), "call")
    yield from _insert(sql.insert_call, [rows.call_params(call) for call in unit.calls])
    [(cancel_requested_at,)] = yield Op(sql.save_run, rows.run_params(run), "run")
    if run.over and run.status != "cancelled" and cancel_requested_at is not None:
        raise GuardFailed("cancel")
    for event_id in unit.read:
        yield Op(sql.read_inbox, {"thread_id": unit.thread_id, "event_id": event_id}, "inbox")
    if run.over:
        unread = yield Op(sql.joined_unread, {"thread_id": unit.thread_id, "run_id": run.id})
        if unread:
            raise GuardFailed("unread")
    yield from _insert(sql.insert_message, _message_params(unit))
    if unit.step is not None:
        yield Op(sql.insert_step, rows.step_params(unit.step))
    events = _numbered(unit.events, ev, unit, unit.thread_id, run.id, run.agent)
    yield from _insert_events(events, sql)
    left = True
    if unit.leaving is not None:
        left = bool((yield _leaving(unit.thread_id, unit.leaving, sql)))
    return Written(
        Committed(
            run_id=run.id, posted=posted, cancel_requested=cancel_requested_at is not None, left=left
        ),
        events,
    )


def _leave(unit: Leave, sql: Statements) -> Program:
    left = yield _leaving(unit.thread_id, unit.leaving, sql)
    return Written(Committed(left=bool(left)))


def _prune(unit: Prune, sql: Statements) -> Program:
    params: Params = {"before": rows.micros(unit.before), "limit": unit.limit}
    events = yield Op(sql.prune_events, params)
    commits = yield Op(sql.prune_commits, params)
    return Written(Committed(count=len(events) + len(commits)))


def _leaving(thread_id: str, leaving: Leaving, sql: Statements) -> Op:
    seen: Params = {"thread_id": thread_id, "gen": leaving.gen}
    if leaving.due is None:
        return Op(sql.drop_wake, seen)
    return Op(sql.delay_wake, {**seen, "due": rows.micros(leaving.due)})


def _wake(unit: Unit, thread_id: str, sql: Statements) -> Op:
    at = rows.micros(unit.at)
    return Op(sql.wake, {"thread_id": thread_id, "due": at, "gen": at})


def _move_params(change: CallChange) -> Params:
    at = rows.micros(change.at)
    return {
        "call_id": change.id,
        "was": change.was,
        "now": change.now,
        "result": rows.text_or_none(change.result),
        "begun": 1 if change.now == "running" else 0,
        "deadline": rows.micros_or_none(change.deadline),
        "expires_at": rows.micros_or_none(change.expires_at),
        "started_at": at if change.now == "running" and change.was == "created" else None,
        "completed_at": at if is_over(change.now) else None,
    }


def _message_params(unit: Advance) -> list[Params]:
    return [
        rows.message_params(message, unit.thread_id, seq)
        for seq, message in enumerate(unit.messages, unit.seq + 1)
    ]


def _numbered(
    drafts: tuple[EventDraft, ...], last: int, unit: Unit, thread_id: str, run_id: str, agent: str
) -> tuple[Event, ...]:
    first = last - len(drafts) + 1
    return tuple(
        [
            Event(
                thread_id=thread_id,
                run_id=run_id,
                agent=agent,
                type=draft.type,
                payload=draft.payload,
                at=unit.at,
                n=n,
            )
            for n, draft in enumerate(drafts, first)
        ]
    )


def _insert_events(events: tuple[Event, ...], sql: Statements) -> Generator[Op, list[Row], None]:
    yield from _insert(sql.insert_event, [rows.event_params(event) for event in events])


def _insert(statement: Statement, params: list[Params]) -> Generator[Op, list[Row], None]:
    if params:
        yield Op(statement, params[0], more=params[1:])
