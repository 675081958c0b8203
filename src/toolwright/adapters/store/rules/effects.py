"""Rules of effects: all effects of a unit in the order of locks, those on thread trees, and nested calls.

Other threads by id, spaces by id, their contents, inboxes and timers, and finally the counter of space events.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from toolwright.adapters.store.engine.outcome import EffectResult, placed
from toolwright.adapters.store.rules.late_results import cancel_late_calls, is_deleted, shown
from toolwright.adapters.store.rules.parts import (
    LIVING,
    check_deps,
    chunks,
    count_posted,
    deliver,
    notify,
    refused,
    tell,
    touch,
    write_env,
)
from toolwright.core.files import FileChange
from toolwright.core.journal import child_effects
from toolwright.core.journal.agent_effects import wake
from toolwright.core.journal.effects import AddNestedCall, Effect, deliveries_of
from toolwright.core.journal.rows import (
    Add,
    Delete,
    Descendants,
    Find,
    If,
    LateCalls,
    More,
    Move,
    NoneOf,
    Not,
    Once,
    OneOf,
    Operation,
    Publish,
    Put,
    RowEffect,
    Rule,
    Where,
)
from toolwright.core.journal.space_effects import UNCHANGED, Post, SpaceEffect
from toolwright.core.journal.units import Unit
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.call import MOVES, OPEN, Call
from toolwright.core.threads.child import ENDED, MUTE
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import OVER, Run
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed

FamilyEffect: TypeAlias = (
    child_effects.Spawn
    | child_effects.Speak
    | child_effects.Report
    | child_effects.Notify
    | child_effects.Close
    | child_effects.Terminate
    | child_effects.CancelChildren
    | child_effects.Stop
    | child_effects.HandOff
)
"""Effects on several threads, which also have events. The others are rules of their own."""
_CALL_NOT_OVER = OneOf(values=sorted([status for status, moves in MOVES.items() if moves]))


def perform(effects: Sequence[Effect], unit: Unit) -> Rule[EffectResult]:
    """Perform all effects, and number their events."""
    done = EffectResult()
    for delivery in deliveries_of(effects):
        yield from deliver(delivery, unit, done)
    events = yield from _in_spaces(effects, unit, done)
    for effect in effects:
        if isinstance(effect, FamilyEffect):
            yield from _perform_child(effect, unit, done)
        elif isinstance(effect, RowEffect):
            yield from effect.rule(unit.at)
        elif isinstance(effect, AddNestedCall):
            yield from _add_nested_call(effect, unit, done)
        elif isinstance(effect, Put | Add | Delete):
            yield effect
    events += yield from _in_spaces(done.shown, unit, done)
    if events:
        done.events += yield Publish(events=events, token=unit.token)
    return done


def _in_spaces(effects: Sequence[Effect], unit: Unit, done: EffectResult) -> Rule[list[Event]]:
    """Perform the effects on spaces and return their events."""
    in_spaces = [each for each in effects if isinstance(each, SpaceEffect)]
    events: list[Event] = []
    for effect in sorted(in_spaces, key=lambda each: each.space_id):
        seq = yield from effect.rule(unit.at)
        done.count += seq != UNCHANGED
        if isinstance(effect, Post):
            done.seq = seq
        events += placed(effect, seq, unit.at)
    return events


def _perform_child(effect: FamilyEffect, unit: Unit, done: EffectResult) -> Rule[None]:
    """Perform one effect."""
    thread_id = effect.thread_id
    thread = {"id": thread_id}
    match effect:
        case child_effects.Spawn():
            yield from _spawn(effect, unit, done)
        case child_effects.Speak():
            yield from _speak(effect, unit, done)
        case child_effects.Report():
            yield from _report(effect, unit, done)
        case child_effects.Notify():
            yield _new_files(effect.files)
            yield from deliver(effect.notice, unit, done)
        case child_effects.Close() | child_effects.Terminate():
            yield Move(kind=Thread, where=thread, fields={"state": "terminated"}, guard="thread")
            yield from _stop_family(thread_id, unit, done)
        case child_effects.CancelChildren():
            yield from _stop((yield Descendants(thread_id=thread_id)), unit)
        case child_effects.Stop():
            yield Find(kind=Thread, where=thread, columns=("id",), guard="thread")
            yield from _stop_family(thread_id, unit, done)
        case child_effects.HandOff(agent=agent):
            fields = {"active_agent": agent, "activated": ()}
            yield Move(kind=Thread, where=thread, fields=fields, guard="thread")
            if (yield from is_deleted(agent)):
                yield from _cancel_pending(thread_id, unit, done)


def _spawn(effect: child_effects.Spawn, unit: Unit, done: EffectResult) -> Rule[None]:
    if not (yield Add(record=effect.thread, guard=None)):
        return  # it existed already
    yield write_env([change for change in effect.env if change.row is not None])
    yield from _begin(effect, effect.run, effect.thread.posted, effect.thread.ev, unit, done)
    if effect.told is not None and effect.thread.parent_id is not None:
        yield from notify(effect.thread.parent_id, (effect.told,), None, unit, done)


def _stop_family(thread_id: str, unit: Unit, done: EffectResult) -> Rule[None]:
    """Stop the runs of a thread and of its descendants."""
    yield from _stop([thread_id, *(yield Descendants(thread_id=thread_id))], unit)
    yield from _abandon_calls(thread_id, unit, done)


def _stop(thread_ids: Iterable[str], unit: Unit) -> Rule[None]:
    """Stop the open and queued runs of these threads without a report.

    So calls that still accept a late result are cancelled. Waiting calls are ended by their own runs.
    """
    for ids in chunks(thread_ids):
        at_work = {"id": OneOf(values=ids), "run_id": Not(value=None)}
        rows = yield Find(kind=Thread, where=at_work, columns=("id", "run_id", "next_run_id", "report"))
        if not rows:
            continue
        runs = [each for row in rows for each in (row.run_id, row.next_run_id) if each is not None]
        awaited = [row.report for row in rows if row.report is not None]
        if awaited:
            pending = {"id": OneOf(values=awaited), "status": "pending"}
            yield Move(kind=Call, where=pending, fields={"status": "cancelled", "completed_at": unit.at})
        open_runs = {"id": OneOf(values=runs), "status": NoneOf(values=sorted(OVER))}
        yield Move(kind=Run, where=open_runs, fields={"cancel_requested_at": Once(value=unit.at)})
        stopped = OneOf(values=[row.id for row in rows])
        yield Move(kind=Thread, where={"id": stopped}, fields={"report": MUTE})
        yield [wake(row.id, unit.at) for row in rows]


def _abandon_calls(thread_id: str, unit: Unit, done: EffectResult) -> Rule[None]:
    """Cancel an ended thread's calls that still accept a late result, and discard its unread events."""
    ended = {"id": thread_id, "state": OneOf(values=ENDED)}
    rows = yield Find(kind=Thread, where=ended, columns=("run_id",))
    if not rows:
        return
    yield from _cancel_pending(thread_id, unit, done)
    if rows[0].run_id is None:
        unread = {"thread_id": thread_id, "status": "pending"}
        yield Move(kind=InboxEvent, where=unread, fields={"status": "failed"})


def _cancel_pending(thread_id: str, unit: Unit, done: EffectResult) -> Rule[None]:
    calls = yield LateCalls(thread_id=thread_id)
    yield from cancel_late_calls(calls, unit, done)
    done.shown += yield from shown(calls)


def _speak(effect: child_effects.Speak, unit: Unit, done: EffectResult) -> Rule[None]:
    where: dict[str, object] = {"id": effect.thread_id, "state": LIVING}
    fields: dict[str, object] = {"posted": More(by=1), "run_id": Once(value=effect.run.id)}
    is_idle = {"run_id": None}
    fields |= {
        "ev": If(when=is_idle, then=More(by=1)),
        "report": If(when=is_idle, then=effect.report),
        "state": If(when=is_idle, then=None),
    }
    if effect.report is not None:
        where["run_id"] = None
    rows = yield Move(kind=Thread, where=where, fields=fields, returns=("run_id", "posted", "ev"))
    if not rows:
        yield from refused(effect.thread_id, "busy")
    [row] = rows
    if row.run_id == effect.run.id:
        yield from _begin(effect, effect.run, row.posted, row.ev, unit, done)
        return
    if effect.run.deps is not None:
        yield from check_deps(row.run_id, effect.run.deps, "busy")
    event = Add(record=changed(effect.event, run_id=row.run_id, n=row.posted))
    yield [*_new_files(effect.files), event]
    yield wake(effect.thread_id, unit.at)
    done.runs.append((effect.thread_id, row.run_id))


def _begin(
    effect: child_effects.Spawn | child_effects.Speak,
    run: Run,
    posted: int,
    ev: int,
    unit: Unit,
    done: EffectResult,
) -> Rule[None]:
    """Queue a run for the message."""
    event = changed(effect.event, run_id=run.id, n=posted)
    yield [*_new_files(effect.files), Add(record=event), Add(record=run)]
    yield tell((effect.queued,), ev, effect.thread_id, run.id, run.agent, unit, done)
    yield wake(effect.thread_id, unit.at)
    done.runs.append((effect.thread_id, run.id))


def _report(effect: child_effects.Report, unit: Unit, done: EffectResult) -> Rule[None]:
    child = {"id": effect.thread_id}
    expected = {**child, "report": effect.report, "state": LIVING}
    ended = {"report": None, "state": effect.state}
    if not (yield Move(kind=Thread, where=expected, fields=ended, returns=("id",))):
        unheard = {
            "report": If(when={"run_id": None}, then=None),
            "state": If(when={"state": LIVING}, then=effect.state),
        }
        yield Move(kind=Thread, where=child, fields=unheard, guard="thread")
        yield from _abandon_calls(effect.thread_id, unit, done)
        return
    yield _new_files(effect.files)
    if effect.report is not None:
        yield from _settle(effect, effect.report, unit, done)
    elif effect.notice is not None:
        run_id = yield from deliver(effect.notice, unit, done)
        if run_id is not None:
            yield from notify(effect.parent.id, (effect.finished,), run_id, unit, done)


def settle(where: Where, status: str, result: JSONObject | None, unit: Unit) -> Move:
    """Return the operation that settles a call, and returns its route and run."""
    fields = {
        "status": status,
        "route": If(when={"status": "pending"}, then="inbox", other="inline"),
        "result": result,
        "completed_at": unit.at,
    }
    return Move(kind=Call, where=where, fields=fields, returns=("route", "run_id"))


def _settle(effect: child_effects.Report, call_id: str, unit: Unit, done: EffectResult) -> Rule[None]:
    """Settle the call with its result if it still waits for one."""
    parent_id = effect.parent.id
    where = {"id": call_id, "thread_id": parent_id, "status": OneOf(values=OPEN)}
    rows = yield settle(where, "resolved", effect.result, unit)
    if not rows:
        return
    [row] = rows
    if row.route == "inbox" and effect.late is not None:
        [counted] = yield count_posted(parent_id)
        yield Add(record=changed(effect.late, n=counted.posted))
    yield from notify(parent_id, effect.followers_events, row.run_id, unit, done)
    yield wake(parent_id, unit.at)
    done.runs.append((parent_id, row.run_id))


def _new_files(changes: Iterable[FileChange]) -> list[Operation]:
    return [Add(record=change.file, guard="file") for change in changes if change.file is not None]


def _add_nested_call(effect: AddNestedCall, unit: Unit, done: EffectResult) -> Rule[None]:
    """Create a nested call. Locks the thread's row, as does a unit that ends the parent call."""
    call = effect.call
    [row] = yield touch(call.thread_id, len(effect.events))
    parent = {"id": call.parent_id, "thread_id": call.thread_id, "status": _CALL_NOT_OVER}
    yield Find(kind=Call, where=parent, columns=("id",), lock="update", guard="call")
    yield Add(record=call, guard="call")
    if effect.events:
        yield tell(effect.events, row.ev, call.thread_id, call.run_id, row.agent, unit, done)
