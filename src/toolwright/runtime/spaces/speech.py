"""Posting messages in a space, for people, services and agents alike."""

from collections.abc import Sequence

from toolwright.core.broken_rows import all_rows
from toolwright.core.checks import invalid_value
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import NotFound
from toolwright.core.journal.effects import NO_SOURCE, Post, Source
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSONObject
from toolwright.core.spaces import Entity, Member, Space, SpaceMessage, open_to
from toolwright.core.threads.event import EventDraft
from toolwright.core.value import changed
from toolwright.runtime.agents.inboxes import Audience, Deliveries
from toolwright.runtime.checks import by_id
from toolwright.runtime.spaces.fields import metadata_of, text_of
from toolwright.runtime.spaces.membership import Membership
from toolwright.wire.space import member_added_event, message_event


class Speech:
    """Builds the effects that post messages."""

    def __init__(self, store: Store, membership: Membership, deliveries: Deliveries) -> None:
        self._store = store
        self._membership = membership
        self._deliveries = deliveries

    async def posting(
        self,
        message: SpaceMessage,
        author: Entity,
        depth: int | None,
        stream_id: str | None = None,
        source: Source = NO_SOURCE,
        audience: Audience = "members",
    ) -> Post:
        """Return the effect that posts the message, redacted for the agents in the space, and wakes its audience.

        `depth` is the depth of the run that posts, or None for a person. Raises `NotFound` if the author may not post
        there. In a public space the author becomes a member by posting; raises `TenvsRequired` if it cannot be a
        member.
        """
        space = await self._store.spaces.space(message.space_id)
        members = all_rows(await self._store.spaces.members(message.space_id))
        is_member = any(member.entity_id == author.id for member in members)
        if space is None or not open_to(space, is_member=is_member):
            raise NotFound(f"There is no space {message.space_id!r}.")
        if not is_member:
            await self._membership.admit(author)
        redactor = await self._membership.redactor_of(members)
        content = await in_thread_if_large(message.content, redactor.text, message.content)
        message = changed(
            message,
            content=content,
            metadata=redactor.object(message.metadata),
        )
        return Post(
            space_id=space.id,
            source=source,
            message=message,
            revision=space.revision,
            deliveries=await self._deliveries.of_message(message, space, author, members, depth, audience),
            joining=None if is_member else _joining(space, author, message),
            events=(*_join_events(author, is_member=is_member), message_event(message, author, stream_id)),
        )

    async def check_parent(self, message: SpaceMessage) -> None:
        """Check that the message can reply to its parent: the parent is in the same space and shows no call."""
        if message.parent_id is None:
            return
        parent = await self._store.spaces.message(by_id("message", message.parent_id))
        if parent is None or parent.space_id != message.space_id:
            raise invalid_value("parentMessageId", "names no message of this space")
        if parent.shows_call:
            raise invalid_value(
                "parentMessageId", "names a message that shows a tool call and cannot be replied to"
            )


def message_content(content: object, path: str = "content") -> str:
    """Return the content of a message: text that is not empty. `path` is the caller's name for it."""
    text = text_of(path, content)
    if text is None or not text.strip():
        raise invalid_value(path, "is empty")
    return text


def own_metadata(value: object) -> JSONObject:
    """Return the metadata that a caller may set on a message. They must not declare that the message shows a call."""
    metadata = metadata_of(value)
    if metadata.get("type") == "tool_call":
        raise invalid_value("metadata.type", "must not be 'tool_call': such messages show calls of agents")
    return metadata


def _join_events(author: Entity, *, is_member: bool) -> Sequence[EventDraft]:
    return () if is_member else (member_added_event(author.id, "member"),)


def _joining(space: Space, author: Entity, message: SpaceMessage) -> Member:
    return Member(space_id=space.id, entity_id=author.id, type=author.type, joined_at=message.created_at)
