"""The units of a drain as programs: everything that moves a thread on, behind its fence."""

from dataclasses import dataclass

from toolwright.adapters.store.engine.codecs import Params, Row, long_text_or_none, micros, micros_or_none
from toolwright.adapters.store.engine.late_results import pending_calls
from toolwright.adapters.store.engine.outcome import NOTHING, UnitResult, numbered
from toolwright.adapters.store.engine.program import Attempt, Op, Program, StatementBatch, behind
from toolwright.adapters.store.programs.children import wake_askers
from toolwright.adapters.store.programs.late_results import judged
from toolwright.adapters.store.programs.parts import (
    insert,
    leaving,
    lock,
    new_files,
    write_env,
    write_files,
)
from toolwright.adapters.store.programs.spaces import perform
from toolwright.adapters.store.statements.threads import Statements
from toolwright.adapters.store.tables.calls import CALLS
from toolwright.adapters.store.tables.messages import MESSAGES
from toolwright.adapters.store.tables.threads import RUNS, STEPS
from toolwright.core.journal.units import Advance, Claim, Committed, Takeover
from toolwright.core.json_value import dumps
from toolwright.core.threads.call import CallChange, is_over
from toolwright.core.threads.message import Message

FENCE = 0  # the number of the fence among the ops of an advance


@dataclass(frozen=True, slots=True)
class Ops:
    """The ops of an advance but for its effects, and the numbers of those that return what is asked for."""

    all: list[Op]
    run: int
    leaving: int


def advance(unit: Advance, sql: Statements) -> Program:
    """A unit of a drain, which begins with its fence; before that, whether anybody will read a late result."""
    alone = not (unit.effects or unit.env)
    ops, rows, done = _ops(unit, sql), list[Row](), NOTHING
    if pending_calls(unit):
        if alone:
            answered = Op(sql.agents.answered, {"thread_id": unit.thread_id}, "agent")
            rows = (yield Attempt(behind(answered, ops.all)))[1:]
        if not rows:
            unit = yield from judged(unit, sql)
            ops, alone = _ops(unit, sql), False
    if alone:
        rows = rows or (yield StatementBatch(ops.all))
    else:
        yield from lock(unit.effects, unit.thread_id, sql)
        rows = yield ops.all
        yield from wake_askers(unit.env, unit, sql)
        done = yield from perform(unit.effects, unit, sql)
    ev, posted = rows[FENCE]
    run = unit.run
    answer = Committed(
        run_id=run.id,
        posted=posted,
        cancel_requested=not _opens(unit) and rows[ops.run][0] is not None,
        left=unit.leaving is None or bool(rows[ops.leaving]),
        seq=done.seq,
        runs=tuple(done.runs),
    )
    events = numbered(unit.events, ev, unit, unit.thread_id, run.id, run.agent)
    return UnitResult(answer, (*events, *done.events) if done.events else events)


def _ops(unit: Advance, sql: Statements) -> Ops:
    run = unit.run
    moves, again = _moves(unit, sql)
    saves = _saves(unit, sql)
    reads = [Op(sql.read_inbox, {"thread_id": unit.thread_id, "event_id": one}, "inbox") for one in unit.read]
    ops = [_fence(unit, sql), *moves, *again, *saves, *reads, *_inbox(unit, sql)]
    if unit.node is not None:
        ops.append(Op(sql.hold_lease, {"thread_id": unit.thread_id, "node": unit.node}, "lease"))
    saved = len(moves) + len(again) + len(saves)
    if run.over:
        ops.append(_all_read(unit, sql))
    ops += new_files(unit.files, sql)
    place = len(ops)
    if unit.leaving is not None:
        ops.append(leaving(unit.thread_id, unit.leaving, sql))
    ops += [*write_files(unit.thread_id, unit.files, sql), *write_env(unit.env, sql)]
    ops += insert(sql.insert_call, [CALLS.params(call) for call in (*unit.calls, *unit.nested)])
    ops += [Op(sql.drop_message, {"thread_id": unit.thread_id, "seq": seq}) for seq in unit.dropped]
    for message in unit.edited:
        version: Params = {"thread_id": unit.thread_id, "seq": message.seq, "until": unit.seq}
        ops += [Op(sql.keep_version, version), Op(sql.edit_message, _edited_params(message, unit))]
    ops += insert(sql.insert_message, _message_params(unit))
    if unit.step is not None:
        ops.append(Op(sql.insert_step, STEPS.params(unit.step)))
    ops += insert(sql.insert_event, _event_params(unit), {"base": (FENCE, 0)})
    return Ops(ops, saved, place)


def _opens(unit: Advance) -> bool:
    """Return whether the run is a new one."""
    return isinstance(unit, Claim) and unit.opens


def _saves(unit: Advance, sql: Statements) -> list[Op]:
    """The run's new row. A run that was asked to cancel ends in no other way."""
    row = RUNS.params(unit.run)
    if _opens(unit):
        return [Op(sql.insert_run, row, "duplicate")]
    if not unit.run.over or unit.run.status == "cancelled":
        return [Op(sql.save_run, row, "run")]
    here: Params = {"id": unit.run.id, "thread_id": unit.thread_id}
    return [Op(sql.find_open_run, here, "run"), Op(sql.end_run, row, "cancel")]


def _all_read(unit: Advance, sql: Statements) -> Op:
    """No joined message is unread but those that this unit reads, and none has come that we do not see here."""
    params: Params = {"thread_id": unit.thread_id, "run_id": unit.run.id}
    touched = [*unit.read, *[change.event_id for change in unit.inbox]]
    params.update({f"read_{i}": event_id for i, event_id in enumerate(touched)})
    return Op(sql.all_read(len(touched)), params, "unread", given={"posted": (FENCE, 1)})


def _fence(unit: Advance, sql: Statements) -> Op:
    params: Params = {
        "thread_id": unit.thread_id,
        "run_id": None if unit.run.over else unit.run.id,
        "held_epoch": unit.epoch,
        "held_seq": unit.seq,
        "raised": 1 if isinstance(unit, Claim | Takeover) else 0,
        "said": len(unit.messages),
        "happened": len(unit.events),
        "begun": unit.run.started_at is not None and not unit.run.over,
    }
    statement = sql.fence_and_open if _opens(unit) else sql.fence_and_close if unit.run.over else sql.fence
    return Op(statement, params, "fence")


def _event_params(unit: Advance) -> list[Params]:
    """The rows of the events, numbered from the thread's last number backwards."""
    run = unit.run
    same: Params = {"thread_id": unit.thread_id, "run_id": run.id, "agent": run.agent, "at": micros(unit.at)}
    return [
        {**same, "n": n, "type": draft.type, "payload": dumps(draft.payload)}
        for n, draft in enumerate(unit.events, 1 - len(unit.events))
    ]


def _inbox(unit: Advance, sql: Statements) -> list[Op]:
    return [
        Op(
            sql.change_inbox,
            {
                "thread_id": unit.thread_id,
                "event_id": change.event_id,
                "was": change.was,
                "now": change.now,
                "run_id": change.run_id,
                "attempts": change.attempts,
            },
            "inbox",
        )
        for change in unit.inbox
    ]


def _moves(unit: Advance, sql: Statements) -> tuple[list[Op], list[Op]]:
    """The first move of each call, and those that move one of them again."""
    moves: dict[str, Op] = {}
    again: list[Op] = []
    for change in unit.changes:
        params, statement = _move_params(unit.thread_id, change), sql.move_call
        if change.terms is not None:
            params, statement = {**params, "terms": long_text_or_none(change.terms)}, sql.ask_call
        op = Op(statement, params, "call")
        if moves.setdefault(change.id, op) is not op:
            again.append(op._replace(again=True))
    return list(moves.values()), again


def _move_params(thread_id: str, change: CallChange) -> Params:
    at = micros(change.at)
    return {
        "thread_id": thread_id,
        "call_id": change.id,
        "was": change.was,
        "now": change.now,
        "result": long_text_or_none(change.result),
        "begun": int(change.runs),
        "deadline": micros_or_none(change.deadline),
        "expires_at": micros_or_none(change.expires_at),
        "space_id": change.space_id,
        "started_at": at if change.starts else None,
        "completed_at": at if is_over(change.now) else None,
    }


def _message_params(unit: Advance) -> list[Params]:
    return [
        MESSAGES.params(message, thread_id=unit.thread_id, seq=seq)
        for seq, message in enumerate(unit.messages, unit.seq + 1)
    ]


def _edited_params(message: Message, unit: Advance) -> Params:
    return MESSAGES.params(message, thread_id=unit.thread_id)
