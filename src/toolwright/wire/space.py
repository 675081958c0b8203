"""Spaces, members and what is said there as JSON on the wire (API §3, §4)."""

from collections.abc import Iterable
from datetime import datetime

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.spaces.entity import Entity
from toolwright.core.spaces.space import Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.event import EventDraft, EventType
from toolwright.wire.entity import entity_json
from toolwright.wire.event import bounded


def space_json(space: Space) -> JSONObject:
    """`{id, name, kind, description, metadata, seq, createdAt, updatedAt}`."""
    return {
        "id": space.id,
        "name": space.name,
        "kind": space.kind,
        "description": space.description,
        "metadata": space.metadata,
        "seq": space.seq,
        "createdAt": space.created_at.isoformat(),
        "updatedAt": space.updated_at.isoformat(),
    }


def member_json(member: Member, entity: Entity | None) -> JSONObject:
    """`{spaceId, smartSpaceId, entityId, role, readSeq, joinedAt, entity}`; `entity` is null once it is deleted."""
    return {
        "spaceId": member.space_id,
        "smartSpaceId": member.space_id,
        "entityId": member.entity_id,
        "role": member.role,
        "readSeq": member.read_seq,
        "joinedAt": member.joined_at.isoformat(),
        "entity": None if entity is None else entity_json(entity),
    }


def reaction_json(reaction: Reaction) -> JSONObject:
    """`{messageId, entityId, emoji, createdAt}`."""
    return {
        "messageId": reaction.message_id,
        "entityId": reaction.entity_id,
        "emoji": reaction.emoji,
        "createdAt": reaction.created_at.isoformat(),
    }


def space_message_json(
    message: SpaceMessage, entity: Entity | None, reactions: Iterable[Reaction] = ()
) -> JSONObject:
    """`{id, seq, spaceId, smartSpaceId, entityId, role, content, metadata, parentMessageId, reactions, …, entity}`."""
    shown: list[JSON] = [{"emoji": each.emoji, "entityId": each.entity_id} for each in reactions]
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
        "reactions": shown,
        "createdAt": message.created_at.isoformat(),
        "editedAt": _instant(message.edited_at),
        "entity": None if entity is None else entity_json(entity),
    }


def said_event(message: SpaceMessage, entity: Entity | None, stream_id: str | None = None) -> EventDraft:
    """`space.message {message, streamId?}`."""
    payload: JSONObject = {"message": space_message_json(message, entity)}
    if stream_id is not None:
        payload["streamId"] = stream_id
    return bounded(EventDraft(type="space.message", payload=payload))


def edited_event(message: SpaceMessage, entity: Entity | None, reactions: Iterable[Reaction]) -> EventDraft:
    """`message_updated {message}`."""
    payload: JSONObject = {"message": space_message_json(message, entity, reactions)}
    return bounded(EventDraft(type="message_updated", payload=payload))


def joined_event(entity_id: str, role: str) -> EventDraft:
    """`member_added {entityId, role}`."""
    return space_event("member_added", entityId=entity_id, role=role)


def left_event(entity_id: str) -> EventDraft:
    """`member_removed {entityId}`."""
    return space_event("member_removed", entityId=entity_id)


def space_event(type_: EventType, **said: JSON) -> EventDraft:
    """`message_deleted {messageId}`, `reaction_added {messageId, entityId, emoji}` and the like."""
    return EventDraft(type=type_, payload={**said})


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
