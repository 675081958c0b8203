"""Routes of entities (people with access, and the app's agents) and of their registered clients."""

from typing import Annotated, Literal

from fastapi import Depends, Query
from pydantic import Field, JsonValue

from toolwright.core.env.env import read_env
from toolwright.core.limits import PageLimit
from toolwright.core.spaces import EntityFields
from toolwright.runtime.spaces.entities import LONGEST_EXTERNAL_ID
from toolwright.web.answers import ApiResponse, Deleted, EnvNames, ListShape, answer, answers, listed
from toolwright.web.auth.permits import owner_of_listed, speaker
from toolwright.web.dependencies import AnyCaller, AtWork, Service, ServingDep, noun
from toolwright.web.requests import (
    Id,
    Limit,
    Metadata,
    Name,
    NewEnv,
    Offset,
    Reference,
    RequestForm,
    StorableText,
    described,
    env_names,
    reads,
)
from toolwright.wire.shape import Shape
from toolwright.wire.space import Entity, FrontEnd, client_json, entity_json

ExternalId = Annotated[StorableText, Field(min_length=1, max_length=LONGEST_EXTERNAL_ID)]

router = noun("/api/entities", "entities")


class EntityAnswer(Shape):
    """An entity."""

    entity: Entity


class EntityList(ListShape):
    """Entities: the agents, then the humans, oldest first."""

    entities: list[Entity]


class EntityChange(RequestForm):
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
    responses=answers(EntityAnswer, "The existing human of that externalId, updated.", errors=(413,))
    | answers(EntityAnswer, "The new human.", 201),
    openapi_extra=described(NewEntity),
)
async def create_entity(
    _: Service, runtime: AtWork, new: Annotated[NewEntity, Depends(reads(NewEntity))]
) -> ApiResponse:
    """Register a human, or update the human with that externalId."""
    registration = await runtime.entities.register(**new.fields)
    return answer({"entity": entity_json(registration.entity)}, 201 if registration.created else 200)


@router.get("", responses=answers(EntityList, "The entities."))
async def list_entities(
    _: Service, runtime: AtWork, limit: Limit = PageLimit(50), offset: Offset = 0
) -> ApiResponse:
    """List the agents in the order of their declaration, then the humans, oldest first."""
    return listed("entities", await runtime.entities.list(limit, offset), entity_json)


@router.get("/{entity_id}", responses=answers(EntityAnswer, "The entity.", errors=(404,)))
async def get_entity(_: Service, runtime: AtWork, entity_id: Id) -> ApiResponse:
    """Get an entity."""
    return answer({"entity": entity_json(await runtime.entities.get(entity_id))})


@router.patch(
    "/{entity_id}",
    responses=answers(EntityAnswer, "The updated human.", errors=(404, 409, 413)),
    openapi_extra=described(EntityChange),
)
async def change_entity(
    _: Service, runtime: AtWork, entity_id: Id, change: Annotated[EntityChange, Depends(reads(EntityChange))]
) -> ApiResponse:
    """Change a human."""
    return answer({"entity": entity_json(await runtime.entities.update(entity_id, **change.fields))})


@router.delete("/{entity_id}", responses=answers(Deleted, "Deleted.", errors=(404,)))
async def delete_entity(_: Service, runtime: AtWork, entity_id: Id) -> ApiResponse:
    """Delete a human. Their tokens are no longer accepted; their threads are kept."""
    await runtime.entities.delete(entity_id)
    return answer({"success": True})


@router.patch(
    "/{entity_id}/env",
    responses=answers(EnvNames, "The names of the human's variables.", errors=(404, 413)),
    openapi_extra=described(NewEnv),
)
async def set_entity_env(
    _: Service, runtime: AtWork, entity_id: Id, new: Annotated[NewEnv, Depends(reads(NewEnv))]
) -> ApiResponse:
    """Set variables for all threads of a human, as secrets by default, or delete them with null."""
    return answer(env_names(await runtime.entities.set_env(entity_id, read_env(new.env))))


clients_router = noun("/api/clients", "clients")


class ClientAnswer(Shape):
    """One client."""

    client: FrontEnd


class ClientList(ListShape):
    """Clients, oldest first."""

    clients: list[FrontEnd]


EntityId = Annotated[StorableText | None, Query(alias="entityId", description="Only those of this entity.")]


class NewClient(RequestForm):
    """A client to register."""

    name: Name | None = None
    metadata: Metadata | None = None
    entity_id: Reference | None = Field(
        None, description="The owner. Required from services; for a person it is always themselves."
    )


@clients_router.post(
    "",
    status_code=201,
    responses=answers(ClientAnswer, "The new client.", 201, (404, 413)),
    openapi_extra=described(NewClient),
)
async def register_client(
    caller: AnyCaller, serving: ServingDep, new: Annotated[NewClient, Depends(reads(NewClient))]
) -> ApiResponse:
    """Register a client."""
    whose = speaker(caller, new.entity_id)
    registration = await serving.runtime.clients.register(whose, new.name, new.metadata)
    return answer({"client": client_json(registration)}, 201)


@clients_router.get("", responses=answers(ClientList, "The clients."))
async def list_clients(
    caller: AnyCaller,
    serving: ServingDep,
    entity_id: EntityId = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
) -> ApiResponse:
    """List registered clients, oldest first. A person sees their own."""
    clients = await serving.runtime.clients.list(owner_of_listed(caller, entity_id), limit, offset)
    return listed("clients", clients, client_json)


@clients_router.delete("/{client_id}", responses=answers(Deleted, "Deleted.", errors=(404,)))
async def delete_client(caller: AnyCaller, serving: ServingDep, client_id: Id) -> ApiResponse:
    """Delete a registered client."""
    await serving.permits.client(caller, client_id)
    await serving.runtime.clients.delete(client_id)
    return answer({"success": True})
