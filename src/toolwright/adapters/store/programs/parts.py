"""Parts shared by programs: locks, deliveries, cancelled late results, and ops for files, values, events, wake-ups."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from toolwright.adapters.store.engine.codecs import Params, Row, Values, long_text_or_none, micros
from toolwright.adapters.store.engine.late_results import (
    RESULT,
    cancelled_edits,
    cancelled_event,
    dropped_timers,
    handed_to,
    pending_calls,
    without_late_results,
)
from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, numbered
from toolwright.adapters.store.engine.program import Op, Ops, Statement
from toolwright.adapters.store.sql.readers import CALLS, SPACE_MESSAGES
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sql.threads import ENV, EVENTS, FILES, INBOX, RUNS, THREADS
from toolwright.core.env.env import EnvChange
from toolwright.core.files import FileChange
from toolwright.core.journal import child_effects
from toolwright.core.journal.effects import AddNestedCall, Edit, Effect, Guard, deliveries_of
from toolwright.core.journal.units import Advance, Leaving, Unit
from toolwright.core.spaces import Entity, SpaceMessage
from toolwright.core.threads.call import Call
from toolwright.core.threads.child import ENDED
from toolwright.core.threads.event import Event
from toolwright.core.threads.inbox import Delivery
from toolwright.core.value import changed
from toolwright.wire.call import call_message_id

Steps: TypeAlias = Generator[Ops, list[Row], None]
TOGETHER = 50  # threads locked by one statement


def lock(effects: Sequence[Effect], own_thread: str, sql: Statements) -> Steps:
    """Lock all threads that a unit writes, unless it writes only its own."""
    thread_ids = {own_thread, *spoken_to(effects)}
    for effect in effects:
        if not isinstance(effect, child_effects.ChildEffect):
            continue
        thread_ids |= _written(effect)
        if isinstance(
            effect,
            child_effects.CancelChildren | child_effects.Close | child_effects.Stop | child_effects.Terminate,
        ):
            below = yield Op(sql.children.below, {"thread_id": effect.thread_id})
            thread_ids |= {str(thread_id) for (thread_id,) in below}
    if len(thread_ids) > 1:
        yield from lock_threads(thread_ids, sql)


def spoken_to(effects: Sequence[Effect]) -> set[str]:
    """Return the threads that receive deliveries, and the threads in which nested calls are created."""
    asking = [each.call.thread_id for each in effects if isinstance(each, AddNestedCall)]
    return {*asking, *[each.thread.id for each in deliveries_of(effects)]}


def lock_threads(thread_ids: Iterable[str], sql: Statements) -> Steps:
    """Lock these threads in the order of their ids, which prevents deadlocks between units."""
    ids = sorted(thread_ids)
    for first in range(0, len(ids), TOGETHER):
        some = ids[first : first + TOGETHER]
        yield Op(sql.spaces.lock_threads(len(some)), {f"id_{i}": one for i, one in enumerate(some)})


def _written(effect: child_effects.ChildEffect) -> set[str]:
    """Return the existing threads that the effect names."""
    match effect:
        case child_effects.Spawn(thread=thread):
            return set() if thread.parent_id is None else {thread.parent_id}
        case child_effects.Report(parent=parent):
            return {effect.thread_id, parent.id}
        case child_effects.Notify(notice=notice):
            return {effect.thread_id, notice.thread.id}
        case _:
            return {effect.thread_id}


def leaving(thread_id: str, leaving: Leaving, sql: Statements) -> Op:
    """Return the op with which a worker releases its thread, if the wake-up is unchanged since it was read."""
    params: Params = {"thread_id": thread_id, "gen": leaving.gen}
    if leaving.due is None:
        return Op(sql.drop_wake, params)
    return Op(sql.delay_wake, {**params, "due": micros(leaving.due)})


def wake(unit: Unit, thread_id: str, sql: Statements) -> Op:
    """Schedule the thread."""
    at = micros(unit.at)
    return Op(sql.wake, {"thread_id": thread_id, "due": at, "gen": at})


def new_files(changes: Sequence[FileChange], sql: Statements) -> list[Op]:
    """Return the ops that insert files at unused paths."""
    new = [change.file for change in changes if change.new and change.file is not None]
    return [Op(sql.insert_file, FILES.params(file), "file") for file in new]


def write_files(thread_id: str, changes: Sequence[FileChange], sql: Statements) -> list[Op]:
    """Return ops that write or delete files."""
    ops: list[Op] = []
    for change in changes:
        if change.file is None:
            ops.append(Op(sql.drop_file, {"thread_id": thread_id, "folded": change.folded}, again=True))
        elif not change.new:
            ops.append(Op(sql.put_file, FILES.params(change.file)))
    return ops


def write_env(changes: Sequence[EnvChange], sql: Statements) -> list[Op]:
    """Return ops that set or delete values."""
    ops: list[Op] = []
    for change in changes:
        if change.row is None:
            key: Params = {"owner": change.owner, "kind": change.kind, "name": change.name}
            ops.append(Op(sql.drop_env, key, again=True))
        else:
            ops.append(Op(sql.put_env, ENV.params(change.row)))
    return ops


def insert_events(events: Sequence[Event], sql: Statements) -> list[Op]:
    """Return the op that inserts events with known numbers, or no op if there are no events."""
    if not events:
        return []
    row = EVENTS.values(sql.insert_event, "base")
    return [insert(sql.insert_event, [row(event, 0) for event in events])]


def insert(
    statement: Statement,
    params: Sequence[Params | Values],
    given: Mapping[str, tuple[int, int]] | None = None,
) -> Op:
    """Return one op that inserts all of these rows. There must be at least one."""
    return Op(statement, params[0], None, params[1:], given)


def refused(thread_id: str, otherwise: Guard, sql: Statements) -> Steps:
    """Raise the failed precondition of a statement that sends to a thread."""
    [(state,)] = yield Op(sql.thread_state, {"thread_id": thread_id}, "thread")
    raise GuardFailed("terminated" if state in ENDED else otherwise)


def deliver(
    delivery: Delivery, unit: Unit, sql: Statements, done: EffectResult
) -> Generator[Ops, list[Row], str | None]:
    """Insert the event for the queued run, or for a new run if none is queued, and wake the thread.

    Returns the id of that run. Returns None and inserts nothing if the thread is terminated or deleted.
    """
    thread, run = delivery.thread, delivery.run
    if not delivery.existing:
        yield Op(sql.spaces.insert_home, THREADS.params(thread))
    rows = yield Op(sql.spaces.deliver, {"thread_id": thread.id, "new_run": run.id})
    if not rows and delivery.required:
        raise GuardFailed("terminated")
    if not rows:
        return None
    [(run_id, posted, ev)] = rows
    event = changed(delivery.event, promised=run_id)
    yield Op(sql.insert_inbox, INBOX.params(event, n=posted), "duplicate")
    if run_id == run.id:
        yield Op(sql.insert_run, RUNS.params(run), "duplicate")
        events = numbered((delivery.queued,), ev, unit, thread.id, run_id, thread.agent)
        yield Op(sql.insert_event, EVENTS.params(events[0], base=0))
        done.events += events
    at = micros(unit.at)
    yield Op(sql.wake, {"thread_id": thread.id, "due": at, "gen": at})
    done.runs.append((thread.id, run_id))
    return str(run_id)


Verdict: TypeAlias = Generator[Ops, list[Row], bool]


def is_deleted(agent_id: str, sql: Statements) -> Verdict:
    """Check whether the agent was configured and has been deleted."""
    configured = yield Op(sql.agents.hold_agent, {"agent_id": agent_id})
    if not configured:
        return False  # if there is such an agent, the app declares it
    rows = yield Op(sql.agents.find_agent, {"agent_id": agent_id})
    return not rows


def is_orphan(thread_id: str, sql: Statements) -> Verdict:
    """Check whether the thread's answering agent was deleted. Otherwise locks the agent until this commit."""
    [(agent_id, held, configured)] = yield Op(sql.agents.answering, {"thread_id": thread_id})
    if held is not None or not configured:
        return False
    return (yield from is_deleted(str(agent_id), sql))  # it can exist in another revision


def without_orphans(unit: Advance, sql: Statements) -> Generator[Ops, list[Row], Advance]:
    """Return the unit, without late results if the agent that will answer in its thread has been deleted."""
    agent_id = handed_to(unit)
    deleted = is_orphan(unit.thread_id, sql) if agent_id is None else is_deleted(agent_id, sql)
    if not (yield from deleted):
        return unit
    rows = yield [Op(sql.agents.find_call, {"call_id": call_id}) for call_id in pending_calls(unit)]
    stored = CALLS.readable([row for row in rows if row])
    return without_late_results(unit, stored, (yield from _messages(_placed(unit, stored), sql)))


def cancel_late_calls(
    statement: Statement, params: Params, unit: Unit, sql: Statements, done: EffectResult
) -> Generator[Ops, list[Row], Sequence[Call]]:
    """Cancel the calls selected by the statement and notify the subscribers of their threads, which are locked.

    Deletes the timers of the calls. The caller updates their messages in spaces later (`shown`).
    """
    result = long_text_or_none(RESULT)
    rows = yield Op(statement, {**params, "result": result, "at": micros(unit.at)})
    calls = sorted(CALLS.readable(rows), key=lambda each: (each.thread_id, each.created_at, each.id))
    for thread_id, some in groupby(calls, lambda each: each.thread_id):
        its = list(some)
        [(last, agent)] = yield Op(sql.touch, {"thread_id": thread_id, "more": len(its)}, "thread")
        for ev, call in enumerate(its, last - len(its) + 1):
            done.events += numbered((cancelled_event(call),), ev, unit, thread_id, call.run_id, agent)
        yield insert_events(tuple(done.events[-len(its) :]), sql)
    yield [Op(sql.spaces.drop_timer, {"name": each.name}) for each in dropped_timers(calls)]
    return calls


def shown(
    calls: Sequence[Call], sql: Statements, author: Entity | None = None
) -> Generator[Ops, list[Row], list[Edit]]:
    """Return edits of the space messages that show these calls."""
    places = [(call.id, call.space_id) for call in calls if call.space_id is not None]
    return cancelled_edits(calls, (yield from _messages(places, sql)), author)


def _placed(unit: Advance, stored: Iterable[Call]) -> list[tuple[str, str]]:
    """Return the ids of calls and of the spaces that show them."""
    places = {call.id: call.space_id for call in (*stored, *unit.calls, *unit.nested)}
    places |= {change.id: change.space_id for change in unit.changes if change.space_id is not None}
    return [(call_id, space_id) for call_id, space_id in places.items() if space_id is not None]


def _messages(
    places: Iterable[tuple[str, str]], sql: Statements
) -> Generator[Ops, list[Row], dict[str, SpaceMessage]]:
    ops = [
        Op(sql.spaces.find_message, {"id": call_message_id(call_id), "space_id": space_id})
        for call_id, space_id in places
    ]
    rows: list[Row] = (yield ops) if ops else []
    return {each.id: each for each in SPACE_MESSAGES.readable([row for row in rows if row])}
