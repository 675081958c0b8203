"""The shapes of entities and their front-ends, for the OpenAPI document; `wire` renders them."""

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from toolwright.web.answers.shapes import ListShape, Shape


class EntityShape(Shape):
    """An entity; agents have no instants."""

    id: str
    type: Literal["human", "agent"]
    external_id: str | None
    display_name: str | None
    metadata: dict[str, JsonValue]
    created_at: datetime | None
    updated_at: datetime | None


class EntityAnswer(Shape):
    """One entity."""

    entity: EntityShape


class EntityList(ListShape):
    """Entities: the agents, then the humans, the oldest first."""

    entities: list[EntityShape]


class ClientShape(Shape):
    """A registered front-end."""

    id: str
    entity_id: str
    name: str | None
    metadata: dict[str, JsonValue]
    created_at: datetime


class ClientAnswer(Shape):
    """One client."""

    client: ClientShape


class ClientList(ListShape):
    """Clients, the oldest first."""

    clients: list[ClientShape]
