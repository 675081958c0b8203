"""Tables of what threads and people keep beside the conversation: files, env, entities and their front-ends."""

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    micros,
    micros_or_none,
    read,
    read_instant,
    read_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.env.env import EnvKind, EnvRow, EnvType
from toolwright.core.files.file import File, fold
from toolwright.core.json_value import dumps
from toolwright.core.spaces.entity import Entity, EntityType, FrontEnd

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


def file_params(file: File) -> Params:
    return {
        "thread_id": file.thread_id,
        "path": file.path,
        "folded": fold(file.path),
        "id": file.id,
        "name": file.name,
        "mime_type": file.mime_type,
        "size": file.size,
        "digest": file.digest,
        "width": file.width,
        "height": file.height,
        "description": text_or_none(file.description),
        "created_at": micros(file.created_at),
    }


def file(row: Row) -> File:
    return File(
        thread_id=row[0],
        path=row[1],
        id=row[3],
        name=row[4],
        mime_type=row[5],
        size=row[6],
        digest=row[7],
        width=row[8],
        height=row[9],
        description=read_or_none(row, 10, a_text),
        created_at=read_instant(row, 11),
    )


def env_params(row: EnvRow) -> Params:
    return {
        "owner": row.owner,
        "kind": row.kind,
        "name": row.name,
        "type": row.type,
        "value": row.value,
        "key": row.key,
        "updated_at": micros(row.updated_at),
    }


def env_row(row: Row) -> EnvRow:
    return EnvRow(
        owner=row[0],
        kind=row[1],
        name=row[2],
        type=row[3],
        value=row[4],
        key=row[5],
        updated_at=read_instant(row, 6),
    )


def entity_params(entity: Entity) -> Params:
    return {
        "id": entity.id,
        "type": entity.type,
        "external_id": entity.external_id,
        "display_name": text_or_none(entity.display_name),
        "metadata": dumps(entity.metadata),
        "created_at": micros_or_none(entity.created_at),
        "updated_at": micros_or_none(entity.updated_at),
    }


def entity(row: Row) -> Entity:
    return Entity(
        id=row[0],
        type=row[1],
        external_id=row[2],
        display_name=read_or_none(row, 3, a_text),
        metadata=read(row, 4, an_object),
        created_at=read_instant(row, 5),
        updated_at=read_instant(row, 6),
    )


def front_end_params(given: FrontEnd) -> Params:
    return {
        "id": given.id,
        "entity_id": given.entity_id,
        "name": text_or_none(given.name),
        "metadata": dumps(given.metadata),
        "created_at": micros(given.created_at),
    }


def front_end(row: Row) -> FrontEnd:
    return FrontEnd(
        id=row[0],
        entity_id=row[1],
        name=read_or_none(row, 2, a_text),
        metadata=read(row, 3, an_object),
        created_at=read_instant(row, 4),
    )
