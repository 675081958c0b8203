"""Routes of messages and reactions in spaces."""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import AfterValidator, Field

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import PageLimit
from toolwright.runtime.spaces.fields import LONGEST_EMOJI, LONGEST_TEXT
from toolwright.runtime.spaces.history import LONGEST_PAGE, MessageView
from toolwright.web.answers import Answer, Deleted, ListShape, answer, answers, listed
from toolwright.web.auth.permits import speaker
from toolwright.web.dependencies import Known
from toolwright.web.requests.body import Form, described, reads
from toolwright.web.requests.query import Id, Metadata, Reference, Words
from toolwright.web.routes.router import noun
from toolwright.web.serving import Here
from toolwright.wire.shape import Shape
from toolwright.wire.space import (
    MessageReaction,
    PostedMessage,
    SpaceMessage,
    reaction_json,
    space_message_json,
)

router = noun("/api", "spaces")


class SpaceMessageAnswer(Shape):
    """One message."""

    message: SpaceMessage


class SpaceMessageList(ListShape):
    """Messages, the oldest first."""

    messages: list[SpaceMessage]


class ReactionAnswer(Shape):
    """One reaction."""

    reaction: MessageReaction


Place = Annotated[int | None, Query(ge=0, lt=2**63)]
Content = Annotated[Words, Field(max_length=LONGEST_TEXT)]
Emoji = Annotated[
    Words, Field(min_length=1, max_length=LONGEST_EMOJI, json_schema_extra={"pattern": r"^\S+$"})
]


class NewSpaceMessage(Form):
    """A message to say."""

    content: Content
    entity_id: Reference | None = Field(
        None, description="Who speaks: a service says for whom; a person is always themselves."
    )
    metadata: Metadata | None = None
    parent_message_id: Reference | None = Field(
        None, description="The message of this space that it answers."
    )


class NewContent(Form):
    """Another text for a message."""

    content: Content


class NewReaction(Form):
    """An emoji for a message."""

    emoji: Emoji
    entity_id: Reference | None = Field(
        None, description="Who reacts: a service says for whom; a person is always themselves."
    )


@router.post(
    "/spaces/{space_id}/messages",
    status_code=201,
    responses=answers(PostedMessage, "The message, and the runs that read it.", 201, (404, 413)),
    openapi_extra=described(NewSpaceMessage),
)
async def say(
    caller: Known,
    serving: Here,
    space_id: Id,
    new: Annotated[NewSpaceMessage, Depends(reads(NewSpaceMessage))],
) -> Answer:
    """Say something in a space; the other agents in it are woken. Who speaks in a public one joins it."""
    await serving.permits.space(caller, space_id)
    spaces = serving.runtime.spaces
    author = speaker(caller, new.entity_id)
    spoken = await spaces.say(space_id, author, new.content, new.metadata, new.parent_message_id)
    [message] = await spaces.shown([spoken.message])
    runs: list[JSON] = [
        {"runId": run_id, "agentEntityId": entity_id_of(agent)} for agent, run_id in spoken.runs.items()
    ]
    return answer({"message": _json(message), "runs": runs}, 201)


@router.get(
    "/spaces/{space_id}/messages", responses=answers(SpaceMessageList, "The messages.", errors=(404,))
)
async def list_space_messages(
    caller: Known,
    serving: Here,
    space_id: Id,
    limit: Annotated[
        int, AfterValidator(PageLimit), Query(ge=1, le=LONGEST_PAGE, description="The most messages.")
    ] = PageLimit(50),
    after: Annotated[Place, Query(alias="afterSeq", description="Those behind this place.")] = None,
    before: Annotated[Place, Query(alias="beforeSeq", description="The last before this place.")] = None,
) -> Answer:
    """Messages in order; the newest page where no place is given."""
    await serving.permits.in_space(caller, space_id)
    messages = await serving.runtime.spaces.messages(space_id, limit, after, before)
    return listed("messages", messages, _json, newest=after is None)


@router.patch(
    "/messages/{message_id}",
    responses=answers(SpaceMessageAnswer, "The message as it is now.", errors=(403, 404, 413)),
    openapi_extra=described(NewContent),
)
async def edit_message(
    caller: Known, serving: Here, message_id: Id, change: Annotated[NewContent, Depends(reads(NewContent))]
) -> Answer:
    """Change the text of a message of one's own; a service's are all."""
    await serving.permits.own_message(caller, message_id)
    return answer({"message": _json(await serving.runtime.spaces.edit(message_id, change.content))})


@router.delete("/messages/{message_id}", responses=answers(Deleted, "It is deleted.", errors=(403, 404)))
async def delete_message(caller: Known, serving: Here, message_id: Id) -> Answer:
    """Delete a message of one's own; a service's are all."""
    await serving.permits.own_message(caller, message_id)
    await serving.runtime.spaces.erase(message_id)
    return answer({"success": True})


@router.post(
    "/messages/{message_id}/reactions",
    responses=answers(ReactionAnswer, "The reaction.", errors=(404, 413)),
    openapi_extra=described(NewReaction),
)
async def react(
    caller: Known, serving: Here, message_id: Id, new: Annotated[NewReaction, Depends(reads(NewReaction))]
) -> Answer:
    """React to a message; the same reaction stands once."""
    await serving.permits.message(caller, message_id)
    entity = await serving.runtime.entities.find(speaker(caller, new.entity_id))
    return answer(
        {"reaction": reaction_json(await serving.runtime.spaces.react(message_id, entity.id, new.emoji))}
    )


@router.delete(
    "/messages/{message_id}/reactions",
    responses=answers(ReactionAnswer, "The reaction that was taken back.", errors=(404, 413)),
    openapi_extra=described(NewReaction),
)
async def unreact(
    caller: Known, serving: Here, message_id: Id, old: Annotated[NewReaction, Depends(reads(NewReaction))]
) -> Answer:
    """Take a reaction back."""
    await serving.permits.message(caller, message_id)
    entity = await serving.runtime.entities.find(speaker(caller, old.entity_id))
    taken = await serving.runtime.spaces.unreact(message_id, entity.id, old.emoji)
    return answer({"reaction": reaction_json(taken)})


def _json(row: MessageView) -> JSONObject:
    return space_message_json(row.message, row.author, row.reactions)
