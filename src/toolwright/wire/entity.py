"""Entities and their front-ends on the wire: their shapes, and their JSON (API §3)."""

from datetime import datetime

from toolwright.core.json_value import JSONObject
from toolwright.core.spaces.entity import Entity as EntityRow
from toolwright.core.spaces.entity import EntityType
from toolwright.core.spaces.entity import FrontEnd as FrontEndRow
from toolwright.wire.shape import JsonObject, Shape


class Entity(Shape, title="EntityShape"):
    """An entity; agents have no instants.

    They are declared, and not made.
    """

    id: str
    type: EntityType
    external_id: str | None = None
    display_name: str | None = None
    metadata: JsonObject
    created_at: datetime | None = None
    updated_at: datetime | None = None


def entity_json(entity: EntityRow) -> JSONObject:
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


class FrontEnd(Shape, title="ClientShape"):
    """A registered front-end.

    The wire calls it a client.
    """

    id: str
    entity_id: str
    name: str | None = None
    metadata: JsonObject
    created_at: datetime


def client_json(front_end: FrontEndRow) -> JSONObject:
    """`{id, entityId, name, metadata, createdAt}`."""
    return {
        "id": front_end.id,
        "entityId": front_end.entity_id,
        "name": front_end.name,
        "metadata": front_end.metadata,
        "createdAt": front_end.created_at.isoformat(),
    }


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
