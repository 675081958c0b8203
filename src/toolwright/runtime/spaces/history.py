"""What was said in spaces, as people see it."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolwright.core.broken_rows import Rows, broken_of
from toolwright.core.errors import NotFound
from toolwright.core.journal.store import Store
from toolwright.core.spaces.entity import Entity
from toolwright.core.spaces.space import Reaction, SpaceMessage
from toolwright.runtime.checks import by_id, page, whole
from toolwright.runtime.spaces.entities import Entities

LONGEST_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message as people see it: with its author and the reactions to it."""

    message: SpaceMessage
    author: Entity | None
    reactions: Sequence[Reaction] = ()


class History:
    """Reads messages. Those of a space that is not there are none."""

    def __init__(self, store: Store, entities: Entities) -> None:
        self._store = store
        self._entities = entities

    async def messages(
        self, space_id: str, limit: int, after: int | None, before: int | None
    ) -> Sequence[Shown]:
        """Messages in order: the first behind the place `after`, else the last before `before`, or of all."""
        page(limit)
        for name, given in (("after", after), ("before", before)):
            whole(name, 0 if given is None else given)
        limit = min(limit, LONGEST_PAGE)
        found = await self._store.spaces.messages(space_id, after=after, before=before, limit=limit)
        return await self.shown(found)

    async def newest(self, space_id: str, limit: int, offset: int = 0) -> Sequence[Shown]:
        """A page of what was said, in order, which ends `offset` messages before the newest."""
        page(limit, offset)
        return await self.shown(await self._store.spaces.newest(space_id, limit, offset))

    async def message(self, message_id: str) -> SpaceMessage:
        """The message, else `NotFound`."""
        found = await self._store.spaces.message(by_id("message", message_id))
        if found is None:
            raise NotFound(f"There is no message {message_id!r}.")
        return found

    async def shown(self, messages: Sequence[SpaceMessage]) -> Sequence[Shown]:
        """Messages with their authors and reactions."""
        reactions = await self._store.spaces.reactions([message.id for message in messages])
        authors = {one: await self._entities.shown(one) for one in {each.entity_id for each in messages}}
        shown = [
            Shown(
                message=message,
                author=authors[message.entity_id],
                reactions=[each for each in reactions if each.message_id == message.id],
            )
            for message in messages
        ]
        return Rows(shown, [*broken_of(messages), *broken_of(reactions)])
