"""Clients: registered front-ends of entities."""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import Field

from toolwright.web.answers.answer import Answer, answer, listed
from toolwright.web.answers.shapes import Deleted, answers
from toolwright.web.auth.permits import owner_of_listed, speaker
from toolwright.web.callers import Known
from toolwright.web.requests.body import Form, described, reads
from toolwright.web.requests.fields import Id, Limit, Metadata, Name, Offset, Reference, Words
from toolwright.web.routes.router import noun
from toolwright.web.serving import Here
from toolwright.web.shapes.entities import ClientAnswer, ClientList
from toolwright.wire.front_end import client_json

router = noun("/api/clients", "clients")

EntityId = Annotated[Words | None, Query(alias="entityId", description="Those of one entity.")]


class NewClient(Form):
    """A front-end to register."""

    name: Name | None = None
    metadata: Metadata | None = None
    entity_id: Reference | None = Field(
        None, description="Whose it is: a service says for whom; a person's is their own."
    )


@router.post(
    "",
    status_code=201,
    responses=answers(ClientAnswer, "The new client.", 201, (404, 413)),
    openapi_extra=described(NewClient),
)
async def register_client(
    caller: Known, here: Here, new: Annotated[NewClient, Depends(reads(NewClient))]
) -> Answer:
    """Register a front-end."""
    whose = speaker(caller, new.entity_id)
    made = await here.runtime.clients.register(whose, new.name, new.metadata)
    return answer({"client": client_json(made)}, 201)


@router.get("", responses=answers(ClientList, "The clients."))
async def list_clients(
    caller: Known, here: Here, entity_id: EntityId = None, limit: Limit = 50, offset: Offset = 0
) -> Answer:
    """Registered front-ends, the oldest first; a person's are their own."""
    found = await here.runtime.clients.list(owner_of_listed(caller, entity_id), limit, offset)
    return listed("clients", found, client_json)


@router.delete("/{client_id}", responses=answers(Deleted, "It is deleted.", errors=(404,)))
async def delete_client(caller: Known, here: Here, client_id: Id) -> Answer:
    """Take a front-end off the list."""
    await here.permits.client(caller, client_id)
    await here.runtime.clients.delete(client_id)
    return answer({"success": True})
