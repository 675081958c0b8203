"""Entities and their front-ends as JSON on the wire (API §3)."""

from datetime import datetime

from toolwright.core.json_value import JSONObject
from toolwright.core.spaces.entity import Entity, FrontEnd


def entity_json(entity: Entity) -> JSONObject:
    """`{id, type, externalId, displayName, metadata, createdAt, updatedAt}`."""
    return {
        "id": entity.id,
        "type": entity.type,
        "externalId": entity.external_id,
        "displayName": entity.display_name,
        "metadata": entity.metadata,
        "createdAt": _instant(entity.created_at),
        "updatedAt": _instant(entity.updated_at),
    }


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def client_json(front_end: FrontEnd) -> JSONObject:
    """`{id, entityId, name, metadata, createdAt}`."""
    return {
        "id": front_end.id,
        "entityId": front_end.entity_id,
        "name": front_end.name,
        "metadata": front_end.metadata,
        "createdAt": front_end.created_at.isoformat(),
    }
