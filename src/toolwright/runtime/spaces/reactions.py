"""Reactions to messages in spaces."""

from toolwright.core.broken_rows import all_of
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.effects import React, Unreact
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict
from toolwright.core.ports import Clock
from toolwright.core.spaces.space import Reaction, SpaceMessage
from toolwright.runtime.journal import Acts
from toolwright.runtime.spaces.fields import emoji_of
from toolwright.wire.space import space_event


class Reactions:
    """Adds them and takes them back, in front of the space."""

    def __init__(self, store: Store, acts: Acts, clock: Clock) -> None:
        self._store = store
        self._acts = acts
        self._clock = clock

    async def add(self, message: SpaceMessage, entity_id: str, emoji: str) -> Reaction:
        """React to a message; once with the same emoji."""
        reaction = Reaction(
            message_id=message.id,
            entity_id=entity_id,
            emoji=emoji_of(emoji),
            created_at=self._clock.now(),
        )
        if message.shows_call:
            raise InvalidRequest("This message shows a tool call: it cannot be reacted to.")
        said = space_event("reaction_added", messageId=message.id, entityId=entity_id, emoji=emoji)
        effect = React(space_id=message.space_id, reaction=reaction, events=(said,))
        if isinstance(await self._acts.commit(effect), Conflict):
            raise NotFound(f"There is no message {message.id!r}.")
        return reaction

    async def take_back(self, message: SpaceMessage, entity_id: str, emoji: str) -> Reaction:
        """Take a reaction back; `NotFound` if there is none."""
        given = all_of(await self._store.spaces.reactions([message.id]))
        here = [one for one in given if one.emoji == emoji]
        mine = next((one for one in here if one.entity_id == entity_id), None)
        if mine is None:
            raise NotFound(f"There is no reaction {emoji!r} of this entity to the message.")
        said = space_event("reaction_removed", messageId=message.id, entityId=entity_id, emoji=emoji)
        gone = Unreact(
            space_id=message.space_id,
            message_id=message.id,
            entity_id=entity_id,
            emoji=emoji,
            events=(said,),
        )
        await self._acts.commit(gone)
        return mine
