"""Effects on the tables in memory: guards first, then what is written.

A unit checks all of its effects before it does any of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolwright.adapters.store.engine.outcome import GuardFailed, Performed, placed
from toolwright.adapters.store.memory.children import check_child, deliver, perform_child
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.agents.mind import Plan
from toolwright.core.journal.child_effects import ChildEffect, Close, Speak, Terminate
from toolwright.core.journal.effects import (
    DropGoal,
    DropMember,
    DropMemory,
    DropPlan,
    DropSpace,
    DropTimer,
    Edit,
    Effect,
    Enter,
    Erase,
    FirePlan,
    MarkRead,
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
from toolwright.core.journal.units import Unit
from toolwright.core.spaces.space import Space
from toolwright.core.threads.event import Event


def check(effects: Sequence[Effect], tables: Tables) -> None:
    """Raise `GuardFailed` if one of the effects cannot be."""
    if not effects:
        return
    for delivery in deliveries_of(effects):
        row = tables.threads.get(delivery.thread.id)
        if row is not None and delivery.event.event_id in row.inbox:
            raise GuardFailed("duplicate")
    for fired in [each for each in effects if isinstance(each, FirePlan)]:
        stored = tables.plans.get((fired.plan.agent_id, fired.plan.id))
        if stored is None or stored.next_run_at != fired.plan.next_run_at:
            raise GuardFailed("plan")
    over: set[str] = set()  # threads that this very unit terminates
    for child in [each for each in effects if isinstance(each, ChildEffect)]:
        if isinstance(child, Speak) and child.thread_id in over:
            raise GuardFailed("terminated")
        check_child(child, tables)
        if isinstance(child, Close | Terminate):
            over.add(child.thread_id)
    spaces = dict(tables.spaces)  # as they will be
    for effect in sorted(_in_spaces(effects), key=lambda each: each.space_id):
        _check(effect, spaces, tables)


def perform(effects: Sequence[Effect], unit: Unit, tables: Tables) -> Performed:
    """Do all of them, and number what they tell."""
    done = Performed()
    for delivery in deliveries_of(effects):
        deliver(delivery, unit, tables, done)
    told = _told(effects, unit, tables, done)
    for effect in effects:
        if isinstance(effect, ChildEffect):
            perform_child(effect, unit, tables, done)
        else:
            _rest(effect, tables)
    told += _told(done.shown, unit, tables, done)
    for event in told:
        tables.space_ev += 1
        done.events.append(replace(event, n=tables.space_ev))
    tables.space_events += done.events[len(done.events) - len(told) :]
    return done


def _told(effects: Sequence[Effect], unit: Unit, tables: Tables, done: Performed) -> list[Event]:
    """What those on spaces tell there, as they are done."""
    told: list[Event] = []
    for effect in sorted(_in_spaces(effects), key=lambda each: each.space_id):
        told += placed(effect, _space(effect, tables, done), unit.at)
    return told


def _in_spaces(effects: Sequence[Effect]) -> list[SpaceEffect]:
    return [each for each in effects if isinstance(each, SpaceEffect)]


def _check(effect: SpaceEffect, spaces: dict[str, Space], tables: Tables) -> None:
    match effect:
        case Post():
            if effect.revision not in (None, _space_of(effect, spaces).revision):
                raise GuardFailed("space")
        case SaveSpace():
            stored = spaces.get(effect.space_id)
            if effect.was is None and stored is not None:
                raise GuardFailed("duplicate")
            if effect.was is not None and (stored is None or stored.updated_at != effect.was.updated_at):
                raise GuardFailed("space")
            spaces[effect.space_id] = effect.space
        case SaveMember():
            space = _space_of(effect, spaces)
            if space.revision != effect.revision:
                raise GuardFailed("space")
            spaces[space.id] = replace(space, revision=space.revision + 1)
        case DropMember():
            _space_of(effect, spaces)
            if (effect.space_id, effect.entity_id) not in tables.members:
                raise GuardFailed("member")
        case MarkRead():
            if (effect.space_id, effect.entity_id) not in tables.members:
                raise GuardFailed("member")
        case React():
            found = tables.space_messages.get(effect.reaction.message_id)
            if found is None or found.space_id != effect.space_id:
                raise GuardFailed("message")
        case DropSpace():
            _space_of(effect, spaces)
        case _:
            pass


def _space_of(effect: SpaceEffect, spaces: Mapping[str, Space]) -> Space:
    space = spaces.get(effect.space_id)
    if space is None:
        raise GuardFailed("space")
    return space


def _space(effect: SpaceEffect, tables: Tables, done: Performed) -> int | None:
    """Do one effect; the place that its events are to name, or -1 if it found nothing to change."""
    found: int | None = None
    match effect:
        case Post():
            found = done.seq = _post(effect, tables)
        case SaveSpace():
            _save_space(effect, tables)
        case DropSpace():
            tables.drop_space(effect.space_id)
        case SaveMember():
            tables.revise(effect.space_id)
            key = (effect.space_id, effect.member.entity_id)
            known = tables.members.get(key)
            tables.members[key] = effect.member if known is None else replace(known, role=effect.member.role)
        case DropMember():
            tables.revise(effect.space_id)
            del tables.members[effect.space_id, effect.entity_id]
        case MarkRead():
            known = tables.members[effect.space_id, effect.entity_id]
            read_seq = max(known.read_seq, effect.seq)
            tables.members[effect.space_id, effect.entity_id] = replace(known, read_seq=read_seq)
        case _:
            found = _message(effect, tables)
    done.count += found != -1
    return found


def _post(effect: Post, tables: Tables) -> int:
    space, joining = tables.spaces[effect.space_id], effect.joining
    seq = space.seq + 1
    tables.spaces[space.id] = replace(space, seq=seq)
    if joining is not None and (space.id, joining.entity_id) not in tables.members:
        tables.members[space.id, joining.entity_id] = joining
        tables.revise(space.id)
    tables.space_messages[effect.message.id] = replace(effect.message, seq=seq)
    return seq


def _save_space(effect: SaveSpace, tables: Tables) -> None:
    stored, new = tables.spaces.get(effect.space_id), effect.space
    if stored is not None:
        new = replace(
            stored,
            name=new.name,
            description=new.description,
            metadata=new.metadata,
            updated_at=new.updated_at,
        )
    tables.spaces[effect.space_id] = new


def _message(effect: SpaceEffect, tables: Tables) -> int | None:
    match effect:
        case Edit(message=new):
            known = tables.space_messages.get(new.id)
            if known is None or known.space_id != effect.space_id:
                return -1
            tables.space_messages[new.id] = replace(
                known, content=new.content, metadata=new.metadata, edited_at=new.edited_at
            )
            return known.seq
        case Erase():
            known = tables.space_messages.get(effect.message_id)
            if known is None or known.space_id != effect.space_id:
                return -1
            tables.drop_message(effect.message_id)
        case React(reaction=new):
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


def _rest(effect: Effect, tables: Tables) -> None:
    match effect:
        case Enter():
            tables.threads[effect.thread_id].space_id = effect.space_id
        case SetTimer():
            tables.set_timer(effect.name, effect.due)
        case DropTimer():
            tables.wakes.pop(effect.name, None)
        case _:
            _mind(effect, tables)


def _mind(effect: Effect, tables: Tables) -> None:
    match effect:
        case SetGoal(goal=goal):
            known = tables.goals.get((goal.agent_id, goal.id), goal)
            tables.goals[goal.agent_id, goal.id] = replace(goal, created_at=known.created_at)
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
        case FirePlan(then=None, plan=plan):
            tables.drop_plan(plan.agent_id, plan.id)
        case FirePlan(then=Plan() as then, plan=plan):
            tables.move_plan(plan, then.next_run_at)
        case _:
            pass
