"""Effects on thread trees as programs: spawn, message, end and report of children; deletion of agents."""

from collections.abc import Generator, Iterable
from typing import TypeAlias

from toolwright.adapters.store.engine.codecs import Params, Row, long_text_or_none, micros, micros_or_none
from toolwright.adapters.store.engine.outcome import EffectResult, numbered
from toolwright.adapters.store.engine.program import Op, Ops, Statement
from toolwright.adapters.store.programs.parts import (
    cancel_late_calls,
    deliver,
    insert_events,
    is_deleted,
    refused,
    shown,
)
from toolwright.adapters.store.sql.children import REQUESTS
from toolwright.adapters.store.sql.messages import CALLS
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sql.threads import ENV, EVENTS, FILES, INBOX, RUNS, THREADS
from toolwright.core.env.env import EnvChange
from toolwright.core.files import FileChange
from toolwright.core.journal import child_effects
from toolwright.core.journal.effects import AddNestedCall
from toolwright.core.journal.units import Unit
from toolwright.core.json_value import dumps
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.run import Run
from toolwright.core.value import changed

Steps: TypeAlias = Generator[Ops, list[Row], None]


def perform_child(
    effect: child_effects.ChildEffect, unit: Unit, sql: Statements, done: EffectResult
) -> Steps:
    """Perform one effect."""
    params: Params = {"thread_id": effect.thread_id}
    match effect:
        case child_effects.Spawn():
            yield from _spawn(effect, unit, sql, done)
        case child_effects.Speak():
            yield from _speak(effect, unit, sql, done)
        case child_effects.Report():
            yield from _report(effect, unit, sql, done)
        case child_effects.Notify():
            yield from _files(effect.files, sql)
            yield from deliver(effect.notice, unit, sql, done)
        case child_effects.Close() | child_effects.Terminate():
            yield Op(sql.children.close, params, "thread")
            yield from _stop(sql.children.stop, effect, unit)
            yield from _abandon_calls(effect, unit, sql, done)
        case child_effects.CancelChildren():
            yield from _stop(sql.children.stop_below, effect, unit)
        case child_effects.Stop():
            yield Op(sql.thread_state, params, "thread")
            yield from _stop(sql.children.stop, effect, unit)
            yield from _abandon_calls(effect, unit, sql, done)
        case child_effects.HandOff():
            yield Op(sql.children.hand_off, {**params, "agent": effect.agent}, "thread")
            if (yield from is_deleted(effect.agent, sql)):
                calls = yield from cancel_late_calls(
                    sql.agents.cancel_calls_in_thread, params, unit, sql, done
                )
                done.shown += yield from shown(calls, sql)
        case child_effects.Activated():
            yield Op(sql.children.activated, {**params, "activated": dumps([*effect.sides])}, "thread")
        case child_effects.BackOff():
            until = micros_or_none(effect.until)
            yield Op(sql.children.back_off, {**params, "faults": effect.faults, "until": until}, "thread")
        case child_effects.SetValue():
            yield _set_value(effect, sql)
        case _:
            yield from _request(effect, sql)


def wake_askers(env: Iterable[EnvChange], unit: Unit, sql: Statements) -> Steps:
    """Wake the threads that wait for one of these variables."""
    for name in sorted({change.name for change in env if change.kind == "env"}):
        yield Op(sql.children.wake_askers, {"name": name, **_wake_params(unit)})


def _spawn(effect: child_effects.Spawn, unit: Unit, sql: Statements, done: EffectResult) -> Steps:
    born = yield Op(sql.spaces.insert_home, THREADS.params(effect.thread))
    if not born:
        return  # it existed already
    for change in effect.env:
        if change.row is not None:
            yield Op(sql.put_env, ENV.params(change.row))
    yield from _begin(effect, effect.run, effect.thread.posted, effect.thread.ev, unit, sql, done)
    if effect.told is not None and effect.thread.parent_id is not None:
        yield from _notify_parent(effect.thread.parent_id, (effect.told,), None, unit, sql, done)


def _stop(statements: Iterable[Statement], effect: child_effects.ChildEffect, unit: Unit) -> Steps:
    params: Params = {"thread_id": effect.thread_id, "at": micros(unit.at), **_wake_params(unit)}
    for statement in statements:
        yield Op(statement, params)


def _abandon_calls(
    effect: child_effects.ChildEffect, unit: Unit, sql: Statements, done: EffectResult
) -> Steps:
    """Cancel a finished thread's calls that still accept a late result, and discard its unread events."""
    calls = yield from cancel_late_calls(
        sql.children.cancel_calls, {"thread_id": effect.thread_id}, unit, sql, done
    )
    done.shown += yield from shown(calls, sql)
    yield Op(sql.children.set_aside, {"thread_id": effect.thread_id})


def _speak(effect: child_effects.Speak, unit: Unit, sql: Statements, done: EffectResult) -> Steps:
    spoken: Params = {"thread_id": effect.thread_id, "new_run": effect.run.id}
    if effect.report is not None:
        rows = yield Op(sql.children.begin, {**spoken, "report": effect.report})
    else:
        rows = yield Op(sql.post, spoken)
    if not rows:
        yield from refused(effect.thread_id, "busy", sql)
    [(run_id, posted, ev, _)] = rows
    if run_id == effect.run.id:
        if effect.report is None:
            yield Op(sql.children.forget_state, {"thread_id": effect.thread_id})
        yield from _begin(effect, effect.run, posted, ev, unit, sql, done)
        return
    yield from _files(effect.files, sql)
    yield Op(sql.insert_inbox, INBOX.params(changed(effect.event, run_id=run_id), n=posted), "duplicate")
    yield Op(sql.wake, {"thread_id": effect.thread_id, **_wake_params(unit)})
    done.runs.append((effect.thread_id, run_id))


def _begin(
    effect: child_effects.Spawn | child_effects.Speak,
    run: Run,
    posted: int,
    ev: int,
    unit: Unit,
    sql: Statements,
    done: EffectResult,
) -> Steps:
    """Queue a run for the message."""
    yield from _files(effect.files, sql)
    event = changed(effect.event, run_id=run.id)
    yield Op(sql.insert_inbox, INBOX.params(event, n=posted), "duplicate")
    yield Op(sql.insert_run, RUNS.params(run), "duplicate")
    events = numbered((effect.queued,), ev, unit, effect.thread_id, run.id, run.agent)
    yield Op(sql.insert_event, EVENTS.params(events[0], base=0))
    done.events += events
    yield Op(sql.wake, {"thread_id": effect.thread_id, **_wake_params(unit)})
    done.runs.append((effect.thread_id, run.id))


def _report(effect: child_effects.Report, unit: Unit, sql: Statements, done: EffectResult) -> Steps:
    params: Params = {"thread_id": effect.thread_id, "state": effect.state}
    rows = yield Op(sql.children.report, {**params, "report": effect.report})
    if not rows:
        yield Op(sql.children.end_unheard, params, "thread")
        yield from _abandon_calls(effect, unit, sql, done)
        return
    yield from _files(effect.files, sql)
    if effect.report is not None:
        yield from _settle(effect, effect.report, unit, sql, done)
    elif effect.notice is not None:
        run_id = yield from deliver(effect.notice, unit, sql, done)
        if run_id is not None:
            yield from _notify_parent(effect.parent.id, (effect.finished,), run_id, unit, sql, done)


def _settle(
    effect: child_effects.Report, call_id: str, unit: Unit, sql: Statements, done: EffectResult
) -> Steps:
    """Settle the call with its result if it still waits for one."""
    parent: Params = {"thread_id": effect.parent.id}
    result = long_text_or_none(effect.result)
    settled: Params = {
        **parent,
        "call_id": call_id,
        "now": "resolved",
        "result": result,
        "at": micros(unit.at),
    }
    rows = yield Op(sql.settle, settled)
    if not rows or not rows[0]:
        return
    route, run_id = rows[0]
    if route == "inbox" and effect.late is not None:
        [(posted,)] = yield Op(sql.count_posted, parent, "thread")
        yield Op(sql.insert_inbox, INBOX.params(effect.late, n=posted), "duplicate")
    yield from _notify_parent(effect.parent.id, effect.followers_events, run_id, unit, sql, done)
    yield Op(sql.wake, {**parent, **_wake_params(unit)})
    done.runs.append((effect.parent.id, run_id))


def _notify_parent(
    parent_id: str,
    drafts: tuple[EventDraft, ...],
    run_id: str | None,
    unit: Unit,
    sql: Statements,
    done: EffectResult,
) -> Steps:
    """Send events to the parent's subscribers."""
    for draft in drafts:
        [(ev, agent)] = yield Op(sql.touch, {"thread_id": parent_id, "more": 1}, "thread")
        events = numbered((draft,), ev, unit, parent_id, run_id, agent)
        yield Op(sql.insert_event, EVENTS.params(events[0], base=0))
        done.events += events


def _request(effect: child_effects.ChildEffect, sql: Statements) -> Steps:
    match effect:
        case child_effects.OpenRequest(request=request):
            yield Op(sql.children.open_request, REQUESTS.params(request))
            if request.kind == "run":
                for each in request.required:
                    params: Params = {
                        "name": each.name,
                        "request_id": request.id,
                        "thread_id": request.thread_id,
                    }
                    yield Op(sql.children.ask, params)
        case child_effects.CloseRequest():
            yield Op(sql.children.close_request, {"id": effect.id})
            yield Op(sql.children.drop_asked, {"id": effect.id})
        case child_effects.ChildLimit():
            yield Op(sql.children.room, _child_limit(effect), "child_limit")
        case child_effects.CheckRequest():
            yield Op(sql.children.hold_request, {"id": effect.id}, "request")
        case child_effects.FulfillRequest():
            yield Op(sql.children.take_request, {"id": effect.id}, "request")
            yield Op(sql.children.drop_asked, {"id": effect.id})
        case _:
            raise TypeError(f"No store can apply the effect {type(effect).__name__}.")


def _child_limit(effect: child_effects.ChildLimit) -> Params:
    return {"thread_id": effect.thread_id, "agent": effect.agent, "most": effect.most}


def _set_value(effect: child_effects.SetValue, sql: Statements) -> Op:
    params: Params = {"thread_id": effect.thread_id, "key": dumps(effect.key)}
    if effect.value is None:
        return Op(sql.children.drop_value, params)
    return Op(sql.children.put_value, {**params, "value": effect.value})


def _files(changes: Iterable[FileChange], sql: Statements) -> Steps:
    for change in changes:
        if change.file is not None:
            yield Op(sql.insert_file, FILES.params(change.file), "file")


def _wake_params(unit: Unit) -> Params:
    at = micros(unit.at)
    return {"due": at, "gen": at}


def add_nested_call(effect: AddNestedCall, unit: Unit, sql: Statements, done: EffectResult) -> Steps:
    """Create a nested call. Locks the thread's row, as does a unit that ends the parent call."""
    call = effect.call
    touched: Params = {"thread_id": call.thread_id, "more": len(effect.events)}
    [(ev, agent)] = yield Op(sql.touch, touched, "thread")
    yield Op(sql.hold_call, {"call_id": call.parent_id, "thread_id": call.thread_id}, "call")
    yield Op(sql.insert_call_once, CALLS.params(call), "call")
    if effect.events:
        events = numbered(effect.events, ev, unit, call.thread_id, call.run_id, agent)
        yield insert_events(events, sql)
        done.events += events
