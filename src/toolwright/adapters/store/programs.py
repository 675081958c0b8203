"""Units of work as programs: ordered statements, each with the rows it must touch and what it returns.

A program is a generator: it yields an `Op`, is sent the rows, and returns what was committed. It does not
know whether its driver is SQLite's writer thread or a Postgres connection. A guard that fails raises
`GuardFailed`, and the driver rolls the whole unit back.

Two things a driver may do to spare round trips. A program may yield several guarded ops at once, on different
rows, and is sent one row of each: they may be run as one statement. What returns nothing may be run any time
before COMMIT: no program reads what it wrote.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from toolwright.adapters.store import rows
from toolwright.adapters.store.compiled import Statement
from toolwright.adapters.store.instants import micros, micros_or_none
from toolwright.adapters.store.rows import Params, Row
from toolwright.adapters.store.statements import Statements
from toolwright.adapters.store.written import GuardFailed, Written, numbered
from toolwright.core.call import CallChange, is_over
from toolwright.core.event import Event
from toolwright.core.units import (
    Advance,
    Claim,
    Committed,
    CreateThread,
    Guard,
    Leave,
    Leaving,
    PostMessage,
    Probe,
    Prune,
    RequestCancel,
    Settle,
    Submit,
    Takeover,
    Unit,
)

PROBE = "probe"  # the token of the row that probes write


@dataclass(frozen=True, slots=True)
class Op:
    """One statement to run. With a `guard` it must give exactly one row; `more` are further executions."""

    statement: Statement
    params: Params
    guard: Guard | None = None
    more: Sequence[Params] | None = None


Ops: TypeAlias = Op | Sequence[Op]
Program: TypeAlias = Generator[Ops, list[Row], Written]


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
        case Probe():
            return _probe(unit, sql)
        case _:
            raise TypeError(f"No store knows the unit {type(unit).__name__}.")


def _create_thread(unit: CreateThread, sql: Statements) -> Program:
    yield Op(sql.insert_thread, rows.thread_params(unit.thread), "duplicate")
    return Written(Committed())


def _post(unit: PostMessage, sql: Statements) -> Program:
    thread_id, run = unit.event.thread_id, unit.run
    [(run_id, posted, ev, agent)] = yield Op(sql.post, {"thread_id": thread_id, "new_run": run.id}, "thread")
    events: tuple[Event, ...] = ()
    if run_id == run.id:
        yield Op(sql.insert_run, rows.run_params(run), "duplicate")
        events = numbered((unit.queued,), ev, unit, thread_id, run_id, agent)
    event = replace(unit.event, run_id=run_id)
    yield Op(sql.insert_inbox, rows.inbox_params(event, posted), "duplicate")
    yield from _insert_events(events, sql)
    yield _wake(unit, thread_id, sql)
    return Written(Committed(run_id=run_id), events)


def _request_cancel(unit: RequestCancel, sql: Statements) -> Program:
    at = micros(unit.at)
    yield Op(sql.request_cancel, {"thread_id": unit.thread_id, "run_id": unit.run_id, "at": at}, "run")
    yield _wake(unit, unit.thread_id, sql)
    return Written(Committed(run_id=unit.run_id))


def _settle(unit: Settle, sql: Statements) -> Program:
    here: Params = {"thread_id": unit.thread_id}
    [(ev, agent)] = yield Op(sql.touch, here, "thread")
    statement = sql.settle_in_time if isinstance(unit, Submit) else sql.settle
    [(route, run_id)] = yield Op(
        statement,
        {
            **here,
            "call_id": unit.call_id,
            "now": unit.outcome,
            "result": rows.text_or_none(unit.result),
            "at": micros(unit.at),
        },
        "call",
    )
    if route == "inbox":
        [(posted,)] = yield Op(sql.count_posted, here, "thread")
        yield Op(sql.insert_inbox, rows.inbox_params(unit.notice, posted), "duplicate")
    events = numbered((unit.event,), ev, unit, unit.thread_id, run_id, agent)
    yield from _insert_events(events, sql)
    yield _wake(unit, unit.thread_id, sql)
    return Written(Committed(run_id=run_id, route=route), events)


def _advance(unit: Advance, sql: Statements) -> Program:
    run = unit.run
    opens = isinstance(unit, Claim) and unit.opens
    moves, again = _moves(unit, sql)
    row = rows.run_params(run)
    save = Op(sql.insert_run, row, "duplicate") if opens else Op(sql.save_run, row, "run")
    reads = [Op(sql.read_inbox, {"thread_id": unit.thread_id, "event_id": one}, "inbox") for one in unit.read]
    found = yield [_fence(unit, opens, sql), *moves, save, *reads]
    for op in again:
        found += yield op
    ev, posted = found[0]
    cancel_requested = not opens and found[1 + len(moves)][0] is not None
    if run.over:
        if run.status != "cancelled" and cancel_requested:
            raise GuardFailed("cancel")
        unread = yield Op(sql.joined_unread, {"thread_id": unit.thread_id, "run_id": run.id})
        if unread:
            raise GuardFailed("unread")
    left = unit.leaving is None or bool((yield _leaving(unit.thread_id, unit.leaving, sql)))
    yield from _insert(sql.insert_call, [rows.call_params(call) for call in unit.calls])
    yield from _insert(sql.insert_message, _message_params(unit))
    if unit.step is not None:
        yield Op(sql.insert_step, rows.step_params(unit.step))
    events = numbered(unit.events, ev, unit, unit.thread_id, run.id, run.agent)
    yield from _insert_events(events, sql)
    answer = Committed(run_id=run.id, posted=posted, cancel_requested=cancel_requested, left=left)
    return Written(answer, events)


def _fence(unit: Advance, opens: bool, sql: Statements) -> Op:
    params: Params = {
        "thread_id": unit.thread_id,
        "run_id": unit.run.id,
        "held_epoch": unit.epoch,
        "held_seq": unit.seq,
        "raised": 1 if isinstance(unit, Claim | Takeover) else 0,
        "said": len(unit.messages),
        "happened": len(unit.events),
    }
    statement = sql.fence_and_open if opens else sql.fence_and_close if unit.run.over else sql.fence
    return Op(statement, params, "fence")


def _leave(unit: Leave, sql: Statements) -> Program:
    left = yield _leaving(unit.thread_id, unit.leaving, sql)
    return Written(Committed(left=bool(left)))


def _prune(unit: Prune, sql: Statements) -> Program:
    before = micros(unit.before)
    events = yield Op(sql.prune_events, {"before": before, "limit": unit.limit})
    left = unit.limit - len(events)
    commits = yield Op(sql.prune_commits, {"before": before, "limit": left})
    return Written(Committed(count=len(events) + len(commits)))


def _probe(unit: Probe, sql: Statements) -> Program:
    yield Op(sql.probe, {"token": PROBE, "answer": "{}", "at": micros(unit.at)})
    return Written(Committed())


def _leaving(thread_id: str, leaving: Leaving, sql: Statements) -> Op:
    seen: Params = {"thread_id": thread_id, "gen": leaving.gen}
    if leaving.due is None:
        return Op(sql.drop_wake, seen)
    return Op(sql.delay_wake, {**seen, "due": micros(leaving.due)})


def _wake(unit: Unit, thread_id: str, sql: Statements) -> Op:
    at = micros(unit.at)
    return Op(sql.wake, {"thread_id": thread_id, "due": at, "gen": at})


def _moves(unit: Advance, sql: Statements) -> tuple[list[Op], list[Op]]:
    """The first move of each call, and those that move one of them again."""
    moves: dict[str, Op] = {}
    again: list[Op] = []
    for change in unit.changes:
        op = Op(sql.move_call, _move_params(unit.thread_id, change), "call")
        if moves.setdefault(change.id, op) is not op:
            again.append(op)
    return list(moves.values()), again


def _move_params(thread_id: str, change: CallChange) -> Params:
    at = micros(change.at)
    return {
        "thread_id": thread_id,
        "call_id": change.id,
        "was": change.was,
        "now": change.now,
        "result": rows.text_or_none(change.result),
        "begun": int(change.runs),
        "deadline": micros_or_none(change.deadline),
        "expires_at": micros_or_none(change.expires_at),
        "started_at": at if change.starts else None,
        "completed_at": at if is_over(change.now) else None,
    }


def _message_params(unit: Advance) -> list[Params]:
    return [
        rows.message_params(message, unit.thread_id, seq)
        for seq, message in enumerate(unit.messages, unit.seq + 1)
    ]


def _insert_events(events: tuple[Event, ...], sql: Statements) -> Generator[Op, list[Row], None]:
    yield from _insert(sql.insert_event, [rows.event_params(event) for event in events])


def _insert(statement: Statement, params: list[Params]) -> Generator[Op, list[Row], None]:
    if params:
        yield Op(statement, params[0], more=params[1:])
