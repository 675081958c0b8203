"""Effects on the in-memory tables, applied in order, each with its precondition; a failure is undone (`undo`)."""

from collections.abc import Sequence

from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, placed
from toolwright.adapters.store.memory.children import deliver, perform_child
from toolwright.adapters.store.memory.mcp import perform_mcp
from toolwright.adapters.store.memory.recall import perform_memory
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.journal.child_effects import ChildEffect
from toolwright.core.journal.effects import (
    CheckMind,
    ContextEffect,
    DropGoal,
    DropMember,
    DropMemory,
    DropMind,
    DropPlan,
    DropSpace,
    DropTimer,
    Edit,
    Effect,
    Enter,
    Erase,
    FirePlan,
    KeepTexts,
    MarkRead,
    MemoryEffect,
    MovePlans,
    Pin,
    Post,
    React,
    SaveMember,
    SaveSpace,
    SetGoal,
    SetMemory,
    SetPlan,
    SetTimer,
    SpaceEffect,
    Unreact,
    deliveries_of,
)
from toolwright.core.journal.mcp_effects import McpEffect
from toolwright.core.journal.units import Unit
from toolwright.core.spaces.space import Member
from toolwright.core.threads.event import Event
from toolwright.core.value import changed

SPACE_EVENTS = "space_events"  # the name of the counter that numbers the events of all spaces


def perform(effects: Sequence[Effect], unit: Unit, tables: Tables) -> EffectResult:
    """Apply all effects, and number their events."""
    done = EffectResult()
    for delivery in deliveries_of(effects):
        deliver(delivery, unit, tables, done)
    events = _space_events(effects, unit, tables, done)
    for effect in effects:
        if isinstance(effect, ChildEffect):
            perform_child(effect, unit, tables, done)
        elif isinstance(effect, MemoryEffect):
            perform_memory(effect, tables)
        elif isinstance(effect, McpEffect):
            perform_mcp(effect, unit, tables, done)
        elif isinstance(effect, ContextEffect):
            _context(effect, tables)
        else:
            _apply_other(effect, tables)
    events += _space_events(done.shown, unit, tables, done)
    if events:
        first = tables.counters.get(SPACE_EVENTS, 0) + 1
        tables.counters[SPACE_EVENTS] = first + len(events) - 1
        numbered = [changed(event, n=n) for n, event in enumerate(events, first)]
        tables.space_events += numbered
        done.events += numbered
    return done


def _context(effect: ContextEffect, tables: Tables) -> None:
    if isinstance(effect, KeepTexts):
        for each in effect.texts:
            key = (each.thread_id, each.digest)
            if key not in tables.sent_texts:
                tables.sent_texts[key] = each
        return
    if isinstance(effect, Pin):
        _pin(effect, tables)
        return
    row = effect.compaction
    thread, key = tables.thread(row.thread_id), (row.thread_id, row.number)
    if key in tables.compactions:
        raise GuardFailed("compaction")
    tables.compactions[key] = row
    thread.compacted += 1
    thread.cut = thread.cut if effect.cut is None else effect.cut
    thread.posted += effect.told


def _pin(effect: Pin, tables: Tables) -> None:
    thread = tables.thread(effect.thread_id)
    others = sum(each.pinned and each.kept and each.seq != effect.seq for each in thread.messages)
    has_place = any(
        each.seq == effect.seq and each.within is None and (each.kept or not effect.pinned)
        for each in thread.messages
    )
    if not has_place or (effect.pinned and others >= effect.most):
        raise GuardFailed("message")
    thread.messages = [
        changed(each, pinned=effect.pinned) if each.seq == effect.seq else each for each in thread.messages
    ]
    thread.posted += 1


def _space_events(effects: Sequence[Effect], unit: Unit, tables: Tables, done: EffectResult) -> list[Event]:
    """Perform effects on spaces and return their events."""
    events: list[Event] = []
    for effect in sorted(_in_spaces(effects), key=lambda each: each.space_id):
        events += placed(effect, _space(effect, tables, done), unit.at)
    return events


def _in_spaces(effects: Sequence[Effect]) -> list[SpaceEffect]:
    return [each for each in effects if isinstance(each, SpaceEffect)]


def _space(effect: SpaceEffect, tables: Tables, done: EffectResult) -> int | None:
    """Perform one effect. Return the position for its events, or -1 if nothing changed."""
    place: int | None = None
    match effect:
        case Post():
            place = done.seq = _post(effect, tables)
        case SaveSpace():
            _save_space(effect, tables)
        case DropSpace():
            tables.space(effect.space_id)
            tables.drop_space(effect.space_id)
        case SaveMember():
            if tables.space(effect.space_id).revision != effect.revision:
                raise GuardFailed("space")
            tables.revise(effect.space_id)
            key = (effect.space_id, effect.member.entity_id)
            stored = tables.members.get(key)
            tables.members[key] = (
                effect.member if stored is None else changed(stored, role=effect.member.role)
            )
        case DropMember():
            tables.revise(effect.space_id)
            _member(effect, tables)
            del tables.members[effect.space_id, effect.entity_id]
        case MarkRead():
            stored = _member(effect, tables)
            read_seq = max(stored.read_seq, effect.seq)
            tables.members[effect.space_id, effect.entity_id] = changed(stored, read_seq=read_seq)
        case _:
            place = _message(effect, tables)
    done.count += place != -1
    return place


def _member(effect: DropMember | MarkRead, tables: Tables) -> Member:
    member = tables.members.get((effect.space_id, effect.entity_id))
    if member is None:
        raise GuardFailed("member")
    return member


def _post(effect: Post, tables: Tables) -> int:
    space, joining = tables.space(effect.space_id), effect.joining
    if effect.revision not in (None, space.revision):
        raise GuardFailed("space")
    seq = space.seq + 1
    tables.spaces[space.id] = changed(space, seq=seq)
    if joining is not None and (space.id, joining.entity_id) not in tables.members:
        tables.members[space.id, joining.entity_id] = joining
        tables.revise(space.id)
    tables.space_messages[effect.message.id] = changed(effect.message, seq=seq)
    return seq


def _save_space(effect: SaveSpace, tables: Tables) -> None:
    stored, new = tables.spaces.get(effect.space_id), effect.space
    if effect.was is None and stored is not None:
        raise GuardFailed("duplicate")
    if effect.was is not None and (stored is None or stored.updated_at != effect.was.updated_at):
        raise GuardFailed("space")
    if stored is not None:
        new = changed(
            stored,
            name=new.name,
            description=new.description,
            metadata=new.metadata,
            delivery=new.delivery,
            updated_at=new.updated_at,
        )
    tables.spaces[effect.space_id] = new


def _message(effect: SpaceEffect, tables: Tables) -> int | None:
    match effect:
        case Edit(message=new, if_there=if_there):
            stored = tables.space_messages.get(new.id)
            if stored is None or stored.space_id != effect.space_id:
                if not if_there:
                    raise GuardFailed("message")
                return -1
            tables.space_messages[new.id] = changed(
                stored, content=new.content, metadata=new.metadata, edited_at=new.edited_at
            )
            return stored.seq
        case Erase():
            stored = tables.space_messages.get(effect.message_id)
            if stored is None or stored.space_id != effect.space_id:
                raise GuardFailed("message")
            tables.drop_message(effect.message_id)
        case React(reaction=new):
            stored = tables.space_messages.get(new.message_id)
            if stored is None or stored.space_id != effect.space_id:
                raise GuardFailed("message")
            key = (new.message_id, new.entity_id, new.emoji)
            if key in tables.reactions:
                return -1
            tables.reactions[key] = new
        case Unreact():
            key = (effect.message_id, effect.entity_id, effect.emoji)
            return None if tables.reactions.pop(key, None) is not None else -1
        case _:
            pass
    return None


def _apply_other(effect: Effect, tables: Tables) -> None:
    match effect:
        case CheckMind():
            if not effect.holds(tables.mind(effect.agent_id, effect.kind)):
                raise GuardFailed("mind")
        case Enter():
            tables.thread(effect.thread_id).space_id = effect.space_id
        case SetTimer():
            tables.set_timer(effect.name, effect.due)
        case DropTimer():
            tables.wakes.pop(effect.name, None)
        case _:
            _mind(effect, tables)


def _mind(effect: Effect, tables: Tables) -> None:
    match effect:
        case SetGoal(goal=goal):
            current = tables.goals.get((goal.agent_id, goal.id), goal)
            tables.goals[goal.agent_id, goal.id] = changed(goal, created_at=current.created_at)
        case DropGoal():
            tables.goals.pop((effect.agent_id, effect.id), None)
        case SetMemory(memory=memory):
            tables.memories[memory.agent_id, memory.key] = memory
        case DropMemory():
            tables.memories.pop((effect.agent_id, effect.key), None)
        case SetPlan(plan=plan):
            tables.set_plan(plan)
        case DropPlan():
            tables.drop_plan(effect.agent_id, effect.id)
        case DropMind(agent_id=agent_id):
            tables.drop_mind(agent_id)
        case FirePlan(plan=plan, then=then):
            stored = tables.plans.get((plan.agent_id, plan.id))
            if stored is None or stored.next_run_at != plan.next_run_at:
                raise GuardFailed("plan")
            if then is None:
                tables.drop_plan(plan.agent_id, plan.id)
            else:
                tables.move_plan(plan, then.next_run_at)
        case MovePlans(by=by):
            for plan in [each for each in tables.plans.values() if each.relative]:
                tables.move_plan(plan, plan.next_run_at + by)
        case _:
            pass
