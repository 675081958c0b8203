"""Spaces, entities, members and messages on the wire: shapes and JSON (API §3, §4)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.spaces import DeliveryOrder, EntityType, SpaceKind, SpaceRole
from toolwright.core.spaces import Entity as EntityRow
from toolwright.core.spaces import Reaction as ReactionRow
from toolwright.core.spaces import SpaceMessage as SpaceMessageRow
from toolwright.core.threads.event import Event, EventDraft, EventType
from toolwright.wire.event import Event as EventShape
from toolwright.wire.event import bounded
from toolwright.wire.rendering import GIVEN, Also, From
from toolwright.wire.shape import JsonObject, Shape

_S4_NAMES = {
    "space.message": "message_created",
    "agent.active": "agent_typing",
    "agent.inactive": "agent_done",
}


class Entity(Shape, title="EntityShape"):
    """A participant of spaces, a person or an agent. Agents have no timestamps.

    They are declared in code.
    """

    id: str
    type: EntityType
    external_id: str | None = None
    display_name: str | None = None
    metadata: JsonObject
    created_at: datetime | None = None
    updated_at: datetime | None = None


class FrontEnd(Shape, title="ClientShape"):
    """A client registration: a front-end of a person or an agent. The wire calls it a client."""

    id: str
    entity_id: str
    name: str | None = None
    metadata: JsonObject
    created_at: datetime


class Space(Shape, title="SpaceShape"):
    """A space; `seq` is the position of its newest message.

    `delivery` is the way a person's message reaches its agents: `all` at once, or `sequential`, one after another.
    """

    id: str
    name: str | None = None
    kind: SpaceKind
    description: str | None = None
    metadata: JsonObject
    delivery: DeliveryOrder = "all"
    seq: int
    created_at: datetime
    updated_at: datetime


class Member(Shape, title="MemberShape"):
    """A member; `entity` is null once it was deleted.

    It has read up to `read_seq`.
    """

    space_id: Annotated[str, Also("smartSpaceId")]
    entity_id: str
    role: str
    read_seq: int
    joined_at: datetime
    entity: Annotated[Entity | None, GIVEN] = None


class Reaction(Shape, title="EmojiShape"):
    """A reaction, as part of its message."""

    emoji: str
    entity_id: str


class MessageReaction(Shape, title="ReactionShape"):
    """A reaction to a message."""

    message_id: str
    entity_id: str
    emoji: str
    created_at: datetime


class SpaceMessage(Shape, title="SpaceMessageShape"):
    """A message in a space. A message that shows a visible call has `metadata.type` `tool_call`.

    `seq` is its position (1, 2, 3 …).
    """

    id: str
    seq: int
    space_id: Annotated[str, Also("smartSpaceId")]
    entity_id: str
    role: SpaceRole
    content: str
    metadata: JsonObject
    parent_message_id: Annotated[str | None, From("parent_id")] = None
    reactions: Annotated[tuple[Reaction, ...], GIVEN] = ()
    created_at: datetime
    edited_at: datetime | None = None
    entity: Annotated[Entity | None, GIVEN] = None


class WokenRun(Shape, title="RunOfMessage"):
    """The run that reads a message."""

    run_id: str
    agent_entity_id: str


class PostedMessage(Shape, title="Spoken"):
    """A posted message, and the runs that read it."""

    message: SpaceMessage
    runs: tuple[WokenRun, ...] = ()


def message_event(
    message: SpaceMessageRow, entity: EntityRow | None, stream_id: str | None = None
) -> EventDraft:
    """Return the event `space.message {message, streamId?}`."""
    payload: JSONObject = {"message": SpaceMessage.of(message, entity=entity)}
    if stream_id is not None:
        payload["streamId"] = stream_id
    return bounded(EventDraft("space.message", payload))


def edited_event(
    message: SpaceMessageRow, entity: EntityRow | None, reactions: Iterable[ReactionRow]
) -> EventDraft:
    """Return the event `message_updated {message}`."""
    payload: JSONObject = {"message": SpaceMessage.of(message, entity=entity, reactions=reactions)}
    return bounded(EventDraft("message_updated", payload))


def member_added_event(entity_id: str, role: str) -> EventDraft:
    """Return the event `member_added {entityId, role}`."""
    return space_event("member_added", entityId=entity_id, role=role)


def member_removed_event(entity_id: str) -> EventDraft:
    """Return the event `member_removed {entityId}`."""
    return space_event("member_removed", entityId=entity_id)


def space_event(type_: EventType, **payload: JSON) -> EventDraft:
    """Return an event of a space, such as `message_deleted {messageId}`, with the keywords as its payload."""
    return EventDraft(type_, {**payload})


_WITH_CHANNEL = frozenset({*_S4_NAMES, "reaction_added"})


def channel_event_json(event: Event, agent_entity_id: str | None = None) -> JSONObject:
    """Render the event with S4's names: a space is a channel, its participant a user. Other names are unchanged.

    `message_created {message, channelId, userId}`, `reaction_added {messageId, entityId, emoji, channelId, userId}`,
    `agent_typing` and `agent_done {agentEntityId, runId, channelId, userId, agentId}`; each has `channelId` in addition
    to `spaceId`.
    """
    fields = EventShape.of(event, agent_entity_id=agent_entity_id)
    if event.space_id is None:
        return fields
    fields |= {"type": _S4_NAMES.get(event.type, event.type), "channelId": event.space_id}
    if event.type in _WITH_CHANNEL:
        fields["data"] = {**event.payload, "channelId": event.space_id, **_user(event, agent_entity_id)}
    return fields


def _user(event: Event, agent_entity_id: str | None) -> JSONObject:
    """Return the participant that writes, reacts or works in the event."""
    if event.type in ("agent.active", "agent.inactive"):
        return {"userId": agent_entity_id, "agentId": event.agent}
    message = event.payload.get("message")
    by = message if isinstance(message, dict) else event.payload
    return {"userId": by.get("entityId")}
