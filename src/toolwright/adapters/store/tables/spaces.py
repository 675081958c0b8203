"""Tables of spaces, their members, messages, reactions and events."""

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.spaces.entity import EntityType
from toolwright.core.spaces.space import SpaceKind, SpaceRole

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
