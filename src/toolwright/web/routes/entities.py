"""Routes of entities (people with access, and the app's agents) and of their registered clients."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field, JsonValue

from toolwright.core.env.env import EnvType, read_env
from toolwright.core.limits import PageLimit
from toolwright.core.spaces import Entity as EntityRow
from toolwright.core.spaces import EntityFields
from toolwright.core.spaces import FrontEnd as FrontEndRow
from toolwright.runtime.spaces.entities import MAX_EXTERNAL_ID
from toolwright.web.answers import (
    ApiResponse,
    Deleted,
    EnvNames,
    ListShape,
    answer,
    failures,
)
from toolwright.web.auth.permits import owner_of_listed, speaker
from toolwright.web.dependencies import AnyCaller, AtWork, Service, ServingDep
from toolwright.web.requests import (
    Id,
    Limit,
    Metadata,
    Name,
    NewEnv,
    Offset,
    Reference,
    RequestBody,
    StorableText,
)
from toolwright.web.route import noun
from toolwright.wire.rendering import Itself
from toolwright.wire.shape import Shape
from toolwright.wire.space import Entity, FrontEnd

ExternalId = Annotated[StorableText, Field(min_length=1, max_length=MAX_EXTERNAL_ID)]

router = noun("/api/entities", "entities")


class EntityAnswer(Shape):
    """An entity."""

    entity: Itself[Entity]


class EntityList(ListShape):
    """Entities: the agents, then the humans, oldest first."""

    entities: list[Entity]


class EntityChange(RequestBody):
    """Changes of a person; missing fields are unchanged."""

    external_id: ExternalId | None = Field(None, description="The person's id in access tokens; unique.")
    display_name: Name | None = None
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])

    @property
    def fields(self) -> EntityFields:
        """Return the fields present in the request."""
        values: EntityFields = {}
        if "external_id" in self.model_fields_set:
            values["external_id"] = self.external_id
        if "display_name" in self.model_fields_set:
            values["display_name"] = self.display_name
        if "metadata" in self.model_fields_set:
            values["metadata"] = self.metadata
        return values


class NewEntity(EntityChange):
    """A human to register."""

    type: Literal["human"] = Field(description="Agents are declared by the app.")


@router.post(
    "",
    status_code=201,
    response_model=EntityAnswer,
    response_description="The new human.",
    responses={200: {"model": EntityAnswer, "description": "The existing human of that externalId, updated."}}
    | failures(413),
)
async def create_entity(_: Service, runtime: AtWork, new: NewEntity) -> ApiResponse:
    """Register a human, or update the human with that externalId."""
    registration = await runtime.entities.register(**new.fields)
    return answer(EntityAnswer.of(registration.entity), 201 if registration.created else 200)


@router.get("", response_description="The entities.")
async def list_entities(
    _: Service, runtime: AtWork, limit: Limit = PageLimit(50), offset: Offset = 0
) -> Annotated[Sequence[EntityRow], EntityList]:
    """List the agents in the order of their declaration, then the humans, oldest first."""
    return await runtime.entities.list(limit, offset)


@router.get("/{entity_id}", response_description="The entity.", responses=failures(404))
async def get_entity(_: Service, runtime: AtWork, entity_id: Id) -> Annotated[EntityRow, EntityAnswer]:
    """Get an entity."""
    return await runtime.entities.get(entity_id)


@router.patch("/{entity_id}", response_description="The updated human.", responses=failures(404, 409, 413))
async def change_entity(
    _: Service, runtime: AtWork, entity_id: Id, change: EntityChange
) -> Annotated[EntityRow, EntityAnswer]:
    """Change a human."""
    return await runtime.entities.update(entity_id, **change.fields)


@router.delete("/{entity_id}", response_description="Deleted.", responses=failures(404))
async def delete_entity(_: Service, runtime: AtWork, entity_id: Id) -> Annotated[None, Deleted]:
    """Delete a human. Their tokens are no longer accepted; their threads are kept."""
    await runtime.entities.delete(entity_id)


@router.patch(
    "/{entity_id}/env",
    response_description="The names of the human's variables.",
    responses=failures(404, 413),
)
async def set_entity_env(
    _: Service, runtime: AtWork, entity_id: Id, new: NewEnv
) -> Annotated[Mapping[str, EnvType], EnvNames]:
    """Set variables for all threads of a human, as secrets by default, or delete them with null."""
    return await runtime.entities.set_env(entity_id, read_env(new.env))


clients_router = noun("/api/clients", "clients")


class ClientAnswer(Shape):
    """One client."""

    client: Itself[FrontEnd]


class ClientList(ListShape):
    """Clients, oldest first."""

    clients: list[FrontEnd]


EntityId = Annotated[StorableText | None, Query(alias="entityId", description="Only those of this entity.")]


class NewClient(RequestBody):
    """A client to register."""

    name: Name | None = None
    metadata: Metadata | None = None
    entity_id: Reference | None = Field(
        None, description="The owner. Required from services; for a person it is always themselves."
    )


@clients_router.post(
    "", status_code=201, response_description="The new client.", responses=failures(404, 413)
)
async def register_client(
    caller: AnyCaller, serving: ServingDep, new: NewClient
) -> Annotated[FrontEndRow, ClientAnswer]:
    """Register a client."""
    whose = speaker(caller, new.entity_id)
    return await serving.runtime.clients.register(whose, new.name, new.metadata)


@clients_router.get("", response_description="The clients.")
async def list_clients(
    caller: AnyCaller,
    serving: ServingDep,
    entity_id: EntityId = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
) -> Annotated[Sequence[FrontEndRow], ClientList]:
    """List registered clients, oldest first. A person sees their own."""
    return await serving.runtime.clients.list(owner_of_listed(caller, entity_id), limit, offset)


@clients_router.delete("/{client_id}", response_description="Deleted.", responses=failures(404))
async def delete_client(caller: AnyCaller, serving: ServingDep, client_id: Id) -> Annotated[None, Deleted]:
    """Delete a registered client."""
    await serving.permits.client(caller, client_id)
    await serving.runtime.clients.delete(client_id)
