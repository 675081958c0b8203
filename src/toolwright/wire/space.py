"""Spaces, entities, members and messages on the wire: shapes and JSON (API §3, §4)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.spaces import DeliveryOrder, EntityType, SpaceKind, SpaceRole
from toolwright.core.spaces import Entity as EntityRow
from toolwright.core.spaces import FrontEnd as FrontEndRow
from toolwright.core.spaces import Member as MemberRow
from toolwright.core.spaces import Reaction as ReactionRow
from toolwright.core.spaces import Space as SpaceRow
from toolwright.core.spaces import SpaceMessage as SpaceMessageRow
from toolwright.core.threads.event import Event, EventDraft, EventType
from toolwright.wire.event import bounded, event_json
from toolwright.wire.shape import Also, JsonObject, Shape, timestamp

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


def entity_json(entity: EntityRow) -> JSONObject:
    """Render `{id, type, externalId, displayName, metadata, createdAt, updatedAt}`."""
    return {
        "id": entity.id,
        "type": entity.type,
        "externalId": entity.external_id,
        "displayName": entity.display_name,
        "metadata": entity.metadata,
        "createdAt": timestamp(entity.created_at),
        "updatedAt": timestamp(entity.updated_at),
    }


class FrontEnd(Shape, title="ClientShape"):
    """A client registration: a front-end of a person or an agent. The wire calls it a client."""

    id: str
    entity_id: str
    name: str | None = None
    metadata: JsonObject
    created_at: datetime


def client_json(front_end: FrontEndRow) -> JSONObject:
    """Render `{id, entityId, name, metadata, createdAt}`."""
    return {
        "id": front_end.id,
        "entityId": front_end.entity_id,
        "name": front_end.name,
        "metadata": front_end.metadata,
        "createdAt": front_end.created_at.isoformat(),
    }


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


def space_json(space: SpaceRow) -> JSONObject:
    """Render `{id, name, kind, description, metadata, delivery, seq, createdAt, updatedAt}`."""
    return {
        "id": space.id,
        "name": space.name,
        "kind": space.kind,
        "description": space.description,
        "metadata": space.metadata,
        "delivery": space.delivery,
        "seq": space.seq,
        "createdAt": space.created_at.isoformat(),
        "updatedAt": space.updated_at.isoformat(),
    }


class Member(Shape, title="MemberShape"):
    """A member; `entity` is null once it was deleted.

    It has read up to `read_seq`.
    """

    space_id: Annotated[str, Also("smartSpaceId")]
    entity_id: str
    role: str
    read_seq: int
    joined_at: datetime
    entity: Entity | None = None


def member_json(member: MemberRow, entity: EntityRow | None) -> JSONObject:
    """Render a member with its entity, which is null if it was deleted, as in API §3."""
    return {
        "spaceId": member.space_id,
        "smartSpaceId": member.space_id,
        "entityId": member.entity_id,
        "role": member.role,
        "readSeq": member.read_seq,
        "joinedAt": member.joined_at.isoformat(),
        "entity": None if entity is None else entity_json(entity),
    }


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


def reaction_json(reaction: ReactionRow) -> JSONObject:
    """Render `{messageId, entityId, emoji, createdAt}`."""
    return {
        "messageId": reaction.message_id,
        "entityId": reaction.entity_id,
        "emoji": reaction.emoji,
        "createdAt": reaction.created_at.isoformat(),
    }


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
    parent_message_id: str | None = None
    reactions: tuple[Reaction, ...] = ()
    created_at: datetime
    edited_at: datetime | None = None
    entity: Entity | None = None


class WokenRun(Shape, title="RunOfMessage"):
    """The run that reads a message."""

    run_id: str
    agent_entity_id: str


class PostedMessage(Shape, title="Spoken"):
    """A posted message, and the runs that read it."""

    message: SpaceMessage
    runs: tuple[WokenRun, ...] = ()


def space_message_json(
    message: SpaceMessageRow, entity: EntityRow | None, reactions: Iterable[ReactionRow] = ()
) -> JSONObject:
    """Render a message with its author and reactions, as in API §3."""
    reaction_list: list[JSON] = [{"emoji": each.emoji, "entityId": each.entity_id} for each in reactions]
    return {
        "id": message.id,
        "seq": message.seq,
        "spaceId": message.space_id,
        "smartSpaceId": message.space_id,
        "entityId": message.entity_id,
        "role": message.role,
        "content": message.content,
        "metadata": message.metadata,
        "parentMessageId": message.parent_id,
        "reactions": reaction_list,
        "createdAt": message.created_at.isoformat(),
        "editedAt": timestamp(message.edited_at),
        "entity": None if entity is None else entity_json(entity),
    }


def message_event(
    message: SpaceMessageRow, entity: EntityRow | None, stream_id: str | None = None
) -> EventDraft:
    """Return the event `space.message {message, streamId?}`."""
    payload: JSONObject = {"message": space_message_json(message, entity)}
    if stream_id is not None:
        payload["streamId"] = stream_id
    return bounded(EventDraft(type="space.message", payload=payload))


def edited_event(
    message: SpaceMessageRow, entity: EntityRow | None, reactions: Iterable[ReactionRow]
) -> EventDraft:
    """Return the event `message_updated {message}`."""
    payload: JSONObject = {"message": space_message_json(message, entity, reactions)}
    return bounded(EventDraft(type="message_updated", payload=payload))


def member_added_event(entity_id: str, role: str) -> EventDraft:
    """Return the event `member_added {entityId, role}`."""
    return space_event("member_added", entityId=entity_id, role=role)


def member_removed_event(entity_id: str) -> EventDraft:
    """Return the event `member_removed {entityId}`."""
    return space_event("member_removed", entityId=entity_id)


def space_event(type_: EventType, **payload: JSON) -> EventDraft:
    """Return an event of a space, such as `message_deleted {messageId}`, with the keywords as its payload."""
    return EventDraft(type=type_, payload={**payload})


_WITH_CHANNEL = frozenset({*_S4_NAMES, "reaction_added"})


def channel_event_json(event: Event, agent_entity_id: str | None = None) -> JSONObject:
    """Render the event with S4's names: a space is a channel, its participant a user. Other names are unchanged.

    `message_created {message, channelId, userId}`, `reaction_added {messageId, entityId, emoji, channelId, userId}`,
    `agent_typing` and `agent_done {agentEntityId, runId, channelId, userId, agentId}`; each has `channelId` in addition
    to `spaceId`.
    """
    fields = event_json(event, agent_entity_id)
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
