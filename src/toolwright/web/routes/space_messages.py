"""Routes of messages and reactions in spaces."""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import AfterValidator, Field

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import PageLimit
from toolwright.runtime.spaces.fields import LONGEST_EMOJI, LONGEST_TEXT
from toolwright.runtime.spaces.messages import LONGEST_PAGE, MessageView
from toolwright.web.answers import ApiResponse, Deleted, ListShape, answer, answers, listed
from toolwright.web.auth.permits import speaker
from toolwright.web.dependencies import AnyCaller
from toolwright.web.requests.body import RequestForm, described, reads
from toolwright.web.requests.query import Id, Metadata, Reference, StorableText
from toolwright.web.routes.router import noun
from toolwright.web.serving import ServingDep
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
    """Messages, oldest first."""

    messages: list[SpaceMessage]


class ReactionAnswer(Shape):
    """One reaction."""

    reaction: MessageReaction


Place = Annotated[int | None, Query(ge=0, lt=2**63)]
Content = Annotated[StorableText, Field(max_length=LONGEST_TEXT)]
Emoji = Annotated[
    StorableText, Field(min_length=1, max_length=LONGEST_EMOJI, json_schema_extra={"pattern": r"^\S+$"})
]


class NewSpaceMessage(RequestForm):
    """A message to post."""

    content: Content
    entity_id: Reference | None = Field(
        None, description="The author. Required from services; a person is always themselves."
    )
    metadata: Metadata | None = None
    parent_message_id: Reference | None = Field(
        None, description="The message of this space that this one replies to."
    )


class NewContent(RequestForm):
    """The new text of a message."""

    content: Content


class NewReaction(RequestForm):
    """An emoji for a message."""

    emoji: Emoji
    entity_id: Reference | None = Field(
        None, description="The author. Required from services; a person is always themselves."
    )


@router.post(
    "/spaces/{space_id}/messages",
    status_code=201,
    responses=answers(PostedMessage, "The message, and the runs that read it.", 201, (404, 413)),
    openapi_extra=described(NewSpaceMessage),
)
async def say(
    caller: AnyCaller,
    serving: ServingDep,
    space_id: Id,
    new: Annotated[NewSpaceMessage, Depends(reads(NewSpaceMessage))],
) -> ApiResponse:
    """Post a message in a space, which starts runs of its other agents. In a public space the author joins it."""
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
    caller: AnyCaller,
    serving: ServingDep,
    space_id: Id,
    limit: Annotated[
        int, AfterValidator(PageLimit), Query(ge=1, le=LONGEST_PAGE, description="The most messages.")
    ] = PageLimit(50),
    after: Annotated[Place, Query(alias="afterSeq", description="Only messages after this seq.")] = None,
    before: Annotated[
        Place, Query(alias="beforeSeq", description="Only messages before this seq, the last ones.")
    ] = None,
) -> ApiResponse:
    """List messages in order; by default the newest page."""
    await serving.permits.in_space(caller, space_id)
    messages = await serving.runtime.spaces.messages(space_id, limit, after, before)
    return listed("messages", messages, _json, newest=after is None)


@router.patch(
    "/messages/{message_id}",
    responses=answers(SpaceMessageAnswer, "The updated message.", errors=(403, 404, 413)),
    openapi_extra=described(NewContent),
)
async def edit_message(
    caller: AnyCaller,
    serving: ServingDep,
    message_id: Id,
    change: Annotated[NewContent, Depends(reads(NewContent))],
) -> ApiResponse:
    """Edit one's own message. A service can edit every message."""
    await serving.permits.own_message(caller, message_id)
    return answer({"message": _json(await serving.runtime.spaces.edit(message_id, change.content))})


@router.delete("/messages/{message_id}", responses=answers(Deleted, "Deleted.", errors=(403, 404)))
async def delete_message(caller: AnyCaller, serving: ServingDep, message_id: Id) -> ApiResponse:
    """Delete one's own message. A service can delete every message."""
    await serving.permits.own_message(caller, message_id)
    await serving.runtime.spaces.erase(message_id)
    return answer({"success": True})


@router.post(
    "/messages/{message_id}/reactions",
    responses=answers(ReactionAnswer, "The reaction.", errors=(404, 413)),
    openapi_extra=described(NewReaction),
)
async def react(
    caller: AnyCaller,
    serving: ServingDep,
    message_id: Id,
    new: Annotated[NewReaction, Depends(reads(NewReaction))],
) -> ApiResponse:
    """Add a reaction to a message. Repeating a reaction has no effect."""
    await serving.permits.message(caller, message_id)
    entity = await serving.runtime.entities.find(speaker(caller, new.entity_id))
    return answer(
        {"reaction": reaction_json(await serving.runtime.spaces.react(message_id, entity.id, new.emoji))}
    )


@router.delete(
    "/messages/{message_id}/reactions",
    responses=answers(ReactionAnswer, "The removed reaction.", errors=(404, 413)),
    openapi_extra=described(NewReaction),
)
async def unreact(
    caller: AnyCaller,
    serving: ServingDep,
    message_id: Id,
    old: Annotated[NewReaction, Depends(reads(NewReaction))],
) -> ApiResponse:
    """Remove a reaction."""
    await serving.permits.message(caller, message_id)
    entity = await serving.runtime.entities.find(speaker(caller, old.entity_id))
    removed = await serving.runtime.spaces.unreact(message_id, entity.id, old.emoji)
    return answer({"reaction": reaction_json(removed)})


def _json(row: MessageView) -> JSONObject:
    return space_message_json(row.message, row.author, row.reactions)
