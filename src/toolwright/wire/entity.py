"""Entities as JSON on the wire (API §3)."""

from datetime import datetime

from toolwright.core.json_value import JSONObject
from toolwright.core.spaces.entity import Entity


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
