"""Routes of spaces, their members, messages and reactions."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator, Field, JsonValue

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.json_value import JSON, JSONObject, characters
from toolwright.core.limits import PAGE_BYTES, Page, PageLimit
from toolwright.core.spaces import DeliveryOrder, SpaceFields, SpaceKind
from toolwright.core.spaces import Member as MemberRow
from toolwright.core.spaces import Reaction as ReactionRow
from toolwright.core.spaces import Space as SpaceRow
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.spaces.fields import MAX_EMOJI, MAX_ID, MAX_TEXT, OWN_ID
from toolwright.runtime.spaces.messages import MAX_PAGE, MessageView
from toolwright.web.answers import (
    Deleted,
    ListShape,
    failures,
)
from toolwright.web.auth.permits import speaker
from toolwright.web.dependencies import AnyCaller, AtWork, Service, ServingDep
from toolwright.web.requests import (
    Description,
    Id,
    Limit,
    Metadata,
    Name,
    Offset,
    Reference,
    RequestBody,
    StorableText,
)
from toolwright.web.route import noun
from toolwright.wire.rendering import Itself, WrittenBy
from toolwright.wire.shape import Shape
from toolwright.wire.space import (
    Member,
    MessageReaction,
    PostedMessage,
    Space,
    SpaceMessage,
)

SpaceId = Annotated[
    StorableText, Field(min_length=1, max_length=MAX_ID, json_schema_extra={"pattern": f"^{OWN_ID}$"})
]

router = noun("/api/spaces", "spaces")


class SpaceAnswer(Shape):
    """One space, under both of its names."""

    space: Itself[Space]
    smart_space: Itself[Space]


class SpaceList(ListShape):
    """Spaces, oldest first, under both of their names."""

    spaces: list[Space]
    smart_spaces: list[Space]

    @classmethod
    def of(cls, row: Sequence[SpaceRow], **given: bool) -> JSONObject:
        """Render a page of spaces."""
        fields = super().of(row, **given)
        return {**fields, "smartSpaces": fields["spaces"]}


class MembershipAnswer(Shape):
    """One membership."""

    membership: Member


class MemberList(ListShape):
    """Members, in the order in which they joined."""

    members: list[Member]


class SpaceChange(RequestBody):
    """Changes of a space; missing fields are unchanged."""

    name: Name | None = None
    description: Description | None = None
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    delivery: DeliveryOrder | None = Field(
        None,
        description="Whether agents receive a person's message in parallel (the default) or in turn.",
    )

    @property
    def fields(self) -> SpaceFields:
        """Return the fields present in the request."""
        values: SpaceFields = {}
        if "name" in self.model_fields_set:
            values["name"] = self.name
        if "description" in self.model_fields_set:
            values["description"] = self.description
        if "metadata" in self.model_fields_set:
            values["metadata"] = self.metadata
        if self.delivery is not None:
            values["delivery"] = self.delivery
        return values


class NewSpace(SpaceChange):
    """A space to create."""

    kind: SpaceKind = Field("private", description="Every user of the app can read and write a public space.")
    id: SpaceId | None = Field(None, description="An id of your choice, of letters, digits or any of _ . ~ -")


class MemberRole(RequestBody):
    """A member's role."""

    role: Name = "member"


class NewMember(MemberRole):
    """An entity to add: its id, or an agent's name or id."""

    entity_id: Reference


class ReadUpTo(RequestBody):
    """The seq of the last read message."""

    seq: int = Field(ge=0, lt=2**63)


@router.post("", status_code=201, response_description="The new space.", responses=failures(409, 413))
async def create_space(_: Service, runtime: AtWork, new: NewSpace) -> Annotated[SpaceRow, SpaceAnswer]:
    """Create a space without members."""
    return await runtime.spaces.create(
        new.name, new.kind, new.description, new.metadata, new.id, delivery=new.delivery or "all"
    )


@router.get("", response_description="The spaces.")
async def list_spaces(
    caller: AnyCaller, runtime: AtWork, limit: Limit = PageLimit(50), offset: Offset = 0
) -> Annotated[Sequence[SpaceRow], SpaceList]:
    """List spaces, oldest first. A person sees the spaces they are a member of, and the public ones."""
    return await runtime.spaces.list(limit, offset, seen_by=caller.entity_id)


@router.get("/{space_id}", response_description="The space.", responses=failures(404))
async def get_space(caller: AnyCaller, serving: ServingDep, space_id: Id) -> Annotated[SpaceRow, SpaceAnswer]:
    """Get a space."""
    return await serving.permits.space(caller, space_id)


@router.patch("/{space_id}", response_description="The updated space.", responses=failures(404, 413))
async def change_space(
    _: Service, runtime: AtWork, space_id: Id, change: SpaceChange
) -> Annotated[SpaceRow, SpaceAnswer]:
    """Change a space."""
    return await runtime.spaces.update(space_id, **change.fields)


@router.delete("/{space_id}", response_description="Deleted.", responses=failures(404))
async def delete_space(_: Service, runtime: AtWork, space_id: Id) -> Annotated[None, Deleted]:
    """Delete a space with its messages."""
    await runtime.spaces.delete(space_id)


@router.get("/{space_id}/members", response_description="The members.", responses=failures(404))
async def list_members(
    caller: AnyCaller, serving: ServingDep, space_id: Id, limit: Limit = PageLimit(1_000), offset: Offset = 0
) -> Annotated[JSONObject, MemberList]:
    """List the members of a space, in the order in which they joined."""
    await serving.permits.in_space(caller, space_id)
    members = Page((await serving.runtime.spaces.members(space_id))[offset : offset + limit])
    entries: list[JSON] = []
    size = 0
    for one in members:
        if size >= PAGE_BYTES:
            members.more = True
            break
        entries.append(await _member(serving.runtime, one))
        size += characters(entries[-1])
    ended: JSONObject = {"more": True} if members.more else {}
    return {"members": entries, **ended}


@router.post("/{space_id}/members", response_description="The membership.", responses=failures(404, 409, 413))
async def add_member(
    _: Service, runtime: AtWork, space_id: Id, new: NewMember
) -> Annotated[JSONObject, MembershipAnswer]:
    """Add an entity to a space, or set the role of a member. A dm has at most two members."""
    member = await runtime.spaces.add_member(space_id, new.entity_id, new.role)
    return {"membership": await _member(runtime, member)}


@router.patch(
    "/{space_id}/members/{entity_id}",
    response_description="The updated membership.",
    responses=failures(404, 413),
)
async def change_member(
    _: Service, runtime: AtWork, space_id: Id, entity_id: Id, change: MemberRole
) -> Annotated[JSONObject, MembershipAnswer]:
    """Set the role of a member."""
    member = await runtime.spaces.change_member(space_id, entity_id, change.role)
    return {"membership": await _member(runtime, member)}


@router.delete("/{space_id}/members/{entity_id}", response_description="Removed.", responses=failures(404))
async def remove_member(_: Service, runtime: AtWork, space_id: Id, entity_id: Id) -> Annotated[None, Deleted]:
    """Remove a member from a space."""
    await runtime.spaces.remove_member(space_id, entity_id)


@router.patch(
    "/{space_id}/read", response_description="The caller's membership.", responses=failures(403, 404, 413)
)
async def mark_read(
    caller: AnyCaller, serving: ServingDep, space_id: Id, mark: ReadUpTo
) -> Annotated[JSONObject, MembershipAnswer]:
    """Mark messages as read up to a seq. Only people have unread counts: use a person's token."""
    await serving.permits.space(caller, space_id)
    member = await serving.runtime.spaces.mark_read(space_id, serving.permits.reader(caller), mark.seq)
    return {"membership": await _member(serving.runtime, member)}


async def _member(runtime: Runtime, member: MemberRow) -> JSON:
    return Member.of(member, entity=await runtime.entities.get_for_display(member.entity_id))


messages_router = noun("/api", "spaces")


def _json(row: MessageView) -> JSONObject:
    return SpaceMessage.of(row.message, entity=row.author, reactions=row.reactions)


class SpaceMessageAnswer(Shape):
    """One message."""

    message: SpaceMessage


class SpaceMessageList(ListShape):
    """Messages, oldest first."""

    messages: list[Annotated[SpaceMessage, WrittenBy(_json)]]


class ReactionAnswer(Shape):
    """One reaction."""

    reaction: Itself[MessageReaction]


Place = Annotated[int | None, Query(ge=0, lt=2**63)]
Content = Annotated[StorableText, Field(max_length=MAX_TEXT)]
Emoji = Annotated[
    StorableText, Field(min_length=1, max_length=MAX_EMOJI, json_schema_extra={"pattern": r"^\S+$"})
]


class NewSpaceMessage(RequestBody):
    """A message to post."""

    content: Content
    entity_id: Reference | None = Field(
        None, description="The author. Required from services; a person is always themselves."
    )
    metadata: Metadata | None = None
    parent_message_id: Reference | None = Field(
        None, description="The message of this space that this one replies to."
    )


class NewContent(RequestBody):
    """The new text of a message."""

    content: Content


class NewReaction(RequestBody):
    """An emoji for a message."""

    emoji: Emoji
    entity_id: Reference | None = Field(
        None, description="The author. Required from services; a person is always themselves."
    )


@messages_router.post(
    "/spaces/{space_id}/messages",
    status_code=201,
    response_description="The message, and the runs that read it.",
    responses=failures(404, 413),
)
async def say(
    caller: AnyCaller, serving: ServingDep, space_id: Id, new: NewSpaceMessage
) -> Annotated[JSONObject, PostedMessage]:
    """Post a message in a space, which starts runs of its other agents. In a public space the author joins it."""
    await serving.permits.space(caller, space_id)
    spaces = serving.runtime.spaces
    author = speaker(caller, new.entity_id)
    spoken = await spaces.say(space_id, author, new.content, new.metadata, new.parent_message_id)
    [message] = await spaces.shown([spoken.message])
    runs: list[JSON] = [
        {"runId": run_id, "agentEntityId": entity_id_of(agent)} for agent, run_id in spoken.runs.items()
    ]
    return {"message": _json(message), "runs": runs}


@messages_router.get(
    "/spaces/{space_id}/messages", response_description="The messages.", responses=failures(404)
)
async def list_space_messages(
    caller: AnyCaller,
    serving: ServingDep,
    space_id: Id,
    limit: Annotated[
        int, AfterValidator(PageLimit), Query(ge=1, le=MAX_PAGE, description="The most messages.")
    ] = PageLimit(50),
    after: Annotated[Place, Query(alias="afterSeq", description="Only messages after this seq.")] = None,
    before: Annotated[
        Place, Query(alias="beforeSeq", description="Only messages before this seq, the last ones.")
    ] = None,
) -> Annotated[JSONObject, SpaceMessageList]:
    """List messages in order; by default the newest page."""
    await serving.permits.in_space(caller, space_id)
    messages = await serving.runtime.spaces.messages(space_id, limit, after, before)
    return SpaceMessageList.of(messages, newest=after is None)


@messages_router.patch(
    "/messages/{message_id}", response_description="The updated message.", responses=failures(403, 404, 413)
)
async def edit_message(
    caller: AnyCaller, serving: ServingDep, message_id: Id, change: NewContent
) -> Annotated[JSONObject, SpaceMessageAnswer]:
    """Edit one's own message. A service can edit every message."""
    await serving.permits.own_message(caller, message_id)
    return {"message": _json(await serving.runtime.spaces.edit(message_id, change.content))}


@messages_router.delete(
    "/messages/{message_id}", response_description="Deleted.", responses=failures(403, 404)
)
async def delete_message(caller: AnyCaller, serving: ServingDep, message_id: Id) -> Annotated[None, Deleted]:
    """Delete one's own message. A service can delete every message."""
    await serving.permits.own_message(caller, message_id)
    await serving.runtime.spaces.erase(message_id)


@messages_router.post(
    "/messages/{message_id}/reactions", response_description="The reaction.", responses=failures(404, 413)
)
async def react(
    caller: AnyCaller, serving: ServingDep, message_id: Id, new: NewReaction
) -> Annotated[ReactionRow, ReactionAnswer]:
    """Add a reaction to a message. Repeating a reaction has no effect."""
    await serving.permits.message(caller, message_id)
    entity = await serving.runtime.entities.find(speaker(caller, new.entity_id))
    return await serving.runtime.spaces.react(message_id, entity.id, new.emoji)


@messages_router.delete(
    "/messages/{message_id}/reactions",
    response_description="The removed reaction.",
    responses=failures(404, 413),
)
async def unreact(
    caller: AnyCaller, serving: ServingDep, message_id: Id, old: NewReaction
) -> Annotated[ReactionRow, ReactionAnswer]:
    """Remove a reaction."""
    await serving.permits.message(caller, message_id)
    entity = await serving.runtime.entities.find(speaker(caller, old.entity_id))
    return await serving.runtime.spaces.unreact(message_id, entity.id, old.emoji)
