"""Tables of spaces, their members, messages, reactions and events."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from toolwright.adapters.store.engine.codecs import a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.spaces.space import (
    DeliveryOrder,
    EntityType,
    Member,
    Reaction,
    Space,
    SpaceKind,
    SpaceMessage,
    SpaceRole,
)
from toolwright.core.threads.event import Event

spaces = Table(
    "spaces",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False, info=one_of(SpaceKind)),
    Column("name", Json(a_text)),
    Column("description", Json(a_text)),
    Column("metadata", Json(an_object), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("updated_at", Instant(), nullable=False),
    Column("delivery", Text, nullable=False, server_default=text("'all'"), info=one_of(DeliveryOrder)),
    Index("spaces_by_time", "created_at"),
)

members = Table(
    "members",
    metadata,
    Column("space_id", Text, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("read_seq", BigInteger, nullable=False),
    Column("joined_at", Instant(), nullable=False),
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
    Column("content", Json(a_text, dumps_unescaped), nullable=False),
    Column("metadata", Json(an_object), nullable=False),
    Column("parent_id", Text),
    Column("created_at", Instant(), nullable=False),
    Column("edited_at", Instant()),
    UniqueConstraint("space_id", "seq", name="space_messages_in_order"),
    Index("space_messages_by_parent", "parent_id"),
)

reactions = Table(
    "reactions",
    metadata,
    Column("message_id", Text, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("emoji", Text, nullable=False),
    Column("created_at", Instant(), nullable=False),
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
    Column("payload", Json(an_object), nullable=False),
    Column("at", Instant(), nullable=False),
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
    Column("payload", Json(an_object), nullable=False),
    Column("at", Instant(), nullable=False),
    Index("space_events_by_space", "space_id", "n"),
    Index("space_events_by_time", "at"),
)


SPACES = Mapping(spaces, Space)
MEMBERS = Mapping(members, Member, "entity_id")
SPACE_MESSAGES = Mapping(space_messages, SpaceMessage)
REACTIONS = Mapping(reactions, Reaction, "message_id")
SPACE_EVENTS = Mapping(space_events, Event, "n")
