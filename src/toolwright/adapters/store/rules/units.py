"""Rules of the units of work: their row operations, each with its preconditions and results.

`Advance`, `Prune` and what only a database needs (`Probe`, `SweepThreads`) are programs of each store.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from toolwright.adapters.store.engine.outcome import NO_EVENTS, EffectResult, UnitResult, numbered
from toolwright.adapters.store.rules.effects import perform, settle
from toolwright.adapters.store.rules.late_results import cancel_late_calls, is_orphan, shown
from toolwright.adapters.store.rules.parts import (
    LIVING,
    check_deps,
    chunks,
    count_posted,
    leave,
    lock,
    lock_threads,
    new_files,
    notify,
    refused,
    spoken_to,
    touch,
    wake_askers,
    write_env,
    write_files,
)
from toolwright.core.agents.config import AgentHead, AgentRevision
from toolwright.core.env.env import Asked, EnvRow, VariablesRequest
from toolwright.core.journal import units
from toolwright.core.journal.agent_effects import AGENT, drop_mind, drop_timer, wake
from toolwright.core.journal.approvals import Approve, AskAgain, Refuse
from toolwright.core.journal.effects import AddNestedCall, Effect
from toolwright.core.journal.retention import DroppedBytes, DropThread, ForgetBytes
from toolwright.core.journal.rows import (
    Add,
    Append,
    Batch,
    Beyond,
    Clear,
    Descendants,
    Find,
    GuardFailed,
    If,
    LateCalls,
    More,
    Move,
    NoneOf,
    Not,
    Once,
    OneOf,
    Put,
    Rule,
    Sweep,
    Tell,
    UpTo,
)
from toolwright.core.journal.space_effects import DropMember
from toolwright.core.mcp.servers import McpDefinition, McpTask, task_timer
from toolwright.core.spaces import Entity, Member
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import OVER, Run
from toolwright.core.threads.thread import Thread, Wake
from toolwright.core.value import changed, owned_by

NOT_OVER = NoneOf(values=sorted(OVER))
NEXT = More(by=1)
NEXT_IF_IDLE = If(when={"run_id": None}, then=NEXT)
MICROSECOND = timedelta(microseconds=1)
AT_ONCE = 250  # messages of a new thread that are encoded without a pause
ASKED: Mapping[str, object] = {"status": "waiting", "approval": "asked"}
"""Conditions of a call that waits for an approval."""


def rule_of(unit: units.Unit) -> Rule[UnitResult]:
    """Return the unit as a rule."""
    match unit:
        case units.CreateThread():
            return _create_thread(unit)
        case units.PostCall():
            return _post_call(unit)
        case units.PostMessage():
            return _post(unit)
        case units.Settle():
            return _settle(unit)
        case Approve():
            return _approve(unit)
        case AskAgain():
            return _ask_again(unit)
        case units.RequestCancel():
            return _request_cancel(unit)
        case units.RetryRun():
            return _retry_run(unit)
        case units.Reseal():
            return _reseal(unit)
        case units.SetEnv():
            return _set_env(unit)
        case units.Apply():
            return _apply(unit)
        case units.SaveAgent():
            return _save_agent(unit)
        case units.DropAgent():
            return _drop_agent(unit)
        case units.CancelOrphans():
            return _cancel_orphans(unit)
        case units.LeaseCall():
            return _lease_call(unit)
        case units.RetryEvent():
            return _retry_event(unit)
        case units.RenameThread():
            return _rename_thread(unit)
        case units.Leave():
            return _leave(unit)
        case units.SaveEntity():
            return _save_entity(unit)
        case units.SignOut() | units.UseOnce():
            return _sign_out(unit)
        case units.DropEntity():
            return _drop_entity(unit)
        case DropThread():
            return _drop_thread(unit)
        case ForgetBytes():
            return _forget_bytes(unit)
        case _:
            raise TypeError(f"No store can apply the unit {type(unit).__name__}.")


def _create_thread(unit: units.CreateThread) -> Rule[UnitResult]:
    """Insert a thread. One with messages takes several statements, between which a driver can pause."""
    operations = [Add(record=unit.thread), *write_env(unit.env), *new_files(unit.files)]
    yield operations if unit.messages else Batch(operations=operations)
    for start in range(0, len(unit.messages), AT_ONCE):
        some = unit.messages[start : start + AT_ONCE]
        yield [Append(thread_id=unit.thread.id, first=start + 1, messages=some)]
    return UnitResult(units.Committed())


def _rename_thread(unit: units.RenameThread) -> Rule[UnitResult]:
    where, fields = {"id": unit.thread_id}, {"name": unit.name}
    yield Batch(operations=[Move(kind=Thread, where=where, fields=fields, guard="thread")])
    return UnitResult(units.Committed())


def _joined(thread_id: str, run_id: str) -> Rule[tuple[str, int, int, str]]:
    """Reserve a place in the inbox for the open run, or for a new one.

    Returns the run, the place, the number of its event and the agent.
    """
    rows = yield Move(
        kind=Thread,
        where={"id": thread_id, "state": LIVING},
        fields={"posted": NEXT, "ev": NEXT_IF_IDLE, "run_id": Once(value=run_id)},
        returns=("run_id", "posted", "ev", "agent"),
    )
    if not rows:
        yield from refused(thread_id, "thread")
    [row] = rows
    return row.run_id, row.posted, row.ev, row.agent


def _post(unit: units.PostMessage) -> Rule[UnitResult]:
    thread_id, run = unit.event.thread_id, unit.run
    run_id, posted, ev, agent = yield from _joined(thread_id, run.id)
    event = Add(record=changed(unit.event, run_id=run_id, n=posted))
    files, woken = new_files(unit.files), wake(thread_id, unit.at)
    if run_id == run.id:
        queued = numbered((unit.queued,), ev, unit, thread_id, run_id, agent)
        yield [Add(record=run), event, *files, Tell(events=queued), woken]
    else:
        queued = NO_EVENTS
        if unit.deps is not None:
            yield from check_deps(run_id, unit.deps)
        yield [event, *files, woken]
    if unit.files:
        yield write_files(thread_id, unit.files)
    return UnitResult(units.Committed(run_id=run_id), queued)


def _post_call(unit: units.PostCall) -> Rule[UnitResult]:
    thread_id, run = unit.event.thread_id, unit.run
    run_id, posted, ev, agent = yield from _joined(thread_id, run.id)
    if run_id != run.id:
        raise GuardFailed("busy")
    this = {"id": run.id, "thread_id": thread_id}
    reopened = {"status": "queued", "completed_at": None, "calls_only": True}
    completed = {**this, "status": "completed"}
    is_open = False
    if (yield Move(kind=Run, where=completed, fields=reopened, returns=("id",))):
        yield Move(kind=Thread, where={"id": thread_id}, fields={"begun": True})
    elif (yield Find(kind=Run, where={**this, "status": NOT_OVER}, columns=("id",))):
        is_open = True
    else:
        yield Add(record=run, guard="run")
    yield Add(record=changed(unit.event, run_id=run_id, n=posted))
    events = () if is_open else numbered((unit.queued,), ev, unit, thread_id, run_id, agent)
    yield [*([Tell(events=events)] if events else []), wake(thread_id, unit.at)]
    return UnitResult(units.Committed(run_id=run_id), events)


def _retry_run(unit: units.RetryRun) -> Rule[UnitResult]:
    thread_id, this = unit.thread_id, {"id": unit.run_id, "thread_id": unit.thread_id}
    opened = {"run_id": unit.run_id, "begun": True, "state": None, "report": None}
    rows = yield Move(
        kind=Thread,
        where={"id": thread_id, "run_id": None, "state": LIVING},
        fields={**opened, "faults": 0, "not_before": None, "ev": More(by=1)},
        returns=("ev", "agent"),
    )
    if not rows:
        yield from refused(thread_id, "busy")
    [failed] = yield Find(kind=Run, where={**this, "status": "failed"}, columns=("created_at",), guard="run")
    later = {"thread_id": thread_id, "created_at": Beyond(value=failed.created_at)}
    if (yield Find(kind=Run, where=later, columns=("id",), limit=1)):
        raise GuardFailed("run")
    names = ("stop_reason", "error", "error_code", "waiting", "cancel_requested_at", "completed_at")
    fresh = {"status": "queued", "lives": 0, "isolated": 0, **dict.fromkeys(names)}
    if unit.decisions:
        fresh["decisions"] = unit.decisions
    yield Move(kind=Run, where={**this, "status": "failed"}, fields=fresh, guard="run")
    events = numbered((unit.queued,), rows[0].ev, unit, thread_id, unit.run_id, rows[0].agent)
    yield [Tell(events=events), wake(thread_id, unit.at)]
    return UnitResult(units.Committed(run_id=unit.run_id), events)


def _request_cancel(unit: units.RequestCancel) -> Rule[UnitResult]:
    where = {"id": unit.run_id, "thread_id": unit.thread_id, "status": NOT_OVER}
    asked: dict[str, object] = {"cancel_requested_at": Once(value=unit.at)}
    if unit.decisions:
        asked["decisions"] = If(when={"cancel_requested_at": None}, then=unit.decisions)
    cancel = Move(kind=Run, where=where, fields=asked, guard="run")
    yield Batch(operations=[cancel, wake(unit.thread_id, unit.at)])
    return UnitResult(units.Committed(run_id=unit.run_id))


def _set_env(unit: units.SetEnv) -> Rule[UnitResult]:
    if unit.thread_id is not None:
        yield count_posted(unit.thread_id)
    if unit.entity_id is not None:
        where = {"id": unit.entity_id}  # it is not deleted before this commit
        yield Find(kind=Entity, where=where, columns=("id",), lock="share", guard="entity")
    yield write_env(unit.env)
    yield from wake_askers(unit.env, unit)
    done = yield from perform(unit.effects, unit)
    if unit.thread_id is not None and unit.told:
        yield from notify(unit.thread_id, unit.told, unit.run_id, unit, done)
    return UnitResult(units.Committed(runs=tuple(done.runs)), tuple(done.events))


def _reseal(unit: units.Reseal) -> Rule[UnitResult]:
    count = 0
    for was, now in unit.rows:
        where = {"owner": was.owner, "kind": was.kind, "name": was.name, "value": was.value}
        fields = {"value": now.value, "key": now.key}
        count += len((yield Move(kind=EnvRow, where=where, fields=fields, returns=("name",))))
    return UnitResult(units.Committed(count=count))


def _retry_event(unit: units.RetryEvent) -> Rule[UnitResult]:
    where = {"thread_id": unit.thread_id, "event_id": unit.event_id, "status": "failed"}
    fresh = {"status": "pending", "run_id": None, "attempts": 0}
    yield Move(kind=InboxEvent, where=where, fields=fresh, guard="inbox")
    yield Move(kind=Thread, where={"id": unit.thread_id}, fields={"not_before": None})
    yield wake(unit.thread_id, unit.at)
    return UnitResult(units.Committed())


def _settle(unit: units.Settle) -> Rule[UnitResult]:
    thread_id = unit.thread_id
    yield from lock(unit.effects, thread_id)
    [thread] = yield touch(thread_id)
    this = {"id": unit.call_id, "thread_id": thread_id, "status": OneOf(values=OPEN)}
    where = tuple([{**this, **each} for each in _settling(unit)])
    settling = settle(where, unit.outcome, unit.result, unit)
    if unit.decisions:
        settling = changed(settling, fields={**settling.fields, "decisions": unit.decisions})
    [call] = yield changed(settling, guard="call")
    if call.route == "inbox":
        [row] = yield count_posted(thread_id)
        yield Add(record=changed(unit.notice, n=row.posted))
    yield new_files(unit.files)
    events = numbered((unit.event,), thread.ev, unit, thread_id, call.run_id, thread.agent)
    yield [Tell(events=events), wake(thread_id, unit.at)]
    done = yield from perform(unit.effects, unit)
    return UnitResult(units.Committed(run_id=call.run_id, route=call.route), (*events, *done.events))


def _settling(unit: units.Settle) -> Sequence[Mapping[str, object]]:
    """Return the further conditions of the call, of which one must hold."""
    in_time = {"expires_at": Beyond(value=unit.at)}
    match unit:
        case units.SubmitResult():
            unasked = {"status": "waiting", "approval": Not(value="asked")}
            return [{**in_time, "status": "pending"}, {**in_time, **unasked}]
        case Refuse():
            return [{**in_time, **ASKED}]
        case units.Expire():
            return [{"expires_at": UpTo(value=unit.at)}]
        case _:
            return [{}]


def _approve(unit: Approve) -> Rule[UnitResult]:
    thread_id = unit.thread_id
    yield from lock(unit.effects, thread_id)
    [thread] = yield touch(thread_id)
    where = {"id": unit.call_id, "thread_id": thread_id, "expires_at": Beyond(value=unit.at), **ASKED}
    fields: dict[str, object] = {"status": "created", "expires_at": None}
    if unit.decisions:
        fields["decisions"] = unit.decisions
    if unit.arguments is None:
        fields |= {"approval": "approved"}
    else:
        requested = Once(value=unit.requested)
        fields |= {"approval": "edited", "arguments": unit.arguments, "requested": requested}
    [call] = yield Move(kind=Call, where=where, fields=fields, returns=("run_id",), guard="call")
    events = numbered((unit.event,), thread.ev, unit, thread_id, call.run_id, thread.agent)
    yield [Tell(events=events), wake(thread_id, unit.at)]
    done = yield from perform(unit.effects, unit)
    return UnitResult(units.Committed(run_id=call.run_id), (*events, *done.events))


def _ask_again(unit: AskAgain) -> Rule[UnitResult]:
    yield from lock(unit.effects, unit.thread_id)
    where = {"id": unit.call_id, "thread_id": unit.thread_id, "expires_at": Beyond(value=unit.at), **ASKED}
    fields = {"status": "created", "terms": unit.terms, "expires_at": None}
    [call] = yield Move(kind=Call, where=where, fields=fields, returns=("run_id",), guard="call")
    yield wake(unit.thread_id, unit.at)
    done = yield from perform(unit.effects, unit)
    return UnitResult(units.Committed(run_id=call.run_id), tuple(done.events))


def _lease_call(unit: units.LeaseCall) -> Rule[UnitResult]:
    in_time = {"id": unit.call_id, "status": OneOf(values=OPEN), "expires_at": Beyond(value=unit.at)}
    over = {"repeatable": True, "leased_until": UpTo(value=unit.at)}
    free = ({"worker": None}, {"worker": unit.worker}, over)
    fields = {"worker": unit.worker, "leased_until": unit.until}
    where = tuple([{**in_time, **each} for each in free])
    yield Move(kind=Call, where=where, fields=fields, guard="call")
    return UnitResult(units.Committed())


def _apply(unit: units.Apply) -> Rule[UnitResult]:
    if any(isinstance(each, AddNestedCall) for each in unit.effects):
        yield from lock_threads(spoken_to(unit.effects))
    yield []  # a unit can have no effects
    done = yield from perform(unit.effects, unit)
    answer = units.Committed(seq=done.seq, runs=tuple(done.runs), count=done.count)
    return UnitResult(answer, tuple(done.events))


def _leave(unit: units.Leave) -> Rule[UnitResult]:
    [left] = yield Batch(operations=[leave(unit.thread_id, unit.leaving)])
    return UnitResult(units.Committed(left=left is not None))


def _save_entity(unit: units.SaveEntity) -> Rule[UnitResult]:
    """Insert or update a person.

    An update deletes and reinserts the row, so that a duplicate external id fails a precondition, not a constraint.
    """
    if unit.was is not None:
        where = {"id": unit.was.id, "updated_at": unit.was.updated_at}
        yield Clear(kind=Entity, where=where, guard="entity")
    yield Add(record=unit.entity)
    return UnitResult(units.Committed())


def _save_agent(unit: units.SaveAgent) -> Rule[UnitResult]:
    """Replace the agent's row by deleting and reinserting it."""
    if unit.was is not None:
        where = {"id": unit.agent.id, "revision": unit.was}
        yield Clear(kind=AgentHead, where=where, guard="agent")
    yield Add(record=unit.agent.head)
    yield Add(record=unit.agent.row)
    yield write_env(unit.env)
    yield from wake_askers(unit.env, unit)
    return UnitResult(units.Committed())


def _drop_agent(unit: units.DropAgent) -> Rule[UnitResult]:
    agent_id, first = unit.agent_id, ("revision",)
    where = {"agent_id": agent_id}  # its first revision is never rewritten: uses of the agent lock it too
    yield Find(
        kind=AgentRevision, where=where, columns=first, order=first, limit=1, lock="update", guard="agent"
    )
    yield Clear(kind=AgentHead, where={"id": agent_id}, guard="agent")
    done = EffectResult()
    calls = yield LateCalls(agent_id=agent_id)
    yield from lock_threads({call.thread_id for call in calls})
    calls = yield LateCalls(agent_id=agent_id)
    yield from cancel_late_calls(calls, unit, done)
    yield [wake(thread_id, unit.at) for thread_id in sorted({call.thread_id for call in calls})]
    edits = yield from shown(calls, unit.author)
    yield from drop_mind(agent_id)
    yield Clear(kind=McpDefinition, where=where)
    yield Sweep(note=AGENT + agent_id, at=unit.at)
    effects = yield from _leave_spaces(unit, edits)
    return effects._replace(events=(*done.events, *effects.events))


def _cancel_orphans(unit: units.CancelOrphans) -> Rule[UnitResult]:
    orphans = list[str]()
    for thread_id in sorted(unit.thread_ids):
        if (yield from is_orphan(thread_id)):
            orphans.append(thread_id)
    yield from lock_threads(orphans)
    cancelled, edits = EffectResult(), list[Effect]()
    for thread_id in orphans:
        calls = yield LateCalls(thread_id=thread_id)
        yield from cancel_late_calls(calls, unit, cancelled)
        edits += yield from shown(calls)
    done = yield from perform(edits, unit)
    return UnitResult(units.Committed(count=len(orphans)), (*cancelled.events, *done.events))


def _drop_entity(unit: units.DropEntity) -> Rule[UnitResult]:
    yield Clear(kind=Entity, where={"id": unit.entity_id}, guard="entity")
    yield Clear(kind=EnvRow, where={"owner": unit.entity_id})
    yield [Clear(kind=kind, where={"entity_id": unit.entity_id}) for kind in owned_by("entity_id")]
    return (yield from _leave_spaces(unit))


def _leave_spaces(
    unit: units.DropAgent | units.DropEntity, before: Sequence[Effect] = ()
) -> Rule[UnitResult]:
    """Perform effects that remove a participant from its spaces, preceded by `before`, which ends its work there."""
    mine = {"entity_id": unit.entity_id}
    rows = yield Find(kind=Member, where=mine, columns=("space_id",), order=("space_id",))
    leaving = [DropMember(space_id=row.space_id, entity_id=unit.entity_id, events=unit.told) for row in rows]
    done = yield from perform([*before, *leaving], unit)
    return UnitResult(units.Committed(), tuple(done.events))


def _sign_out(unit: units.SignOut | units.UseOnce) -> Rule[UnitResult]:
    row = units.SignedOut(key=unit.key, at=unit.at, until=unit.until)
    yield Clear(kind=units.SignedOut, where={"until": UpTo(value=unit.at - MICROSECOND)})
    yield Add(record=row) if isinstance(unit, units.UseOnce) else Put(record=row)
    return UnitResult(units.Committed())


def _drop_thread(unit: DropThread) -> Rule[UnitResult]:
    """Delete a thread tree. Conflict: `busy`, also while a request's answer is creating a child in it."""
    top = Find(kind=Thread, where={"id": unit.thread_id}, columns=("id",), guard="thread")
    yield top
    family = [unit.thread_id, *(yield Descendants(thread_id=unit.thread_id))]
    yield from lock_threads(family)
    yield top  # it can have been deleted while waiting for the locks
    pending = LateCalls(thread_id=unit.thread_id, family=True)
    yield from _may_go(unit, family, (yield pending))
    for ids in chunks(family):
        asking = yield Clear(kind=VariablesRequest, where={"thread_id": OneOf(values=ids)}, returns=("id",))
        for some in chunks([row.id for row in asking]):
            yield Clear(kind=Asked, where={"request_id": OneOf(values=some)})
    if not {*family}.issuperset((yield Descendants(thread_id=unit.thread_id))):
        raise GuardFailed("busy")
    cancelled = EffectResult()
    calls = yield pending
    yield from cancel_late_calls(calls, unit, cancelled)
    edits = yield from shown(calls)
    for ids in chunks(family):
        theirs = OneOf(values=ids)
        tasks = yield Clear(kind=McpTask, where={"thread_id": theirs}, returns=("call_id",))
        yield [drop_timer(task_timer(row.call_id)) for row in tasks]
        yield Clear(kind=Wake, where={"thread_id": theirs})
        yield [Sweep(note=thread_id, at=unit.at) for thread_id in ids]
        yield Clear(kind=Thread, where={"id": theirs})
    done = yield from perform(edits, unit)
    return UnitResult(units.Committed(count=len(family)), (*cancelled.events, *done.events))


def _may_go(unit: DropThread, family: Sequence[str], pending: Sequence[Call]) -> Rule[None]:
    """Raise the conflict `busy` if the threads must be kept."""
    since = unit.idle_since
    for ids in chunks(family):
        theirs = {"thread_id": OneOf(values=ids)}
        threads = {"id": theirs["thread_id"]}
        reasons = [Find(kind=Thread, where={**threads, "run_id": Not(value=None)}, columns=("id",), limit=1)]
        if since is not None:
            late = Beyond(value=since - MICROSECOND)
            reasons += [
                Find(kind=Thread, where={**threads, "created_at": late}, columns=("id",), limit=1),
                Find(kind=Run, where={**theirs, "completed_at": late}, columns=("id",), limit=1),
                Find(kind=VariablesRequest, where=theirs, columns=("id",), limit=1),
                Find(kind=Wake, where=theirs, columns=("thread_id",), limit=1),
            ]
        if any((yield reasons)):
            raise GuardFailed("busy")
    if since is not None and pending:
        raise GuardFailed("busy")


def _forget_bytes(unit: ForgetBytes) -> Rule[UnitResult]:
    where = [{"digest": each.digest, "at": each.at} for each in unit.dropped]
    yield [Clear(kind=DroppedBytes, where=each) for each in where]
    return UnitResult(units.Committed(count=len(where)))
