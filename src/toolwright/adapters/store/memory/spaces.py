"""Effects on the in-memory tables, applied in order, each with its precondition; and reads of spaces.

A failure is undone (`undo`).
"""

from collections.abc import Sequence

from toolwright.adapters.store.engine.codecs import micros
from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, placed
from toolwright.adapters.store.memory.agents import perform_agent, perform_record
from toolwright.adapters.store.memory.children import add_nested_call, deliver, perform_child
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.journal.child_effects import ChildEffect
from toolwright.core.journal.effects import (
    AddNestedCall,
    AgentEffect,
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
from toolwright.core.spaces import Member, Reaction, Space, SpaceMessage
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
        if isinstance(effect, RecordEffect):
            perform_record(effect, tables)
        elif isinstance(effect, AgentEffect):
            perform_agent(effect, tables)
        elif isinstance(effect, ChildEffect):
            perform_child(effect, unit, tables, done)
        elif isinstance(effect, ContextEffect):
            _context(effect, tables)
        elif isinstance(effect, AddNestedCall):
            add_nested_call(effect, unit, tables, done)
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
    if isinstance(effect, Hide):
        _hide(effect, tables)
        return
    row = effect.compaction
    thread, key = tables.thread(row.thread_id), (row.thread_id, row.number)
    if key in tables.compactions:
        raise GuardFailed("compaction")
    tables.compactions[key] = row
    thread.compacted += 1
    thread.cut = thread.cut if effect.cut is None else effect.cut
    thread.posted += effect.told


def _hide(effect: Hide, tables: Tables) -> None:
    thread = tables.thread(effect.thread_id)
    is_shown = effect.by is None
    places = {
        each.seq
        for each in thread.messages
        if each.within is None and (each.hidden_by is not None if is_shown else each.kept)
    }
    if not places.issuperset(effect.seqs):
        raise GuardFailed("message")
    thread.messages = [
        changed(each, kept=is_shown, hidden_by=effect.by) if each.seq in effect.seqs else each
        for each in thread.messages
    ]
    thread.hides += 1


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
        case Enter():
            tables.thread(effect.thread_id).space_id = effect.space_id
        case SetTimer():
            tables.set_timer(effect.name, effect.due)
        case DropTimer():
            tables.wakes.pop(effect.name, None)
        case _:
            pass


class MemorySpaces:
    """The `SpaceReads` port on the in-memory tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def space(self, space_id: str) -> Space | None:
        return self._tables.spaces.get(space_id)

    async def spaces(
        self, *, seen_by: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Space]:
        rows = [
            space
            for space in self._tables.spaces.values()
            if seen_by is None or space.kind == "public" or (space.id, seen_by) in self._tables.members
        ]
        rows.sort(key=lambda space: (micros(space.created_at), space.id))
        return rows[offset : offset + limit]

    async def spaces_of(self, entity_id: str, limit: int, with_id: str | None = None) -> Sequence[Space]:
        both = {entity_id, entity_id if with_id is None else with_id}
        rows = [
            each
            for each in self._tables.spaces.values()
            if all((each.id, one) in self._tables.members for one in both)
        ]
        return sorted(rows, key=lambda space: (micros(space.created_at), space.id))[:limit]

    async def company(self, entity_id: str, limit: int) -> Sequence[tuple[Member, str | None]]:
        members = self._tables.members
        rows = [each for each in members.values() if (each.space_id, entity_id) in members]
        rows.sort(key=lambda each: (each.space_id, micros(each.joined_at), each.entity_id))
        people = self._tables.entities
        names = {each.entity_id: people.get(each.entity_id) for each in rows}
        return [(each, one.display_name if (one := names[each.entity_id]) else None) for each in rows[:limit]]

    async def memberships(self, entity_id: str) -> Sequence[Member]:
        rows = [member for member in self._tables.members.values() if member.entity_id == entity_id]
        return sorted(rows, key=lambda member: member.space_id)

    async def members(self, space_id: str) -> Sequence[Member]:
        rows = [member for member in self._tables.members.values() if member.space_id == space_id]
        return sorted(rows, key=lambda member: (micros(member.joined_at), member.entity_id))

    async def member(self, space_id: str, entity_id: str) -> Member | None:
        return self._tables.members.get((space_id, entity_id))

    async def messages(
        self, space_id: str, *, after: int | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[SpaceMessage]:
        rows = self._messages(space_id)
        if after is not None:
            return [each for each in rows if (each.seq or 0) > after][:limit]
        if before is not None:
            rows = [each for each in rows if (each.seq or 0) < before]
        return rows[-limit:] if limit else []

    async def newest(self, space_id: str, limit: int, offset: int) -> Sequence[SpaceMessage]:
        rows = self._messages(space_id)
        end = max(0, len(rows) - offset)
        return rows[max(0, end - limit) : end]

    async def answers(self, message_id: str, limit: int) -> Sequence[SpaceMessage]:
        rows = self._tables.space_messages.values()
        replies = [each for each in rows if message_id in (each.id, each.parent_id)]
        return sorted(replies, key=lambda each: each.seq or 0)[-limit:] if limit else []

    def _messages(self, space_id: str) -> list[SpaceMessage]:
        rows = [each for each in self._tables.space_messages.values() if each.space_id == space_id]
        return sorted(rows, key=lambda each: each.seq or 0)

    async def message(self, message_id: str) -> SpaceMessage | None:
        return self._tables.space_messages.get(message_id)

    async def reactions(self, message_ids: Sequence[str]) -> Sequence[Reaction]:
        rows = [each for each in self._tables.reactions.values() if each.message_id in message_ids]
        return sorted(rows, key=lambda each: (micros(each.created_at), each.entity_id, each.emoji))

    async def caused(self, run_id: str, author: str) -> bool:
        run = self._tables.runs.get(run_id)
        if run is None:
            return False
        events = self._tables.threads[run.thread_id].inbox.values()
        return any(event.author == author and run_id in (event.run_id, event.promised) for event in events)
