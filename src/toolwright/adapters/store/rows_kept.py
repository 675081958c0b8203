"""Rows of what threads and people keep beside the conversation: files, env, entities."""

import json

from toolwright.adapters.store.instants import instant, micros, micros_or_none
from toolwright.adapters.store.rows import Params, Row, text_or_none
from toolwright.core.entity import Entity
from toolwright.core.env import EnvRow
from toolwright.core.file import File, fold
from toolwright.core.json_value import dumps


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
        description=None if row[10] is None else json.loads(row[10]),
        created_at=instant(row[11]),
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
        updated_at=instant(row[6]),
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
        display_name=None if row[3] is None else json.loads(row[3]),
        metadata=json.loads(row[4]),
        created_at=instant(row[5]),
        updated_at=instant(row[6]),
    )
