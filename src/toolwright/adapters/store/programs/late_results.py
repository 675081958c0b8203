"""Programs that cancel calls whose late results no agent will read (see `engine`)."""

from collections.abc import Generator, Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

from toolwright.adapters.store.engine.codecs import Params, Row, long_text_or_none, micros
from toolwright.adapters.store.engine.late_results import (
    RESULT,
    cancelled_edits,
    cancelled_event,
    dropped_timers,
    handed_to,
    pending_calls,
    without_late_results,
)
from toolwright.adapters.store.engine.outcome import EffectResult, numbered
from toolwright.adapters.store.engine.program import Op, Ops
from toolwright.adapters.store.engine.statement import Statement
from toolwright.adapters.store.programs.parts import insert_events
from toolwright.adapters.store.sql.readers import CALLS, SPACE_MESSAGES
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.journal.effects import Edit
from toolwright.core.journal.units import Advance, Unit
from toolwright.core.spaces.space import Entity, SpaceMessage
from toolwright.core.threads.call import Call
from toolwright.wire.call import call_message_id

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
    stored = CALLS.each([row for row in rows if row])
    return without_late_results(unit, stored, (yield from _messages(_placed(unit, stored), sql)))


def cancel_late_calls(
    statement: Statement, params: Params, unit: Unit, sql: Statements, done: EffectResult
) -> Generator[Ops, list[Row], Sequence[Call]]:
    """Cancel the calls selected by the statement and notify the subscribers of their threads, which are locked.

    Deletes the timers of the calls. The caller updates their messages in spaces later (`shown`).
    """
    result = long_text_or_none(RESULT)
    rows = yield Op(statement, {**params, "result": result, "at": micros(unit.at)})
    calls = sorted(CALLS.each(rows), key=lambda each: (each.thread_id, each.created_at, each.id))
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
    return {each.id: each for each in SPACE_MESSAGES.each([row for row in rows if row])}
