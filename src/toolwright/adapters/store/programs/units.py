"""Units of work as programs: ordered statements, each with its preconditions and results.

A program is a generator: it yields an `Op`, receives the rows, and returns the result of the unit. It does not depend
on whether its driver is SQLite's writer thread or a Postgres connection. A failed precondition raises `GuardFailed`,
and the driver rolls the whole unit back. `engine/program.py` defines what a program may yield and the rules for its
author.
"""

from collections.abc import Sequence
from hashlib import shake_256

from toolwright.adapters.store.engine.codecs import (
    Params,
    long_text_or_none,
    micros,
    micros_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, UnitResult, numbered
from toolwright.adapters.store.engine.program import Op, Program, Statement, StatementBatch
from toolwright.adapters.store.programs.advance import advance
from toolwright.adapters.store.programs.agents import drop_mind
from toolwright.adapters.store.programs.children import wake_askers
from toolwright.adapters.store.programs.parts import (
    Steps,
    cancel_late_calls,
    insert_events,
    is_orphan,
    leaving,
    lock,
    lock_threads,
    new_files,
    refused,
    shown,
    spoken_to,
    wake,
    write_env,
    write_files,
)
from toolwright.adapters.store.programs.spaces import perform
from toolwright.adapters.store.sql.agents import AGENTS
from toolwright.adapters.store.sql.records import owned_by
from toolwright.adapters.store.sql.retention import AGENT, SPACE, agent_note
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sql.threads import ENTITIES, INBOX, RUNS, THREADS
from toolwright.core.journal import units
from toolwright.core.journal.approvals import Approve, Refuse
from toolwright.core.journal.effects import AddNestedCall, DropMember, Effect
from toolwright.core.journal.retention import DropThread, ForgetBytes, Prune, SweepThreads
from toolwright.core.mcp.servers import task_timer
from toolwright.core.threads.event import Event
from toolwright.core.value import changed

PROBES = ("probe a", "probe b")  # tokens of the rows that probes write, alternating
ROOM = 32 * 1024  # characters that a probe writes: about the size of a message with its run and events


def drop_thread(unit: DropThread, sql: Statements) -> Program:
    """Delete a thread tree. Conflict: `busy`, also while a request's answer is creating a child in it."""
    params: Params = {"thread_id": unit.thread_id}
    yield Op(sql.thread_state, params, "thread")
    below = yield Op(sql.children.below, params)
    family = {unit.thread_id, *[str(thread_id) for (thread_id,) in below]}
    yield from lock_threads(family, sql)
    yield Op(sql.thread_state, params, "thread")  # it can have been deleted while waiting for the locks
    yield from _may_go(unit, sql)
    asking = yield Op(sql.retention.drop_requests, params)
    yield [Op(sql.children.drop_asked, {"id": request_id}) for (request_id,) in asking]
    below = yield Op(sql.children.below, params)
    if not family.issuperset(str(thread_id) for (thread_id,) in below):
        raise GuardFailed("busy")
    pending_threads = yield Op(sql.retention.pending_threads, params)
    cancelled, edits = EffectResult(), list[Effect]()
    for thread_id in sorted(str(each) for (each,) in pending_threads):
        calls = yield from cancel_late_calls(
            sql.agents.cancel_calls_in_thread, {"thread_id": thread_id}, unit, sql, cancelled
        )
        edits += yield from shown(calls, sql)
    yield Op(sql.retention.note_threads, {**params, "at": micros(unit.at)})
    tasks = yield Op(sql.retention.drop_tasks, params)
    yield [Op(sql.spaces.drop_timer, {"name": task_timer(call_id)}) for (call_id,) in tasks]
    yield Op(sql.retention.drop_wakes, params)
    gone = yield Op(sql.retention.drop_threads, params)
    done = yield from perform(edits, unit, sql)
    return UnitResult(units.Committed(count=len(gone)), (*cancelled.events, *done.events))


def _may_go(unit: DropThread, sql: Statements) -> Steps:
    key: Params = {"thread_id": unit.thread_id}
    if (yield Op(sql.retention.at_work, key)):
        raise GuardFailed("busy")
    if unit.idle_since is None:
        return
    if (yield Op(sql.retention.pending_threads, key)):
        raise GuardFailed("busy")
    before = micros(unit.idle_since)
    for reason in sql.retention.reasons_to_stay:
        params = {**key, "before": before} if "before" in reason.order else key
        if (yield Op(reason, params)):
            raise GuardFailed("busy")


def sweep_threads(unit: SweepThreads, sql: Statements) -> Program:
    """Delete remaining rows, starting with the oldest deletion. Deletes its note after the last row."""
    rows = yield Op(sql.retention.next_dropped, {})
    if not rows:
        return UnitResult(units.Committed())
    note, remaining = str(rows[0][0]), unit.limit
    id = note.removeprefix(SPACE).removeprefix(AGENT)
    if note.startswith(SPACE):
        sweeps, forget = sql.retention.sweeps_of_space, sql.retention.forget_space
    elif id != note:
        sweeps, forget = sql.retention.sweeps_of_agent, sql.retention.forget_agent
    else:
        sweeps, forget = sql.retention.sweeps, sql.retention.forget_thread
        digests = yield Op(sql.retention.sweep_bytes, {"thread_id": id, "limit": remaining})
        at = micros(unit.at)
        yield [Op(sql.retention.drop_bytes, {"digest": digest, "at": at}) for (digest,) in digests]
        remaining -= len(digests)
    for sweep in sweeps:
        if not remaining:
            break
        swept = yield Op(sweep, {"thread_id": id, "limit": remaining})
        remaining -= len(swept)
    if remaining:
        yield Op(forget, {"thread_id": id, "note": note})
    return UnitResult(units.Committed(count=max(unit.limit - remaining, 1)))


def forget_bytes(unit: ForgetBytes, sql: Statements) -> Program:
    """Delete the records of the given bytes."""
    dropped: list[Params] = [{"digest": each.digest, "seen": micros(each.at)} for each in unit.dropped]
    yield [Op(sql.retention.forget_bytes, params) for params in dropped]
    return UnitResult(units.Committed(count=len(dropped)))


def program(unit: units.Unit, sql: Statements) -> Program:
    """Return the unit as a program."""
    match unit:
        case units.Advance():
            return advance(unit, sql)
        case units.PostCall():
            return _post_call(unit, sql)
        case units.PostMessage():
            return _post(unit, sql)
        case units.Settle():
            return _settle(unit, sql)
        case Approve():
            return _approve(unit, sql)
        case units.RequestCancel():
            return _request_cancel(unit, sql)
        case units.RetryRun():
            return _retry_run(unit, sql)
        case units.Reseal():
            return _reseal(unit, sql)
        case units.SetEnv():
            return _set_env(unit, sql)
        case units.Apply():
            return _apply(unit, sql)
        case units.SaveAgent():
            return _save_agent(unit, sql)
        case units.DropAgent():
            return _drop_agent(unit, sql)
        case units.CancelOrphans():
            return _cancel_orphans(unit, sql)
        case units.LeaseCall():
            return _lease_call(unit, sql)
        case units.RetryEvent():
            return _retry_event(unit, sql)
        case units.CreateThread():
            return _create_thread(unit, sql)
        case units.RenameThread():
            return _rename_thread(unit, sql)
        case units.Leave():
            return _leave(unit, sql)
        case units.SaveEntity():
            return _save_entity(unit, sql)
        case units.SignOut() | units.UseOnce():
            return _sign_out(unit, sql)
        case units.DropEntity():
            return _drop_entity(unit, sql)
        case Prune():
            return _prune(unit, sql)
        case units.Probe():
            return _probe(unit, sql)
        case DropThread():
            return drop_thread(unit, sql)
        case SweepThreads():
            return sweep_threads(unit, sql)
        case ForgetBytes():
            return forget_bytes(unit, sql)
        case _:
            raise TypeError(f"No store can apply the unit {type(unit).__name__}.")


def _create_thread(unit: units.CreateThread, sql: Statements) -> Program:
    born = Op(sql.insert_thread, THREADS.params(unit.thread), "duplicate")
    yield StatementBatch(ops=[born, *write_env(unit.env, sql)])
    return UnitResult(units.Committed())


def _rename_thread(unit: units.RenameThread, sql: Statements) -> Program:
    params: Params = {"thread_id": unit.thread_id, "name": text_or_none(unit.name)}
    yield StatementBatch(ops=[Op(sql.rename_thread, params, "thread")])
    return UnitResult(units.Committed())


def _post(unit: units.PostMessage, sql: Statements) -> Program:
    thread_id, run = unit.event.thread_id, unit.run
    rows = yield Op(sql.post, {"thread_id": thread_id, "new_run": run.id})
    if not rows:
        yield from refused(thread_id, "thread", sql)
    [(run_id, posted, ev, agent)] = rows
    events: Sequence[Event] = ()
    event = changed(unit.event, run_id=run_id)
    inserts = [Op(sql.insert_inbox, INBOX.params(event, n=posted), "duplicate")]
    if run_id == run.id:
        inserts.insert(0, Op(sql.insert_run, RUNS.params(run), "duplicate"))
        events = numbered((unit.queued,), ev, unit, thread_id, run_id, agent)
    yield [*inserts, *new_files(unit.files, sql)]
    yield [
        *write_files(thread_id, unit.files, sql),
        *insert_events(events, sql),
        wake(unit, thread_id, sql),
    ]
    return UnitResult(units.Committed(run_id=run_id), events)


def _post_call(unit: units.PostCall, sql: Statements) -> Program:
    thread_id, run = unit.event.thread_id, unit.run
    rows = yield Op(sql.post, {"thread_id": thread_id, "new_run": run.id})
    if not rows:
        yield from refused(thread_id, "thread", sql)
    [(run_id, posted, ev, agent)] = rows
    if run_id != run.id:
        raise GuardFailed("busy")
    params: Params = {"id": run.id, "thread_id": thread_id}
    opened = yield Op(sql.reopen_run, params)
    if opened:
        yield Op(sql.begin, {"thread_id": thread_id})
    joins = [] if opened else (yield Op(sql.find_open_run, params))
    if not opened and not joins:
        yield Op(sql.insert_run, RUNS.params(run), "run")
    events = () if joins else numbered((unit.queued,), ev, unit, thread_id, run_id, agent)
    event = changed(unit.event, run_id=run_id)
    yield Op(sql.insert_inbox, INBOX.params(event, n=posted), "duplicate")
    yield [*insert_events(events, sql), wake(unit, thread_id, sql)]
    return UnitResult(units.Committed(run_id=run_id), events)


def _retry_run(unit: units.RetryRun, sql: Statements) -> Program:
    params: Params = {"id": unit.run_id, "thread_id": unit.thread_id}
    opened = yield Op(sql.open_idle, {"thread_id": unit.thread_id, "run_id": unit.run_id})
    if not opened:
        yield from refused(unit.thread_id, "busy", sql)
    [(ev, agent)] = opened
    yield Op(sql.retry_run, params, "run")
    events = numbered((unit.queued,), ev, unit, unit.thread_id, unit.run_id, agent)
    yield [*insert_events(events, sql), wake(unit, unit.thread_id, sql)]
    return UnitResult(units.Committed(run_id=unit.run_id), events)


def _request_cancel(unit: units.RequestCancel, sql: Statements) -> Program:
    at = micros(unit.at)
    request = Op(sql.request_cancel, {"thread_id": unit.thread_id, "run_id": unit.run_id, "at": at}, "run")
    yield StatementBatch(ops=[request, wake(unit, unit.thread_id, sql)])
    return UnitResult(units.Committed(run_id=unit.run_id))


def _set_env(unit: units.SetEnv, sql: Statements) -> Program:
    if unit.thread_id is not None:
        yield Op(sql.count_posted, {"thread_id": unit.thread_id}, "thread")
    if unit.entity_id is not None:
        yield Op(sql.hold_entity, {"entity_id": unit.entity_id}, "entity")
    if unit.env:
        yield write_env(unit.env, sql)
        yield from wake_askers(unit.env, unit, sql)
    done = yield from perform(unit.effects, unit, sql)
    return UnitResult(units.Committed(runs=tuple(done.runs)), tuple(done.events))


def _reseal(unit: units.Reseal, sql: Statements) -> Program:
    count = 0
    for was, now in unit.rows:
        key: Params = {"owner": was.owner, "kind": was.kind, "name": was.name}
        rows = yield Op(sql.reseal, {**key, "was": was.value, "now": now.value, "by": now.key})
        count += len(rows)
    return UnitResult(units.Committed(count=count))


def _retry_event(unit: units.RetryEvent, sql: Statements) -> Program:
    yield Op(sql.retry_event, {"thread_id": unit.thread_id, "event_id": unit.event_id}, "inbox")
    yield Op(sql.children.hurry, {"thread_id": unit.thread_id})
    yield wake(unit, unit.thread_id, sql)
    return UnitResult(units.Committed())


def _settle(unit: units.Settle, sql: Statements) -> Program:
    params: Params = {"thread_id": unit.thread_id}
    yield from lock(unit.effects, unit.thread_id, sql)
    [(ev, agent)] = yield Op(sql.touch, {**params, "more": 1}, "thread")
    [(route, run_id)] = yield Op(
        _settling(unit, sql),
        {
            **params,
            "call_id": unit.call_id,
            "now": unit.outcome,
            "result": long_text_or_none(unit.result),
            "at": micros(unit.at),
        },
        "call",
    )
    if route == "inbox":
        [(posted,)] = yield Op(sql.count_posted, params, "thread")
        yield Op(sql.insert_inbox, INBOX.params(unit.notice, n=posted), "duplicate")
    if unit.files:
        yield new_files(unit.files, sql)
    events = numbered((unit.event,), ev, unit, unit.thread_id, run_id, agent)
    yield [*insert_events(events, sql), wake(unit, unit.thread_id, sql)]
    done = yield from perform(unit.effects, unit, sql)
    return UnitResult(units.Committed(run_id=run_id, route=route), (*events, *done.events))


def _settling(unit: units.Settle, sql: Statements) -> Statement:
    match unit:
        case units.Submit():
            return sql.settle_in_time
        case Refuse():
            return sql.refuse_call
        case units.Expire():
            return sql.settle_late
        case _:
            return sql.settle


def _approve(unit: Approve, sql: Statements) -> Program:
    params: Params = {"thread_id": unit.thread_id}
    yield from lock(unit.effects, unit.thread_id, sql)
    [(ev, agent)] = yield Op(sql.touch, {**params, "more": 1}, "thread")
    approved: Params = {
        **params,
        "call_id": unit.call_id,
        "approval": "approved" if unit.arguments is None else "edited",
        "arguments": long_text_or_none(unit.arguments),
        "at": micros(unit.at),
    }
    [(run_id,)] = yield Op(sql.approve_call, approved, "call")
    events = numbered((unit.event,), ev, unit, unit.thread_id, run_id, agent)
    yield [*insert_events(events, sql), wake(unit, unit.thread_id, sql)]
    done = yield from perform(unit.effects, unit, sql)
    return UnitResult(units.Committed(run_id=run_id), (*events, *done.events))


def _lease_call(unit: units.LeaseCall, sql: Statements) -> Program:
    claim: Params = {"call_id": unit.call_id, "worker": text_or_none(unit.worker), "at": micros(unit.at)}
    yield Op(sql.lease_call, {**claim, "until": micros(unit.until)}, "call")
    return UnitResult(units.Committed())


def _apply(unit: units.Apply, sql: Statements) -> Program:
    if any(isinstance(each, AddNestedCall) for each in unit.effects):
        yield from lock_threads(spoken_to(unit.effects), sql)
    done = yield from perform(unit.effects, unit, sql)
    answer = units.Committed(seq=done.seq, runs=tuple(done.runs), count=done.count)
    return UnitResult(answer, tuple(done.events))


def _leave(unit: units.Leave, sql: Statements) -> Program:
    [rows] = yield StatementBatch(ops=[leaving(unit.thread_id, unit.leaving, sql)])
    return UnitResult(units.Committed(left=bool(rows)))


def _save_entity(unit: units.SaveEntity, sql: Statements) -> Program:
    """Insert or update a person.

    An update deletes and reinserts the row, so that a duplicate external id fails a precondition, not a constraint.
    """
    if unit.was is not None:
        params: Params = {"entity_id": unit.was.id, "seen": micros_or_none(unit.was.updated_at)}
        yield Op(sql.drop_entity_seen, params, "entity")
    yield Op(sql.insert_entity, ENTITIES.params(unit.entity), "duplicate")
    return UnitResult(units.Committed())


def _save_agent(unit: units.SaveAgent, sql: Statements) -> Program:
    """Replace the agent's row by deleting and reinserting it."""
    params = AGENTS.params(unit.agent)
    if unit.was is not None:
        yield Op(sql.agents.drop_agent_seen, {"agent_id": unit.agent.id, "was": unit.was}, "agent")
    yield Op(sql.agents.insert_agent, {**params, "id": unit.agent.id}, "duplicate")
    yield Op(sql.agents.insert_revision, {**params, "created_at": params["updated_at"]})
    if unit.env:
        yield write_env(unit.env, sql)
        yield from wake_askers(unit.env, unit, sql)
    return UnitResult(units.Committed())


def _drop_agent(unit: units.DropAgent, sql: Statements) -> Program:
    yield Op(sql.agents.lock_agent, {"agent_id": unit.agent_id}, "agent")
    yield Op(sql.agents.drop_agent, {"agent_id": unit.agent_id}, "agent")
    done = EffectResult()
    pending_threads = yield Op(sql.agents.pending_threads, {"agent_id": unit.agent_id})
    yield from lock_threads([thread_id for (thread_id,) in pending_threads], sql)
    calls = yield from cancel_late_calls(
        sql.agents.cancel_calls, {"agent_id": unit.agent_id}, unit, sql, done
    )
    yield [wake(unit, thread_id, sql) for thread_id in sorted({call.thread_id for call in calls})]
    edits = yield from shown(calls, sql, unit.author)
    yield [*drop_mind(unit.agent_id, sql), Op(sql.mcp.drop_definitions, {"agent_id": unit.agent_id})]
    yield Op(sql.retention.note, {"thread_id": agent_note(unit.agent_id), "at": micros(unit.at)})
    effects = yield from _leave_spaces(unit, sql, edits)
    return effects._replace(events=(*done.events, *effects.events))


def _cancel_orphans(unit: units.CancelOrphans, sql: Statements) -> Program:
    orphans = list[str]()
    for thread_id in sorted(unit.thread_ids):
        if (yield from is_orphan(thread_id, sql)):
            orphans.append(thread_id)
    yield from lock_threads(orphans, sql)
    cancelled, edits = EffectResult(), list[Effect]()
    for thread_id in orphans:
        calls = yield from cancel_late_calls(
            sql.agents.cancel_calls_in_thread, {"thread_id": thread_id}, unit, sql, cancelled
        )
        edits += yield from shown(calls, sql)
    done = yield from perform(edits, unit, sql)
    return UnitResult(units.Committed(count=len(orphans)), (*cancelled.events, *done.events))


def _drop_entity(unit: units.DropEntity, sql: Statements) -> Program:
    yield Op(sql.drop_entity, {"entity_id": unit.entity_id}, "entity")
    yield Op(sql.drop_env_of, {"owner": unit.entity_id})
    records = [sql.records(kind).drop_owned for kind in owned_by("entity_id")]
    yield [Op(each, {"entity_id": unit.entity_id}) for each in records]
    return (yield from _leave_spaces(unit, sql))


def _leave_spaces(
    unit: units.DropAgent | units.DropEntity, sql: Statements, before: Sequence[Effect] = ()
) -> Program:
    """Return effects that remove a participant from its spaces, preceded by `before`, which ends its work there."""
    rows = yield Op(sql.spaces.memberships, {"entity_id": unit.entity_id})
    effects = [DropMember(space_id=one, entity_id=unit.entity_id, events=unit.told) for (one,) in rows]
    done = yield from perform([*before, *effects], unit, sql)
    return UnitResult(units.Committed(), tuple(done.events))


def _sign_out(unit: units.SignOut | units.UseOnce, sql: Statements) -> Program:
    at = micros(unit.at)
    row: Params = {"key": unit.key, "at": at, "until": micros(unit.until)}
    yield Op(sql.sessions.drop_expired, {"at": at})
    if isinstance(unit, units.UseOnce):
        yield Op(sql.sessions.use_once, row, "duplicate")
    else:
        yield Op(sql.sessions.sign_out, row)
    return UnitResult(units.Committed())


def _prune(unit: Prune, sql: Statements) -> Program:
    remaining = unit.limit
    yield []  # a program must yield at least once
    for prune, before in (
        (sql.prune_events, unit.before),
        (sql.prune_space_events, unit.before),
        (sql.prune_commits, unit.tokens_before),
    ):
        if before is not None and remaining:
            remaining -= len((yield Op(prune, {"before": micros(before), "limit": remaining})))
    return UnitResult(units.Committed(count=unit.limit - remaining))


def _probe(unit: units.Probe, sql: Statements) -> Program:
    """Insert a new row, then delete the row of the last probe. Replacing that row would succeed even on a full disk.

    The text is incompressible.
    """
    first, second = PROBES
    rows = yield Op(sql.probes, {"first": first, "second": second})
    new, old = (second, first) if [row[0] for row in rows] == [first] else (first, second)
    text = shake_256(unit.token.encode()).hexdigest(ROOM // 2)
    yield Op(sql.probe, {"token": new, "answer": text, "at": micros(unit.at)})
    yield Op(sql.drop_commit, {"token": old})
    return UnitResult(units.Committed())
