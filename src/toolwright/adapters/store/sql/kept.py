"""Tables of files, env, people and signed-out sessions."""

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from toolwright.adapters.store.engine.codecs import a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.env.env import EnvKind, EnvRow, EnvType
from toolwright.core.files import File, fold
from toolwright.core.spaces import Entity, EntityType

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
    Column("description", Json(a_text)),
    Column("created_at", Instant(), nullable=False),
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
    Column("updated_at", Instant(), nullable=False),
    PrimaryKeyConstraint("owner", "kind", "name"),
    Index("env_by_key", "key"),
)

entities = Table(
    "entities",
    metadata,
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False, info=one_of(EntityType)),
    Column("external_id", Text),
    Column("display_name", Json(a_text)),
    Column("metadata", Json(an_object), nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("updated_at", Instant(), nullable=False),
    UniqueConstraint("external_id", name="entities_by_external_id"),
    Index("entities_by_time", "created_at"),
)

sign_outs = Table(
    "sign_outs",
    metadata,
    Column("key", Text, primary_key=True),
    Column("at", Instant(), nullable=False),
    Column("until", Instant(), nullable=False),
)


FILES = Mapping(files, File, "path", derived={"folded": lambda file: fold(file.path)})
ENV = Mapping(env, EnvRow, "name")
ENTITIES = Mapping(entities, Entity)
