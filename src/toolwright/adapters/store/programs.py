"""Units of work as programs: ordered statements, each with the rows it must touch and what it returns.

A program is a generator: it yields an `Op`, is sent the rows, and returns what was committed. It does not
know whether its driver is SQLite's writer thread or a Postgres connection. A guard that fails raises
`GuardFailed`, and the driver rolls the whole unit back. What it may yield, and what its
author obeys, is in `ops`.
"""

from collections.abc import Sequence
from dataclasses import replace

from toolwright.adapters.store import rows, rows_agents, rows_kept
from toolwright.adapters.store.compiled import Statement
from toolwright.adapters.store.front_ends import front_end_params
from toolwright.adapters.store.instants import micros, micros_or_none
from toolwright.adapters.store.ops import Op, Program, Whole
from toolwright.adapters.store.programs_children import wake_askers
from toolwright.adapters.store.programs_spaces import lock, perform
from toolwright.adapters.store.rows import Params
from toolwright.adapters.store.statements import Statements
from toolwright.adapters.store.written import Written, numbered
from toolwright.core.call import CallChange, is_over
from toolwright.core.effects import DropMember
from toolwright.core.env import EnvChange
from toolwright.core.event import Event
from toolwright.core.file import FileChange
from toolwright.core.message import Message
from toolwright.core.mind import plan_timer
from toolwright.core.units import (
    Act,
    Advance,
    Claim,
    Committed,
    CreateThread,
    DropAgent,
    DropEntity,
    DropFrontEnd,
    Expire,
    LeaseCall,
    Leave,
    Leaving,
    PostMessage,
    Probe,
    Prune,
    RequestCancel,
    Reseal,
    RetryEvent,
    SaveAgent,
    SaveEntity,
    SaveFrontEnd,
    SetEnv,
    Settle,
    Submit,
    Takeover,
    Unit,
)

PROBE = "probe"  # the token of the row that probes write
FENCE = 0  # the number of the fence among the ops of an advance


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
        case Reseal():
            return _reseal(unit, sql)
        case SetEnv():
            return _set_env(unit, sql)
        case Act():
            return _act(unit, sql)
        case SaveAgent():
            return _save_agent(unit, sql)
        case DropAgent():
            return _drop_agent(unit, sql)
        case LeaseCall():
            return _lease_call(unit, sql)
        case RetryEvent():
            return _retry_event(unit, sql)
        case CreateThread():
            return _create_thread(unit, sql)
        case Leave():
            return _leave(unit, sql)
        case SaveEntity():
            return _save_entity(unit, sql)
        case SaveFrontEnd() | DropFrontEnd():
            return _front_end(unit, sql)
        case DropEntity():
            return _drop_entity(unit, sql)
        case Prune():
            return _prune(unit, sql)
        case Probe():
            return _probe(unit, sql)
        case _:
            raise TypeError(f"No store knows the unit {type(unit).__name__}.")


def _create_thread(unit: CreateThread, sql: Statements) -> Program:
    born = Op(sql.insert_thread, rows.thread_params(unit.thread), "duplicate")
    yield Whole([born, *_write_env(unit.env, sql)])
    return Written(Committed())


def _post(unit: PostMessage, sql: Statements) -> Program:
    thread_id, run = unit.event.thread_id, unit.run
    [(run_id, posted, ev, agent)] = yield Op(sql.post, {"thread_id": thread_id, "new_run": run.id}, "thread")
    events: tuple[Event, ...] = ()
    event = replace(unit.event, run_id=run_id)
    inserts = [Op(sql.insert_inbox, rows.inbox_params(event, posted), "duplicate")]
    if run_id == run.id:
        inserts.insert(0, Op(sql.insert_run, rows.run_params(run), "duplicate"))
        events = numbered((unit.queued,), ev, unit, thread_id, run_id, agent)
    yield [*inserts, *_new_files(unit.files, sql)]
    yield [
        *_write_files(thread_id, unit.files, sql),
        *_insert_events(events, sql),
        _wake(unit, thread_id, sql),
    ]
    return Written(Committed(run_id=run_id), events)


def _request_cancel(unit: RequestCancel, sql: Statements) -> Program:
    at = micros(unit.at)
    asked = Op(sql.request_cancel, {"thread_id": unit.thread_id, "run_id": unit.run_id, "at": at}, "run")
    yield Whole([asked, _wake(unit, unit.thread_id, sql)])
    return Written(Committed(run_id=unit.run_id))


def _set_env(unit: SetEnv, sql: Statements) -> Program:
    if unit.thread_id is not None:
        yield Op(sql.count_posted, {"thread_id": unit.thread_id}, "thread")
    if unit.entity_id is not None:
        yield Op(sql.hold_entity, {"entity_id": unit.entity_id}, "entity")
    if unit.env:
        yield _write_env(unit.env, sql)
        yield from wake_askers(unit.env, unit, sql)
    done = yield from perform(unit.effects, unit, sql)
    return Written(Committed(runs=tuple(done.runs)), tuple(done.events))


def _reseal(unit: Reseal, sql: Statements) -> Program:
    count = 0
    for was, now in unit.rows:
        here: Params = {"owner": was.owner, "kind": was.kind, "name": was.name}
        found = yield Op(sql.reseal, {**here, "was": was.value, "now": now.value, "by": now.key})
        count += len(found)
    return Written(Committed(count=count))


def _retry_event(unit: RetryEvent, sql: Statements) -> Program:
    yield Op(sql.retry_event, {"thread_id": unit.thread_id, "event_id": unit.event_id}, "inbox")
    yield _wake(unit, unit.thread_id, sql)
    return Written(Committed())


def _settle(unit: Settle, sql: Statements) -> Program:
    here: Params = {"thread_id": unit.thread_id}
    [(ev, agent)] = yield Op(sql.touch, here, "thread")
    [(route, run_id)] = yield Op(
        _settling(unit, sql),
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
    if unit.files:
        yield _new_files(unit.files, sql)
    events = numbered((unit.event,), ev, unit, unit.thread_id, run_id, agent)
    yield [*_insert_events(events, sql), _wake(unit, unit.thread_id, sql)]
    done = yield from perform(unit.effects, unit, sql)
    return Written(Committed(run_id=run_id, route=route), (*events, *done.events))


def _settling(unit: Settle, sql: Statements) -> Statement:
    match unit:
        case Submit():
            return sql.settle_in_time
        case Expire():
            return sql.settle_late
        case _:
            return sql.settle


def _lease_call(unit: LeaseCall, sql: Statements) -> Program:
    claim: Params = {"call_id": unit.call_id, "worker": rows.text_or_none(unit.worker), "at": micros(unit.at)}
    yield Op(sql.lease_call, {**claim, "until": micros(unit.until)}, "call")
    return Written(Committed())


def _act(unit: Act, sql: Statements) -> Program:
    done = yield from perform(unit.effects, unit, sql)
    answer = Committed(seq=done.seq, runs=tuple(done.runs), count=done.count)
    return Written(answer, tuple(done.events))


def _advance(unit: Advance, sql: Statements) -> Program:
    run = unit.run
    opens = isinstance(unit, Claim) and unit.opens
    moves, again = _moves(unit, sql)
    saves = _saves(unit, opens, sql)
    reads = [Op(sql.read_inbox, {"thread_id": unit.thread_id, "event_id": one}, "inbox") for one in unit.read]
    ops = [_fence(unit, opens, sql), *moves, *again, *saves, *reads, *_inbox(unit, sql)]
    saved = len(moves) + len(again) + len(saves)
    if run.over:
        ops.append(_all_read(unit, sql))
    ops += _new_files(unit.files, sql)
    leaving = len(ops)
    if unit.leaving is not None:
        ops.append(_leaving(unit.thread_id, unit.leaving, sql))
    ops += [*_write_files(unit.thread_id, unit.files, sql), *_write_env(unit.env, sql)]
    ops += _insert(sql.insert_call, [rows.call_params(call) for call in (*unit.calls, *unit.nested)])
    ops += [Op(sql.drop_message, {"thread_id": unit.thread_id, "seq": seq}) for seq in unit.dropped]
    ops += [Op(sql.edit_message, _edited_params(message, unit)) for message in unit.edited]
    ops += _insert(sql.insert_message, _message_params(unit))
    if unit.step is not None:
        ops.append(Op(sql.insert_step, rows.step_params(unit.step)))
    events = [
        rows.event_params(event)
        for event in numbered(unit.events, 0, unit, unit.thread_id, run.id, run.agent)
    ]
    ops += [replace(op, given={"base": (FENCE, 0)}) for op in _insert(sql.insert_event, events)]
    if unit.effects:
        yield from lock(unit, sql)
    found = yield Whole(ops) if not (unit.effects or unit.env) else ops
    yield from wake_askers(unit.env, unit, sql)
    done = yield from perform(unit.effects, unit, sql)
    ev, posted = found[FENCE]
    answer = Committed(
        run_id=run.id,
        posted=posted,
        cancel_requested=not opens and found[saved][0] is not None,
        left=unit.leaving is None or bool(found[leaving]),
        seq=done.seq,
        runs=tuple(done.runs),
    )
    events = numbered(unit.events, ev, unit, unit.thread_id, run.id, run.agent)
    return Written(answer, (*events, *done.events))


def _saves(unit: Advance, opens: bool, sql: Statements) -> list[Op]:
    """The run's new row. A run that was asked to cancel ends in no other way."""
    row = rows.run_params(unit.run)
    if opens:
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


def _fence(unit: Advance, opens: bool, sql: Statements) -> Op:
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
    statement = sql.fence_and_open if opens else sql.fence_and_close if unit.run.over else sql.fence
    return Op(statement, params, "fence")


def _leave(unit: Leave, sql: Statements) -> Program:
    [left] = yield Whole([_leaving(unit.thread_id, unit.leaving, sql)])
    return Written(Committed(left=bool(left)))


def _save_entity(unit: SaveEntity, sql: Statements) -> Program:
    """A changed row is taken away and put back: so an external id that is taken fails a guard, not a constraint."""
    if unit.was is not None:
        seen: Params = {"entity_id": unit.was.id, "seen": micros_or_none(unit.was.updated_at)}
        yield Op(sql.drop_entity_seen, seen, "entity")
    yield Op(sql.insert_entity, rows_kept.entity_params(unit.entity), "duplicate")
    return Written(Committed())


def _save_agent(unit: SaveAgent, sql: Statements) -> Program:
    """Like an entity's row, an agent's is taken away and put back."""
    params = rows_agents.agent_params(unit.agent)
    if unit.was is not None:
        yield Op(sql.agents.drop_agent_seen, {"agent_id": unit.agent.id, "was": unit.was}, "agent")
    yield Op(sql.agents.insert_agent, params, "duplicate")
    yield Op(sql.agents.insert_revision, {**params, "created_at": params["updated_at"]})
    if unit.env:
        yield _write_env(unit.env, sql)
        yield from wake_askers(unit.env, unit, sql)
    return Written(Committed())


def _drop_agent(unit: DropAgent, sql: Statements) -> Program:
    yield Op(sql.agents.drop_agent, {"agent_id": unit.agent_id}, "agent")
    for drop in sql.agents.drop_minds:
        yield Op(drop, {"agent_id": unit.agent_id})
    first = plan_timer(unit.agent_id, "")
    yield Op(sql.agents.drop_timers, {"first": first, "last": f"{first[:-1]};"})  # ";" comes next to ":"
    return (yield from _leave_spaces(unit, sql))


def _drop_entity(unit: DropEntity, sql: Statements) -> Program:
    yield Op(sql.drop_entity, {"entity_id": unit.entity_id}, "entity")
    yield Op(sql.drop_env_of, {"owner": unit.entity_id})
    yield Op(sql.front_ends.drop_of, {"entity_id": unit.entity_id})
    return (yield from _leave_spaces(unit, sql))


def _leave_spaces(unit: DropAgent | DropEntity, sql: Statements) -> Program:
    found = yield Op(sql.spaces.memberships, {"entity_id": unit.entity_id})
    left = [DropMember(space_id=one, entity_id=unit.entity_id, events=unit.told) for (one,) in found]
    done = yield from perform(left, unit, sql)
    return Written(Committed(), tuple(done.events))


def _front_end(unit: SaveFrontEnd | DropFrontEnd, sql: Statements) -> Program:
    if isinstance(unit, DropFrontEnd):
        yield Op(sql.front_ends.drop, {"id": unit.id}, "front_end")
    else:
        yield Op(sql.front_ends.insert, front_end_params(unit.front_end), "duplicate")
    return Written(Committed())


def _prune(unit: Prune, sql: Statements) -> Program:
    before = micros(unit.before)
    events = yield Op(sql.prune_events, {"before": before, "limit": unit.limit})
    left = unit.limit - len(events)
    in_spaces = yield Op(sql.prune_space_events, {"before": before, "limit": left})
    left -= len(in_spaces)
    commits = yield Op(sql.prune_commits, {"before": before, "limit": left})
    return Written(Committed(count=len(events) + len(in_spaces) + len(commits)))


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
        op = Op(sql.move_call, _move_params(unit.thread_id, change), "call")
        if moves.setdefault(change.id, op) is not op:
            again.append(replace(op, again=True))
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
        "space_id": change.space_id,
        "started_at": at if change.starts else None,
        "completed_at": at if is_over(change.now) else None,
    }


def _message_params(unit: Advance) -> list[Params]:
    return [
        rows.message_params(message, unit.thread_id, seq)
        for seq, message in enumerate(unit.messages, unit.seq + 1)
    ]


def _edited_params(message: Message, unit: Advance) -> Params:
    row = rows.message_params(message, unit.thread_id, message.seq or 0)
    return {"thread_id": unit.thread_id, "seq": row["seq"], "body": row["body"]}


def _new_files(changes: Sequence[FileChange], sql: Statements) -> list[Op]:
    """Files that must be the first at their paths."""
    new = [change.file for change in changes if change.new and change.file is not None]
    return [Op(sql.insert_file, rows_kept.file_params(file), "file") for file in new]


def _write_files(thread_id: str, changes: Sequence[FileChange], sql: Statements) -> list[Op]:
    """Files that are written over what is there, or taken away."""
    ops: list[Op] = []
    for change in changes:
        if change.file is None:
            ops.append(Op(sql.drop_file, {"thread_id": thread_id, "folded": change.folded}, again=True))
        elif not change.new:
            ops.append(Op(sql.put_file, rows_kept.file_params(change.file)))
    return ops


def _write_env(changes: Sequence[EnvChange], sql: Statements) -> list[Op]:
    ops: list[Op] = []
    for change in changes:
        if change.row is None:
            key: Params = {"owner": change.owner, "kind": change.kind, "name": change.name}
            ops.append(Op(sql.drop_env, key, again=True))
        else:
            ops.append(Op(sql.put_env, rows_kept.env_params(change.row)))
    return ops


def _insert_events(events: tuple[Event, ...], sql: Statements) -> list[Op]:
    return _insert(sql.insert_event, [{**rows.event_params(event), "base": 0} for event in events])


def _insert(statement: Statement, params: list[Params]) -> list[Op]:
    return [Op(statement, params[0], more=params[1:])] if params else []
