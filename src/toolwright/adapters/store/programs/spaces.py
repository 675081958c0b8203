"""Effects of a unit as programs, by kind; and changes of spaces, of other threads' inboxes and of timers.

A unit with effects takes several statements, in the order of locks: other threads by id, spaces by id, their contents,
inboxes and timers, and finally the counter of space events.
"""

from collections.abc import Generator, Sequence
from datetime import datetime
from typing import TypeAlias

from toolwright.adapters.store.engine.codecs import Params, Row, micros
from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, placed
from toolwright.adapters.store.engine.program import Op, Ops
from toolwright.adapters.store.programs.agents import perform_agent, record_op, set_timer
from toolwright.adapters.store.programs.children import add_nested_call, perform_child
from toolwright.adapters.store.programs.parts import deliver
from toolwright.adapters.store.sql.retention import space_note
from toolwright.adapters.store.sql.spaces import MEMBERS, REACTIONS, SPACE_EVENTS, SPACE_MESSAGES, SPACES
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sql.threads import COMPACTIONS, SENT_TEXTS
from toolwright.core.journal.child_effects import ChildEffect
from toolwright.core.journal.effects import (
    AddNestedCall,
    AgentEffect,
    Announce,
    ContextEffect,
    DropMember,
    DropSpace,
    DropTimer,
    Edit,
    Effect,
    Enter,
    Erase,
    Hide,
    KeepTexts,
    MarkRead,
    Pin,
    Post,
    React,
    RecordEffect,
    SaveMember,
    SaveSpace,
    SetTimer,
    SpaceEffect,
    Unreact,
    deliveries_of,
)
from toolwright.core.journal.units import Unit
from toolwright.core.threads.event import Event
from toolwright.core.value import changed

Steps: TypeAlias = Generator[Ops, list[Row], None]


def perform(
    effects: Sequence[Effect], unit: Unit, sql: Statements
) -> Generator[Ops, list[Row], EffectResult]:
    """Perform all effects and number their events. With `numbers_later` the driver numbers space events later."""
    done = EffectResult()
    for delivery in deliveries_of(effects):
        yield from deliver(delivery, unit, sql, done)
    events = yield from _in_spaces(effects, unit, sql, done)
    for effect in effects:
        if isinstance(effect, RecordEffect):
            yield record_op(effect, sql)
        elif isinstance(effect, AgentEffect):
            yield from perform_agent(effect, unit, sql)
        elif isinstance(effect, ChildEffect):
            yield from perform_child(effect, unit, sql, done)
        elif isinstance(effect, ContextEffect):
            yield _context_ops(effect, sql)
        elif isinstance(effect, AddNestedCall):
            yield from add_nested_call(effect, unit, sql, done)
        else:
            yield _other_ops(effect, unit, sql)
    events += yield from _in_spaces(done.shown, unit, sql, done)
    if events and sql.spaces.numbers_later:
        params = [SPACE_EVENTS.params(event, unit=unit.token, i=i) for i, event in enumerate(events)]
        yield Op(sql.spaces.insert_unnumbered, params[0], more=params[1:])
    elif events:
        [(last,)] = yield Op(sql.spaces.count_events, {"more": len(events)})
        first = last - len(events) + 1
        events = [changed(event, n=n) for n, event in enumerate(events, first)]
        params = [SPACE_EVENTS.params(event) for event in events]
        yield Op(sql.spaces.insert_event, params[0], more=params[1:])
    done.events += events
    return done


def _context_ops(effect: ContextEffect, sql: Statements) -> list[Op]:
    if isinstance(effect, KeepTexts):
        return [Op(sql.keep_text, SENT_TEXTS.params(each)) for each in effect.texts]
    if isinstance(effect, Pin):
        place: Params = {"thread_id": effect.thread_id, "seq": effect.seq}
        if effect.pinned:
            pinned = Op(sql.pin_message, {**place, "most": effect.most}, "message")
        else:
            pinned = Op(sql.unpin_message, place, "message")
        return [Op(sql.count_posted, {"thread_id": effect.thread_id}, "thread"), pinned]
    if isinstance(effect, Hide):
        of_thread: Params = {"thread_id": effect.thread_id}
        changing = sql.show_message if effect.by is None else sql.hide_message
        by: Params = {} if effect.by is None else {"by": effect.by}
        hidden = [Op(changing, {**of_thread, **by, "seq": seq}, "message") for seq in effect.seqs]
        return [Op(sql.count_hide, of_thread, "thread"), *hidden]
    row = effect.compaction
    counted: Params = {"thread_id": row.thread_id, "cut": effect.cut, "told": int(effect.told)}
    inserted = Op(sql.insert_compaction, COMPACTIONS.params(row), "compaction")
    return [Op(sql.count_compaction, counted, "thread"), inserted]


def _in_spaces(
    effects: Sequence[Effect], unit: Unit, sql: Statements, done: EffectResult
) -> Generator[Ops, list[Row], list[Event]]:
    """Perform the effects on spaces and return their events."""
    in_spaces = [each for each in effects if isinstance(each, SpaceEffect)]
    events: list[Event] = []
    for effect in sorted(in_spaces, key=lambda each: each.space_id):
        seq = yield from _space(effect, unit.at, sql, done)
        events += placed(effect, seq, unit.at)
    return events


def _space(
    effect: SpaceEffect, at: datetime, sql: Statements, done: EffectResult
) -> Generator[Ops, list[Row], int | None]:
    """Perform one effect. Return the position for its events, or -1 if nothing changed."""
    match effect:
        case Post():
            done.seq = yield from _post(effect, sql)
            done.count += 1
            return done.seq
        case SaveSpace() | DropSpace():
            yield from _save_space(effect, at, sql)
            rows: list[Row] = [()]
        case SaveMember() | DropMember() | MarkRead():
            yield from _member(effect, sql)
            rows = [()]
        case Edit() | Erase() | React() | Unreact():
            rows = yield from _message(effect, sql)
        case _:
            assert isinstance(effect, Announce), "every other effect is listed"
            rows = [()]
    done.count += bool(rows)
    if isinstance(effect, Edit) and rows:
        return int(rows[0][0])
    return None if rows else -1


def _post(effect: Post, sql: Statements) -> Generator[Ops, list[Row], int]:
    if effect.revision is None:
        counted = Op(sql.spaces.count_message, {"space_id": effect.space_id}, "space")
    else:
        params = {"space_id": effect.space_id, "revision": effect.revision}
        counted = Op(sql.spaces.count_message_for, {**params}, "space")
    [(seq,)] = yield counted
    if effect.joining is not None:
        joined = yield Op(sql.spaces.join, MEMBERS.params(effect.joining))
        if joined:
            yield Op(sql.spaces.revise, {"space_id": effect.space_id}, "space")
    yield Op(sql.spaces.insert_message, SPACE_MESSAGES.params(effect.message, seq=seq))
    return int(seq)


def _save_space(effect: SaveSpace | DropSpace, at: datetime, sql: Statements) -> Steps:
    key = {"space_id": effect.space_id}
    if isinstance(effect, DropSpace):
        yield Op(sql.spaces.drop_space, {**key}, "space")
        yield Op(sql.retention.note, {"thread_id": space_note(effect.space_id), "at": micros(at)})
        yield Op(sql.spaces.drop_members_of_space, {**key})
        return
    params = SPACES.params(effect.space)
    if effect.was is None:
        yield Op(sql.spaces.insert_space, params, "duplicate")
        if (yield Op(sql.retention.find_note, {"thread_id": space_note(effect.space_id)})):
            raise GuardFailed("duplicate")  # rows of a deleted space with that id are not deleted yet
    else:
        was_updated_at = micros(effect.was.updated_at)
        yield Op(sql.spaces.save_space, {**params, **key, "seen": was_updated_at}, "space")


def _member(effect: SaveMember | DropMember | MarkRead, sql: Statements) -> Steps:
    key = {"space_id": effect.space_id}
    match effect:
        case SaveMember():
            yield Op(sql.spaces.revise_seen, {**key, "revision": effect.revision}, "space")
            yield Op(sql.spaces.put_member, MEMBERS.params(effect.member))
        case DropMember():
            yield Op(sql.spaces.revise, {**key}, "space")
            yield Op(sql.spaces.drop_member, {**key, "entity_id": effect.entity_id}, "member")
        case MarkRead():
            params = {"entity_id": effect.entity_id, "seq": effect.seq}
            yield Op(sql.spaces.mark_read, {**key, **params}, "member")


def _message(effect: Edit | Erase | React | Unreact, sql: Statements) -> Generator[Ops, list[Row], list[Row]]:
    key = {"space_id": effect.space_id}
    match effect:
        case Edit():
            guard = None if effect.if_there else "message"
            return (yield Op(sql.spaces.edit_message, SPACE_MESSAGES.params(effect.message), guard))
        case Erase():
            rows = yield Op(sql.spaces.drop_message, {**key, "id": effect.message_id}, "message")
            yield Op(sql.spaces.drop_reactions, {"id": effect.message_id})
            return rows
        case React():
            yield Op(sql.spaces.lock_message, {**key, "id": effect.reaction.message_id}, "message")
            return (yield Op(sql.spaces.insert_reaction, REACTIONS.params(effect.reaction)))
        case Unreact():
            this = {"message_id": effect.message_id, "entity_id": effect.entity_id, "emoji": effect.emoji}
            return (yield Op(sql.spaces.drop_reaction, {**this}))


def _other_ops(effect: Effect, unit: Unit, sql: Statements) -> list[Op]:
    match effect:
        case Enter():
            return [
                Op(sql.spaces.enter, {"thread_id": effect.thread_id, "space_id": effect.space_id}, "thread")
            ]
        case SetTimer():
            return [set_timer(effect.name, effect.due, unit, sql)]
        case DropTimer():
            return [Op(sql.spaces.drop_timer, {"name": effect.name})]
        case _:
            return []
