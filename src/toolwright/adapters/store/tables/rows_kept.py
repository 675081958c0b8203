"""Rows of what threads and people keep beside the conversation: files, env, entities and their front-ends."""

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    read,
    read_instant,
    read_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.instants import micros, micros_or_none
from toolwright.core.env.env import EnvRow
from toolwright.core.files.file import File, fold
from toolwright.core.json_value import dumps
from toolwright.core.spaces.entity import Entity
from toolwright.core.spaces.front_end import FrontEnd


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
