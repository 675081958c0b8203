"""Late results that no agent will read: cancels the calls that still accept them, as `CancelCall` does."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from toolwright.adapters.store.engine.outcome import EffectResult
from toolwright.adapters.store.rules.parts import chunks, tell, touch
from toolwright.core.agents.agent import entity_id_of
from toolwright.core.agents.config import AgentHead, AgentRevision
from toolwright.core.journal.agent_effects import DropTimer, drop_timer
from toolwright.core.journal.child_effects import HandOff
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.rows import (
    Find,
    Move,
    OneOf,
    Rule,
)
from toolwright.core.journal.space_effects import Edit, Post, Source
from toolwright.core.journal.units import Advance, Unit
from toolwright.core.json_value import JSONObject
from toolwright.core.results import CALL_CANCELLED
from toolwright.core.spaces import Entity, SpaceMessage
from toolwright.core.threads.call import Call, CallMove, timer_of
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.wire.call import call_message_id
from toolwright.wire.event import outcome_event
from toolwright.wire.result import result_to_json, s3_result
from toolwright.wire.space import edited_event

RESULT = result_to_json(CALL_CANCELLED)


def pending_calls(unit: Advance) -> list[str]:
    """Return the ids of the calls that become pending with this unit."""
    status: dict[str, str] = {}
    for call in (*unit.calls, *unit.nested):
        if call.status == "pending":
            status[call.id] = "pending"
    for change in unit.changes:
        call = change.after
        if call.status == "pending" or call.id in status:
            status[call.id] = call.status
    return [call_id for call_id, now in status.items() if now == "pending"] if status else []


def _handed_to(unit: Advance) -> str | None:
    """Return the id of the agent to which the unit hands over its thread, or None."""
    handed = [each for each in unit.effects if isinstance(each, HandOff) and each.thread_id == unit.thread_id]
    return handed[-1].agent if handed else None


def _without_late_results(
    unit: Advance, stored: Iterable[Call], messages: Mapping[str, SpaceMessage]
) -> Advance:
    """Return the unit with every call that would become pending cancelled at once.

    `stored` are the calls that already exist. `messages` are the messages that show calls, by message id.
    """
    moved = {call.id: call for call in (*stored, *unit.calls, *unit.nested)}
    moved |= {change.after.id: change.after for change in unit.changes}
    over = [moved[call_id] for call_id in pending_calls(unit) if call_id in moved]
    edited = {each.message.id: each.message for each in unit.effects if isinstance(each, Post | Edit)}
    ends = {edit.message.id: edit for edit in _cancelled_edits(over, {**messages, **edited})}
    posted = [_post_with_end(each, ends) for each in unit.effects]
    new = {call.id for call in (*unit.calls, *unit.nested) if call.status == "pending"}
    changes = [CallMove(before=call, after=_cancelled(call, unit)) for call in over if call.id not in new]
    return changed(
        unit,
        changes=(*unit.changes, *changes),
        calls=tuple([_cancelled(call, unit) for call in unit.calls]),
        nested=tuple([_cancelled(call, unit) for call in unit.nested]),
        events=(*unit.events, *[_cancelled_event(call) for call in over]),
        effects=(*posted, *ends.values(), *dropped_timers(over)),
    )


def _cancelled_event(call: Call) -> EventDraft:
    """Return the event that reports the cancelled call to subscribers of its thread."""
    return outcome_event(call.id, call.name, CALL_CANCELLED)


def dropped_timers(calls: Iterable[Call]) -> list[DropTimer]:
    """Return the effects that delete the timers of calls that had an expiry."""
    return [DropTimer(name=timer_of(call.id)) for call in calls if call.expires_at is not None]


def _cancelled_edits(
    calls: Iterable[Call], messages: Mapping[str, SpaceMessage], author: Entity | None = None
) -> list[Edit]:
    """Return edits of the space messages that show the calls; `author` is the agent that made them, if it exists.

    Only the call's status and result change in a message. The new values contain no secrets.
    """
    edits: list[Edit] = []
    for call in calls:
        message = None if call.space_id is None else messages.get(call_message_id(call.id))
        if message is not None:
            edits.append(_cancelled_edit(call, message, author))
    return edits


def _cancelled_edit(call: Call, message: SpaceMessage, author: Entity | None) -> Edit:
    other_metadata = {name: value for name, value in message.metadata.items() if name != "timedOut"}
    metadata: JSONObject = {**other_metadata, "result": s3_result(CALL_CANCELLED), "status": "error"}
    edited = changed(message, metadata=metadata, edited_at=None)
    source = Source(thread_id=call.thread_id, run_id=call.run_id, agent=call.agent)
    entity = author if author is not None and author.id == entity_id_of(call.agent or "") else None
    events = (_cancelled_event(call), edited_event(edited, entity, ()))
    return Edit(space_id=message.space_id, source=source, message=edited, events=events, if_there=True)


def _post_with_end(effect: Effect, ends: dict[str, Edit]) -> Effect:
    """Post a message in its final state if the same unit ends it, because no unit writes a row twice."""
    if not isinstance(effect, Post) or effect.message.id not in ends:
        return effect
    end = ends.pop(effect.message.id)
    return changed(effect, message=end.message, events=(*effect.events, *end.events))


def _cancelled(call: Call, unit: Advance) -> Call:
    if call.status != "pending":
        return call
    return changed(call, status="cancelled", result=RESULT, completed_at=unit.at)


def is_deleted(agent_id: str) -> Rule[bool]:
    """Check whether the agent was configured and has been deleted."""
    where, first = {"agent_id": agent_id}, ("revision",)
    if not (yield Find(kind=AgentRevision, where=where, columns=first, order=first, limit=1, lock="share")):
        return False  # if there is such an agent, the app declares it
    return not (yield Find(kind=AgentHead, where={"id": agent_id}, columns=("id",)))


def is_orphan(thread_id: str) -> Rule[bool]:
    """Check whether the thread's answering agent was deleted. Otherwise locks the agent until this commit."""
    rows = yield Find(kind=Thread, where={"id": thread_id}, columns=("agent", "active_agent"))
    if not rows:
        return False
    agent_id = rows[0].active_agent or rows[0].agent
    if (yield Find(kind=AgentHead, where={"id": agent_id}, columns=("id",), lock="share")):
        return False
    return (yield from is_deleted(agent_id))  # it can exist in another revision


def without_orphans(unit: Advance) -> Rule[Advance]:
    """Return the unit, without late results if the agent that will answer in its thread has been deleted."""
    agent_id = _handed_to(unit)
    deleted = is_orphan(unit.thread_id) if agent_id is None else is_deleted(agent_id)
    if not (yield from deleted):
        return unit
    stored: list[Call] = []
    for ids in chunks(pending_calls(unit)):
        stored += yield Find(kind=Call, where={"id": OneOf(values=ids)})
    return _without_late_results(unit, stored, (yield from _messages(_placed(unit, stored))))


def cancel_late_calls(found: Iterable[Call], unit: Unit, done: EffectResult) -> Rule[None]:
    """Cancel calls that still accept a late result, and notify the subscribers of their threads, which are locked.

    Deletes the timers of the calls. The caller updates their messages in spaces later (`shown`).
    """
    calls = sorted(found, key=lambda each: (each.thread_id, each.created_at, each.id))
    fields = {"status": "cancelled", "result": RESULT, "completed_at": unit.at}
    for ids in chunks([call.id for call in calls]):
        where = {"id": OneOf(values=ids), "status": "pending"}
        yield Move(kind=Call, where=where, fields=fields, returns=("id",))
    for thread_id, some in groupby(calls, lambda each: each.thread_id):
        its = list(some)
        [row] = yield touch(thread_id, len(its))
        numbers = range(row.ev - len(its) + 1, row.ev + 1)
        yield [
            tell((_cancelled_event(call),), ev, thread_id, call.run_id, row.agent, unit, done)
            for ev, call in zip(numbers, its, strict=True)
        ]
    yield [drop_timer(each.name) for each in dropped_timers(calls)]


def shown(calls: Sequence[Call], author: Entity | None = None) -> Rule[list[Edit]]:
    """Return edits of the space messages that show these calls."""
    places = [(call.id, call.space_id) for call in calls if call.space_id is not None]
    return _cancelled_edits(calls, (yield from _messages(places)), author)


def _placed(unit: Advance, stored: Iterable[Call]) -> list[tuple[str, str]]:
    """Return the ids of calls and of the spaces that show them."""
    places = {call.id: call.space_id for call in (*stored, *unit.calls, *unit.nested)}
    places |= {change.after.id: change.after.space_id for change in unit.changes}
    return [(call_id, space_id) for call_id, space_id in places.items() if space_id is not None]


def _messages(places: Iterable[tuple[str, str]]) -> Rule[dict[str, SpaceMessage]]:
    messages: list[SpaceMessage] = []
    for some in chunks(places):
        where = tuple([{"id": call_message_id(call_id), "space_id": space_id} for call_id, space_id in some])
        messages += yield Find(kind=SpaceMessage, where=where)
    return {each.id: each for each in messages}
