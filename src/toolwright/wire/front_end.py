"""Registered front-ends as JSON on the wire, which calls them clients (API §3)."""

from toolwright.core.json_value import JSONObject
from toolwright.core.spaces.front_end import FrontEnd


def client_json(front_end: FrontEnd) -> JSONObject:
    """`{id, entityId, name, metadata, createdAt}`."""
    return {
        "id": front_end.id,
        "entityId": front_end.entity_id,
        "name": front_end.name,
        "metadata": front_end.metadata,
        "createdAt": front_end.created_at.isoformat(),
    }
