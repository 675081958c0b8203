"""Spaces: create, join, post, read; used by built-in tools and by routes."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from toolwright.core.broken_rows import exists
from toolwright.core.errors import AlreadyExists, InvalidRequest, NotFound, StoreError, ToolwrightError
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.space_effects import (
    DropMember,
    DropSpace,
    Edit,
    Erase,
    MarkRead,
    SaveMember,
    SaveSpace,
)
from toolwright.core.journal.units import Committed, Conflict
from toolwright.core.json_value import JSONObject
from toolwright.core.spaces import (
    DM_MEMBERS,
    DeliveryOrder,
    Entity,
    Member,
    Reaction,
    Space,
    SpaceFields,
    SpaceKind,
    SpaceMessage,
)
from toolwright.core.value import changed
from toolwright.runtime.carried import Carried
from toolwright.runtime.journal import (
    EffectCommits,
    Services,
    by_id,
    by_kind,
    page,
    sweep_after,
    sweep_rows,
    whole_number,
)
from toolwright.runtime.spaces.entities import Entities
from toolwright.runtime.spaces.fields import (
    TICK,
    changed_space,
    delivery_of,
    id_of,
    kind_of,
    metadata_of,
    name_of,
    role_of,
    text_of,
)
from toolwright.runtime.spaces.membership import Membership
from toolwright.runtime.spaces.messages import (
    History,
    MessageView,
    Reactions,
    Speech,
    message_content,
    own_metadata,
)
from toolwright.wire.space import edited_event, member_added_event, member_removed_event, space_event

SWEPT_ELSEWHERE = 0.1  # seconds until another attempt while another task or process deletes the rows
MAX_ATTEMPTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedMessage:
    """A stored message, and the ids of the runs that read it, by agent."""

    message: SpaceMessage
    runs: Mapping[str, str]


class Spaces(Carried):
    """Spaces, their members and messages. Raises `NotFound` for unknown ids."""

    def __init__(
        self,
        services: Services,
        effect_commits: EffectCommits,
        entities: Entities,
        membership: Membership,
        speech: Speech,
    ) -> None:
        self._store = services.store
        self._effect_commits = effect_commits
        self._entities = entities
        self._membership = membership
        self._speech = speech
        self._history = History(services.store, entities)
        self._reactions = Reactions(services.store, effect_commits, services.clock)
        self._clock = services.clock
        self._new_id = services.new_id

    # ── spaces ──────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self,
        name: str | None = None,
        kind: SpaceKind = "private",
        description: str | None = None,
        metadata: JSONObject | None = None,
        id: str | None = None,
        members: Sequence[str] = (),
        delivery: DeliveryOrder = "all",
    ) -> Space:
        """Create a space with these members (ids of entities, names or ids of agents).

        A person's message is delivered to all agents at once, or with the `delivery` `sequential` one after another:
        each agent is woken after the previous one has finished, and reads its answer. A `dm` has two members. Raises
        `AlreadyExists` if the `id` is taken.
        """
        by_kind("members", members, (list, tuple), "a list of entities")
        now = self._clock.now()
        space = Space(
            id=self._new_id("spc") if id is None else id_of(id),
            kind=kind_of(kind),
            name=name_of("name", name),
            description=text_of("description", description),
            metadata=metadata_of(metadata),
            delivery=delivery_of(delivery),
            created_at=now,
            updated_at=now,
        )
        entities = {one.id: one for one in [await self._guest(each) for each in members]}
        if kind == "dm" and len(entities) > DM_MEMBERS:
            raise _full()
        effects: list[Effect] = [SaveSpace(space_id=space.id, space=space)]
        for revision, entity in enumerate(entities.values()):
            effects.append(self._joining(space, entity, "member", revision, after=now + revision * TICK))
        attempts = 0
        while isinstance(await self._effect_commits.commit(*effects), Conflict):
            attempts += 1
            await self._free_id(space.id, attempts)
        return changed(space, revision=len(effects) - 1)

    async def _free_id(self, space_id: str, attempts: int) -> None:
        """Delete the remaining rows of a deleted space with the id. Raises `AlreadyExists` if a space has it now."""
        if await exists(self._store.spaces.space(space_id)):
            raise AlreadyExists(f"The space {space_id!r} already exists.")
        if await sweep_rows(self._store, self._clock, self._new_id):
            return
        if attempts > MAX_ATTEMPTS:
            raise StoreError(f"The rows of the deleted space {space_id!r} are still being deleted.")
        await asyncio.sleep(SWEPT_ELSEWHERE)  # real time, independent of a test's clock

    async def get(self, space_id: str, *, seen_by: str | None = None) -> Space:
        """Return the space. Raises `NotFound` also if the entity `seen_by` may not read and write there."""
        by_id("space", space_id)
        read, membership = self._store.spaces.space, self._membership
        space = await (read(space_id) if seen_by is None else membership.open_to(space_id, seen_by))
        if space is None:
            raise NotFound(f"There is no space {space_id!r}.")
        return space

    async def _require_existing(self, space_id: str) -> None:
        """Raise `NotFound` if the space does not exist. The contents of a space with a broken row are readable."""
        if not await exists(self._store.spaces.space(by_id("space", space_id))):
            raise NotFound(f"There is no space {space_id!r}.")

    async def list(self, limit: int = 50, offset: int = 0, *, seen_by: str | None = None) -> Sequence[Space]:
        """Return spaces, the oldest first, optionally only those that the entity `seen_by` may see."""
        page(limit, offset)
        return await self._store.spaces.spaces(seen_by=seen_by, limit=limit, offset=offset)

    async def update(self, space_id: str, **fields: Unpack[SpaceFields]) -> Space:
        """Change the given fields."""
        while True:  # retry if the space has changed since it was read: no field of another writer is lost
            was = await self.get(space_id)
            new = changed_space(was, fields, self._clock.now())
            if not isinstance(
                await self._effect_commits.commit(SaveSpace(space_id=was.id, space=new, was=was)), Conflict
            ):
                return new

    async def delete(self, space_id: str) -> None:
        """Delete a space with all its messages."""
        effect = DropSpace(space_id=space_id, events=(space_event("space.deleted", spaceId=space_id),))
        if isinstance(await self._effect_commits.commit(effect), Conflict):
            raise NotFound(f"There is no space {space_id!r}.")
        await sweep_after(f"The space {space_id!r}", self._store, self._clock, self._new_id)

    # ── members ─────────────────────────────────────────────────────────────────────────────────────────────

    async def members(self, space_id: str) -> Sequence[Member]:
        """Return the members of the space, in the order in which they joined."""
        await self._require_existing(space_id)
        return await self._store.spaces.members(space_id)

    async def memberships(self, entity_id: str) -> Sequence[Member]:
        """Return the memberships of an entity."""
        return await self._store.spaces.memberships(entity_id)

    async def share_a_space(self, entity_id: str, other_id: str) -> bool:
        """Return whether both entities are members of one space that is not public."""
        return await self._membership.share_a_space(entity_id, other_id)

    async def is_member(self, space_id: str, entity_id: str) -> bool:
        """Return whether the entity is a member of the space."""
        return await self._store.spaces.member(space_id, entity_id) is not None

    async def add_member(self, space_id: str, entity: str, role: str = "member") -> Member:
        """Add an entity (its id, or an agent's name or id) to the space, or change its role.

        Raises `AlreadyExists` for a third member of a `dm`, `TenvsRequired` for an agent that cannot have a home
        thread.
        """
        role = role_of(role)
        guest = await self._guest(entity)
        while True:  # retry if the membership has changed since the members were counted
            space, members = await self.get(space_id), await self._store.spaces.members(space_id)
            existing = next((one for one in members if one.entity_id == guest.id), None)
            if space.kind == "dm" and existing is None and len(members) >= DM_MEMBERS:
                raise _full()
            if existing is not None and existing.role == role:
                return existing
            last = max([each.joined_at for each in members], default=space.created_at)
            effect = self._joining(space, guest, role, space.revision, after=last + TICK)
            if not isinstance(await self._effect_commits.commit(effect), Conflict):
                return effect.member if existing is None else changed(existing, role=role)

    async def change_member(self, space_id: str, entity_id: str, role: str) -> Member:
        """Change a member's role."""
        await self.member(space_id, entity_id)
        return await self.add_member(space_id, entity_id, role)

    async def member(self, space_id: str, entity_id: str) -> Member:
        """Return a member of the space. An agent can also be given by its name or id."""
        await self.get(space_id)
        row = await self._store.spaces.member(space_id, by_id("member", entity_id))
        if row is None:
            entity = await self._entities.find(entity_id)  # an agent's name or id
            row = await self._store.spaces.member(space_id, entity.id)
        if row is None:
            raise NotFound(f"The entity {entity_id!r} is not in this space.")
        return row

    async def remove_member(self, space_id: str, entity_id: str) -> None:
        """Remove a member."""
        member_id = (await self.member(space_id, entity_id)).entity_id
        events = (member_removed_event(member_id),)
        await self._effect_commits.commit(DropMember(space_id=space_id, entity_id=member_id, events=events))

    async def mark_read(self, space_id: str, entity_id: str, seq: int) -> Member:
        """Mark messages as read up to a position, which never decreases and never exceeds the last message."""
        whole_number("seq", seq)
        space = await self.get(space_id)
        await self.member(space_id, entity_id)
        await self._effect_commits.commit(
            MarkRead(space_id=space_id, entity_id=entity_id, seq=min(seq, space.seq))
        )
        return await self.member(space_id, entity_id)

    async def _guest(self, entity: str) -> Entity:
        """Return the entity to be added. Raises `TenvsRequired` if it cannot be in a space."""
        guest = await self._entities.find(entity)
        await self._membership.admit(guest)
        return guest

    def _joining(
        self, space: Space, entity: Entity, role: str, revision: int, *, after: datetime
    ) -> SaveMember:
        at = max(self._clock.now(), after)  # so that the members are ordered by when they joined
        member = Member(space_id=space.id, entity_id=entity.id, type=entity.type, role=role, joined_at=at)
        events = (member_added_event(entity.id, role),)
        return SaveMember(space_id=space.id, member=member, revision=revision, events=events)

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────

    async def say(
        self,
        space_id: str,
        entity: str,
        content: str,
        metadata: JSONObject | None = None,
        parent_id: str | None = None,
    ) -> PostedMessage:
        """Post an entity's message in a space and wake every other agent in it.

        Raises `NotFound` for a space that the entity is not in. In a public space it becomes a member by posting.
        """
        author = await self._entities.find(entity)
        message = SpaceMessage(
            id=self._new_id("msg"),
            space_id=by_id("space", space_id),
            entity_id=author.id,
            role="assistant" if author.type == "agent" else "user",
            content=message_content(content),
            metadata=own_metadata(metadata),
            parent_id=parent_id,
            created_at=self._clock.now(),
        )
        await self._speech.check_parent(message)
        while True:
            post = await self._speech.posting(message, author, depth=None)
            answer = await self._effect_commits.commit(post)
            if isinstance(answer, Committed):
                runs = dict(answer.runs)
                seen = [each.thread for each in post.deliveries if each.thread.id in runs]
                by_agent = {each.agent: runs[each.id] for each in seen}
                return PostedMessage(message=changed(post.message, seq=answer.seq), runs=by_agent)

    async def messages(
        self, space_id: str, limit: int = 50, after: int | None = None, before: int | None = None
    ) -> Sequence[MessageView]:
        """Return messages in order: the first after position `after`, the last before `before`, or the last of all."""
        await self._require_existing(space_id)
        return await self._history.messages(space_id, limit, after, before)

    async def history(self, space_id: str, limit: int, offset: int = 0) -> Sequence[MessageView]:
        """Return a page of messages in order, ending `offset` messages before the newest."""
        await self.get(space_id)
        return await self._history.newest(space_id, limit, offset)

    async def entity(self, entity_id: str) -> Entity | None:
        """Return the entity with that id, or None if it does not exist."""
        return await self._entities.get_or_none(by_id("entity", entity_id))

    async def shown(self, messages: Sequence[SpaceMessage]) -> Sequence[MessageView]:
        """Return messages with their authors and reactions."""
        return await self._history.shown(messages)

    async def message(self, message_id: str) -> SpaceMessage:
        """Return the message."""
        return await self._history.message(message_id)

    async def edit(self, message_id: str, content: str) -> MessageView:
        """Change the text of a message. A message that shows a call cannot be edited."""
        was = await self.message(message_id)
        if was.shows_call:
            raise InvalidRequest("This message shows a tool call and cannot be edited.")
        new = changed(was, content=message_content(content), edited_at=self._clock.now())
        [message] = await self.shown([new])
        event = edited_event(new, message.author, message.reactions)
        await self._change(message_id, Edit(space_id=was.space_id, message=new, events=(event,)))
        return message

    async def erase(self, message_id: str) -> None:
        """Delete a message; its position stays empty."""
        was = await self.message(message_id)
        event = space_event("message_deleted", messageId=message_id)
        await self._change(message_id, Erase(space_id=was.space_id, message_id=message_id, events=(event,)))

    async def react(self, message_id: str, entity_id: str, emoji: str) -> Reaction:
        """Add a reaction to a message, at most one per entity and emoji."""
        return await self._reactions.add(await self.message(message_id), entity_id, emoji)

    async def unreact(self, message_id: str, entity_id: str, emoji: str) -> Reaction:
        """Remove a reaction. Raises `NotFound` if it does not exist."""
        return await self._reactions.take_back(await self.message(message_id), entity_id, emoji)

    async def caused(self, run_id: str, entity_id: str) -> bool:
        """Return whether the run reads a message of that entity."""
        return await self._store.spaces.caused(run_id, entity_id)

    async def _change(self, message_id: str, effect: Effect) -> None:
        if isinstance(await self._effect_commits.commit(effect), Conflict):
            raise NotFound(f"There is no message {message_id!r}.")


def _full() -> ToolwrightError:
    return AlreadyExists(f"A dm has exactly {DM_MEMBERS} members. Create another space for more.")
