"""Messages of spaces: posted by people, services and agents alike, shown to people, and their reactions."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolwright.core.checks import invalid_value
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.space_effects import NO_SOURCE, Post, React, Source, Unreact
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import Page, ended_early
from toolwright.core.ports import Clock
from toolwright.core.spaces import Entity, Member, Reaction, Space, SpaceMessage, open_to
from toolwright.core.threads.event import EventDraft
from toolwright.runtime.agents.inboxes import Audience, Deliveries
from toolwright.runtime.journal import EffectCommits, by_id, page, whole_number
from toolwright.runtime.spaces.entities import Entities
from toolwright.runtime.spaces.fields import emoji_of, metadata_of, text_of
from toolwright.runtime.spaces.membership import Membership
from toolwright.wire.space import member_added_event, message_event, space_event

MAX_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """A message as shown to people: with its author and reactions."""

    message: SpaceMessage
    author: Entity | None
    reactions: Sequence[Reaction] = ()


class History:
    """Reads messages. A space that does not exist has no messages."""

    def __init__(self, store: Store, entities: Entities) -> None:
        self._store = store
        self._entities = entities

    async def messages(
        self, space_id: str, limit: int, after: int | None, before: int | None
    ) -> Sequence[MessageView]:
        """Return messages in order: the first after position `after`, the last before `before`, or the last of all."""
        page(limit)
        for name, seq in (("after", after), ("before", before)):
            whole_number(name, 0 if seq is None else seq)
        limit = type(limit)(min(limit, MAX_PAGE))
        rows = await self._store.spaces.messages(space_id, after=after, before=before, limit=limit)
        return await self.shown(rows)

    async def newest(self, space_id: str, limit: int, offset: int = 0) -> Sequence[MessageView]:
        """Return a page of messages in order, ending `offset` messages before the newest."""
        page(limit, offset)
        return await self.shown(await self._store.spaces.newest(space_id, limit, offset))

    async def message(self, message_id: str) -> SpaceMessage:
        """Return the message. Raises `NotFound` if it does not exist."""
        row = await self._store.spaces.message(by_id("message", message_id))
        if row is None:
            raise NotFound(f"There is no message {message_id!r}.")
        return row

    async def shown(self, messages: Sequence[SpaceMessage]) -> Sequence[MessageView]:
        """Return messages with their authors and reactions."""
        reactions = await self._store.spaces.reactions([message.id for message in messages])
        authors = {
            one: await self._entities.get_for_display(one) for one in {each.entity_id for each in messages}
        }
        rows = [
            MessageView(
                message=message,
                author=authors[message.entity_id],
                reactions=[each for each in reactions if each.message_id == message.id],
            )
            for message in messages
        ]
        return Page(rows, more=ended_early(messages))


class Reactions:
    """Adds and removes reactions, and announces both in the space."""

    def __init__(self, store: Store, effect_commits: EffectCommits, clock: Clock) -> None:
        self._store = store
        self._effect_commits = effect_commits
        self._clock = clock

    async def add(self, message: SpaceMessage, entity_id: str, emoji: str) -> Reaction:
        """Add a reaction to a message, or return the existing one: an entity reacts once with the same emoji."""
        reaction = Reaction(
            message_id=message.id,
            entity_id=entity_id,
            emoji=emoji_of(emoji),
            created_at=self._clock.now(),
        )
        if message.shows_call:
            raise InvalidRequest("This message shows a tool call and cannot be reacted to.")
        event = space_event("reaction_added", messageId=message.id, entityId=entity_id, emoji=emoji)
        effect = React(space_id=message.space_id, reaction=reaction, events=(event,))
        committed = await self._effect_commits.commit(effect)
        if isinstance(committed, Conflict):
            raise NotFound(f"There is no message {message.id!r}.")
        stands = None if committed.count else await self._find(message, entity_id, emoji)
        return stands or reaction

    async def take_back(self, message: SpaceMessage, entity_id: str, emoji: str) -> Reaction:
        """Remove a reaction. Raises `NotFound` if it does not exist."""
        mine = await self._find(message, entity_id, emoji)
        if mine is None:
            raise NotFound(f"There is no reaction {emoji!r} of this entity to the message.")
        event = space_event("reaction_removed", messageId=message.id, entityId=entity_id, emoji=emoji)
        effect = Unreact(
            space_id=message.space_id,
            message_id=message.id,
            entity_id=entity_id,
            emoji=emoji,
            events=(event,),
        )
        await self._effect_commits.commit(effect)
        return mine

    async def _find(self, message: SpaceMessage, entity_id: str, emoji: str) -> Reaction | None:
        reactions = await self._store.spaces.reactions([message.id])
        same_emoji = [one for one in reactions if one.emoji == emoji]
        return next((one for one in same_emoji if one.entity_id == entity_id), None)


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
        """Return the effect that posts the message and wakes its audience.

        `depth` is the depth of the run that posts, or None for a person. Raises `NotFound` if the author may not post
        there. In a public space the author becomes a member by posting; raises `TenvsRequired` if it cannot be a
        member.
        """
        space = await self._store.spaces.space(message.space_id)
        members = await self._store.spaces.members(message.space_id)
        is_member = any(member.entity_id == author.id for member in members)
        if space is None or not open_to(space, is_member=is_member):
            raise NotFound(f"There is no space {message.space_id!r}.")
        if not is_member:
            await self._membership.admit(author)
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
