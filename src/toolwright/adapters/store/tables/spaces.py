"""Tables of spaces, their members, messages, reactions and events."""

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    micros,
    micros_or_none,
    read,
    read_instant,
    read_instant_or_none,
    read_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.json_value import dumps, dumps_unescaped
from toolwright.core.spaces.entity import EntityType
from toolwright.core.spaces.space import Member, Reaction, Space, SpaceKind, SpaceMessage, SpaceRole
from toolwright.core.threads.event import Event

spaces = Table(
    "spaces",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False, info=one_of(SpaceKind)),
    Column("name", Text),
    Column("description", Text),
    Column("metadata", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("spaces_by_time", "created_at"),
)

members = Table(
    "members",
    metadata,
    Column("space_id", Text, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("read_seq", BigInteger, nullable=False),
    Column("joined_at", BigInteger, nullable=False),
    Column("type", Text, nullable=False, info=one_of(EntityType)),
    PrimaryKeyConstraint("space_id", "entity_id"),
    Index("members_by_entity", "entity_id"),
)

space_messages = Table(
    "space_messages",
    metadata,
    Column("id", Text, primary_key=True),
    Column("space_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("role", Text, nullable=False, info=one_of(SpaceRole)),
    Column("content", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("parent_id", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("edited_at", BigInteger),
    UniqueConstraint("space_id", "seq", name="space_messages_in_order"),
)

reactions = Table(
    "reactions",
    metadata,
    Column("message_id", Text, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("emoji", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("message_id", "entity_id", "emoji"),
)

unnumbered_events = Table(
    "unnumbered_events",
    metadata,
    Column("place", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("unit", Text, nullable=False),
    Column("i", Integer, nullable=False),
    Column("space_id", Text, nullable=False),
    Column("thread_id", Text),
    Column("run_id", Text),
    Column("agent", Text),
    Column("type", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

space_events = Table(
    "space_events",
    metadata,
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    Column("space_id", Text, nullable=False),
    Column("thread_id", Text),
    Column("run_id", Text),
    Column("agent", Text),
    Column("type", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("space_events_by_space", "space_id", "n"),
    Index("space_events_by_time", "at"),
)


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
