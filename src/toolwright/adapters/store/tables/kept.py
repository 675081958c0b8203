"""Tables of what threads and people keep beside the conversation: files, env, entities and their front-ends."""

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.env.env import EnvKind, EnvType
from toolwright.core.spaces.entity import EntityType

files = Table(
    "files",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("folded", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("mime_type", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("width", BigInteger),
    Column("height", BigInteger),
    Column("description", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_id", "folded"),
)

env = Table(
    "env",
    metadata,
    Column("owner", Text, nullable=False),
    Column("kind", Text, nullable=False, info=one_of(EnvKind)),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False, info=one_of(EnvType)),
    Column("value", Text, nullable=False),
    Column("key", Text),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "kind", "name"),
    Index("env_by_key", "key"),
)

entities = Table(
    "entities",
    metadata,
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False, info=one_of(EntityType)),
    Column("external_id", Text),
    Column("display_name", Text),
    Column("metadata", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("external_id", name="entities_by_external_id"),
    Index("entities_by_time", "created_at"),
)

clients = Table(
    "clients",
    metadata,
    Column("id", Text, primary_key=True),
    Column("entity_id", Text, nullable=False),
    Column("name", Text),
    Column("metadata", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("clients_by_entity", "entity_id", "created_at"),
)
