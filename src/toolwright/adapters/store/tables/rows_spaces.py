"""Rows of spaces, their members, messages and events."""

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    read,
    read_instant,
    read_instant_or_none,
    read_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.instants import micros, micros_or_none
from toolwright.core.json_value import dumps, dumps_unescaped
from toolwright.core.spaces.space import Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.event import Event


def space_params(space: Space) -> Params:
    return {
        "id": space.id,
        "kind": space.kind,
        "name": text_or_none(space.name),
        "description": text_or_none(space.description),
        "metadata": dumps(space.metadata),
        "seq": space.seq,
        "revision": space.revision,
        "created_at": micros(space.created_at),
        "updated_at": micros(space.updated_at),
    }


def space(row: Row) -> Space:
    return Space(
        id=row[0],
        kind=row[1],
        name=read_or_none(row, 2, a_text),
        description=read_or_none(row, 3, a_text),
        metadata=read(row, 4, an_object),
        seq=row[5],
        revision=row[6],
        created_at=read_instant(row, 7),
        updated_at=read_instant(row, 8),
    )


def member_params(member: Member) -> Params:
    return {
        "space_id": member.space_id,
        "entity_id": member.entity_id,
        "role": member.role,
        "read_seq": member.read_seq,
        "joined_at": micros(member.joined_at),
        "type": member.type,
    }


def member(row: Row) -> Member:
    return Member(
        space_id=row[0],
        entity_id=row[1],
        role=row[2],
        read_seq=row[3],
        joined_at=read_instant(row, 4),
        type=row[5],
    )


def message_params(message: SpaceMessage, seq: int) -> Params:
    return {
        "id": message.id,
        "space_id": message.space_id,
        "seq": seq,
        "entity_id": message.entity_id,
        "role": message.role,
        "content": dumps_unescaped(message.content),
        "metadata": dumps(message.metadata),
        "parent_id": message.parent_id,
        "created_at": micros(message.created_at),
        "edited_at": micros_or_none(message.edited_at),
    }


def message(row: Row) -> SpaceMessage:
    return SpaceMessage(
        id=row[0],
        space_id=row[1],
        seq=row[2],
        entity_id=row[3],
        role=row[4],
        content=read(row, 5, a_text),
        metadata=read(row, 6, an_object),
        parent_id=row[7],
        created_at=read_instant(row, 8),
        edited_at=read_instant_or_none(row, 9),
    )


def reaction_params(reaction: Reaction) -> Params:
    return {
        "message_id": reaction.message_id,
        "entity_id": reaction.entity_id,
        "emoji": reaction.emoji,
        "created_at": micros(reaction.created_at),
    }


def reaction(row: Row) -> Reaction:
    return Reaction(message_id=row[0], entity_id=row[1], emoji=row[2], created_at=read_instant(row, 3))


def event_params(event: Event) -> Params:
    return {
        "n": event.n,
        "space_id": event.space_id,
        "thread_id": event.thread_id,
        "run_id": event.run_id,
        "agent": event.agent,
        "type": event.type,
        "payload": dumps(event.payload),
        "at": micros(event.at),
    }


def event(row: Row) -> Event:
    return Event(
        n=row[0],
        space_id=row[1],
        thread_id=row[2],
        run_id=row[3],
        agent=row[4],
        type=row[5],
        payload=read(row, 6, an_object),
        at=read_instant(row, 7),
    )
