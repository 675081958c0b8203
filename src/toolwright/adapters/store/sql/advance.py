"""Programs of a worker's units: everything that advances a thread, protected by its fencing token."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    Values,
    micros,
)
from toolwright.adapters.store.engine.outcome import NOTHING, UnitResult, numbered
from toolwright.adapters.store.engine.program import Attempt, Op, Program, Statement, StatementBatch, behind
from toolwright.adapters.store.rules.effects import perform
from toolwright.adapters.store.rules.late_results import pending_calls, without_orphans
from toolwright.adapters.store.rules.parts import leave, lock, new_files, wake_askers, write_env, write_files
from toolwright.adapters.store.rules.units import NOT_OVER
from toolwright.adapters.store.sql.messages import CALLS, MESSAGES
from toolwright.adapters.store.sql.programs import as_op, other_program, translated
from toolwright.adapters.store.sql.statements import SAVED_COLUMNS, Statements
from toolwright.adapters.store.sql.threads import EVENTS, RUNS, STEPS
from toolwright.core.journal.rows import Add, Delete, Find, Move
from toolwright.core.journal.units import Advance, Answer, Claim, Committed, Result, Takeover, Unit
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Wake

RunOp: TypeAlias = Callable[[Op], list[Row]]
Append: TypeAlias = Callable[[Statement, Sequence[Values]], None]

_saved = attrgetter(*SAVED_COLUMNS)
FENCE = 0  # index of the fence among the ops of an advance


class Ops(NamedTuple):  # a tuple, because every commit of a worker creates one
    """The ops of an advance without its effects, and the indexes of the ops whose rows are used."""

    all: list[Op]
    run: int
    leaving: int


def program(unit: Unit, sql: Statements) -> Program:
    """Return the unit as a program."""
    return _advance(unit, sql) if isinstance(unit, Advance) else other_program(unit, sql)


def _advance(unit: Advance, sql: Statements) -> Program:
    """Commit a worker's unit, starting with its fence. First checks whether an agent will read late results."""
    alone = not (unit.effects or unit.env)
    ops, rows, done = _ops(unit, sql), list[Row](), NOTHING
    if pending_calls(unit):
        if alone:
            answered = Op(sql.agents.answered, {"thread_id": unit.thread_id}, "agent")
            rows = (yield Attempt(ops=behind(answered, ops.all)))[1:]
        if not rows:
            unit = yield from translated(without_orphans(unit), sql)
            ops, alone = _ops(unit, sql), False
    if alone:
        rows = rows or (yield StatementBatch(ops=ops.all))
    else:
        yield from translated(lock(unit.effects, unit.thread_id), sql)
        rows = yield ops.all
        yield from translated(wake_askers(unit.env, unit), sql)
        done = yield from translated(perform(unit.effects, unit), sql)
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
    """Return the ops of the unit. Most units have few parts; an empty part costs little."""
    run, thread_id = unit.run, unit.thread_id
    ops = [_fence(unit, sql)]
    if unit.changes:
        ops += _moves(unit, sql)
    ops += _saves(unit, sql)
    saved = len(ops) - 1
    if unit.read:
        read = {"status": "processed"}
        ops += [sql.rows.op(_move_event(thread_id, each, "pending", read)) for each in unit.read]
    if unit.inbox:
        ops += _inbox(unit, sql)
    if unit.node is not None:
        leased = {"thread_id": thread_id, "node": unit.node}
        lease = Find(kind=Wake, where=leased, columns=("node",), lock="update", guard="lease")
        ops.append(sql.rows.op(lease))
    if run.over:
        ops.append(_all_read(unit, sql))
    if unit.files:
        ops += [as_op(each, sql) for each in new_files(unit.files)]
    place = len(ops)
    if unit.leaving is not None:
        ops.append(as_op(leave(thread_id, unit.leaving), sql))
    if unit.files or unit.env:
        written = [*write_files(thread_id, unit.files), *write_env(unit.env)]
        ops += [as_op(each, sql)._replace(again=isinstance(each, Delete)) for each in written]
    if unit.calls or unit.nested:
        ops.append(_new_calls(unit, sql))
    if unit.dropped or unit.edited:
        ops += _rewritten(unit, sql)
    if unit.messages:
        ops.append(_insert(sql.insert_message, _message_rows(unit, sql)))
    if unit.step is not None:
        ops.append(Op(sql.insert_step, STEPS.values(sql.insert_step)(unit.step)))
    if unit.events:
        ops.append(_insert(sql.insert_event, _event_rows(unit, sql, 0), {"base": (FENCE, 0)}))
    return Ops(ops, saved, place)


def is_plain(unit: Advance) -> bool:
    """Return whether the unit is a step of a continuing run with only messages, calls and events."""
    if type(unit) is not Result and type(unit) is not Answer:
        return False
    written = unit.effects or unit.env or unit.files or unit.nested or unit.dropped or unit.edited
    inbox = unit.read or unit.inbox or unit.leaving is not None or unit.node is not None
    return not (written or inbox or unit.run.over or pending_calls(unit))


def write_plain(unit: Advance, sql: Statements, run: RunOp, append: Append) -> UnitResult:
    """Write a plain unit with a synchronous driver: the ops of `advance`, in the same order.

    Nearly all units are plain. This saves a third of the time of their program.
    """
    [(ev, posted)] = run(_fence(unit, sql))
    if unit.changes:
        for move in _moves(unit, sql):
            run(move)
    [save] = _saves(unit, sql)
    [(cancel_requested,)] = run(save)
    if unit.calls:
        run(_new_calls(unit, sql))
    if unit.messages:
        append(sql.insert_message, _message_rows(unit, sql))
    if unit.step is not None:
        append(sql.insert_step, [STEPS.values(sql.insert_step)(unit.step)])
    if unit.events:
        append(sql.insert_event, _event_rows(unit, sql, ev))
    answer = Committed(run_id=unit.run.id, posted=posted, cancel_requested=cancel_requested is not None)
    return UnitResult(answer, numbered(unit.events, ev, unit, unit.thread_id, unit.run.id, unit.run.agent))


def _new_calls(unit: Advance, sql: Statements) -> Op:
    row = CALLS.values(sql.insert_call)
    return _insert(sql.insert_call, [row(call) for call in (*unit.calls, *unit.nested)])


def _rewritten(unit: Advance, sql: Statements) -> list[Op]:
    """Return the ops that delete and edit messages."""
    ops: list[Op] = []
    for seq in unit.dropped:
        where = {"thread_id": unit.thread_id, "seq": seq}
        ops.append(sql.rows.op(Move(kind=Message, where=where, fields={"kept": False})))
    for message in unit.edited:
        version: Params = {"thread_id": unit.thread_id, "seq": message.seq, "until": unit.seq}
        edited = MESSAGES.params(message, thread_id=unit.thread_id)
        ops += [Op(sql.keep_version, version), Op(sql.edit_message, edited)]
    return ops


def _opens(unit: Advance) -> bool:
    """Return whether the run is a new one."""
    return isinstance(unit, Claim) and unit.opens


def _saves(unit: Advance, sql: Statements) -> list[Op]:
    """Return the ops that save the run. A run whose cancellation was requested can only end as cancelled."""
    run = unit.run
    if _opens(unit):
        return [sql.rows.op(Add(record=run))]
    params: Params = {"id": run.id, "thread_id": unit.thread_id}
    if run.over and run.status != "cancelled":
        open_run = {"id": run.id, "thread_id": unit.thread_id, "status": NOT_OVER}
        is_open = sql.rows.op(Find(kind=Run, where=open_run, columns=("id",), guard="run"))
        return [is_open, Op(sql.end_run, RUNS.params(run), "cancel")]
    columns = SAVED_COLUMNS if unit.was is None else _changed_columns(unit.was, run)
    if not columns:
        return [Op(sql.hold_run, params, "run")]
    save = sql.save_run(columns)
    return [Op(save, RUNS.values(save)(run), "run")]


def _changed_columns(was: Run, run: Run) -> tuple[str, ...]:
    """Return the columns whose values are different objects. Equal values can be stored differently, as 1 and true."""
    if was is run:
        return ()
    pairs = zip(SAVED_COLUMNS, _saved(was), _saved(run), strict=True)
    return tuple([column for column, old, new in pairs if old is not new])


def _all_read(unit: Advance, sql: Statements) -> Op:
    """Check that this unit reads all joined messages and that none has arrived since. Conflict: `unread`."""
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


def _event_rows(unit: Advance, sql: Statements, last: int) -> list[Values]:
    """Return the rows of the events, numbered backwards from the thread's last number.

    `last` is 0 if another op provides that number.
    """
    thread_id, run_id, agent, at = unit.thread_id, unit.run.id, unit.run.agent, micros(unit.at)
    row = EVENTS.values(sql.insert_event, "thread_id", "n", "base", "run_id", "agent", "at")
    return [
        row(draft, thread_id, n, last, run_id, agent, at)
        for n, draft in enumerate(unit.events, 1 - len(unit.events))
    ]


def _inbox(unit: Advance, sql: Statements) -> list[Op]:
    ops: list[Op] = []
    for change in unit.inbox:
        fields = {"status": change.now, "run_id": change.run_id, "attempts": change.attempts}
        ops.append(sql.rows.op(_move_event(unit.thread_id, change.event_id, change.was, fields)))
    return ops


def _move_event(thread_id: str, event_id: str, was: str, fields: Mapping[str, object]) -> Move:
    where = {"thread_id": thread_id, "event_id": event_id, "status": was}
    return Move(kind=InboxEvent, where=where, fields=fields, guard="inbox")


def _moves(unit: Advance, sql: Statements) -> list[Op]:
    """Return the first transition of each call, then further transitions of the same calls."""
    moves: dict[str, Op] = {}
    again: list[Op] = []
    row = CALLS.values(sql.move_call, "thread_id", "was")
    for change in unit.changes:
        op = Op(sql.move_call, row(change.after, unit.thread_id, change.before.status), "call")
        if moves.setdefault(change.after.id, op) is not op:
            again.append(op._replace(again=True))
    return [*moves.values(), *again]


def _message_rows(unit: Advance, sql: Statements) -> list[Values]:
    row, thread_id = MESSAGES.values(sql.insert_message, "thread_id", "seq"), unit.thread_id
    return [row(message, thread_id, seq) for seq, message in enumerate(unit.messages, unit.seq + 1)]


def _insert(
    statement: Statement,
    params: Sequence[Params | Values],
    given: Mapping[str, tuple[int, int]] | None = None,
) -> Op:
    """Return one op that inserts all of these rows. There must be at least one."""
    return Op(statement, params[0], None, params[1:], given)
