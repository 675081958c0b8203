"""The rounds of a space with sequential delivery: a message goes on to the next agent when one is done with it."""

from collections.abc import Iterable

from toolwright.core.broken_rows import is_there
from toolwright.core.errors import RowBroken
from toolwright.core.journal.effects import Deliver
from toolwright.core.journal.store import Store
from toolwright.core.threads.inbox import InboxEvent
from toolwright.runtime.agents.deliveries import NEXT, Deliveries


class Rounds:
    """Makes the deliveries that are part of the unit in which a run is done with what it has read."""

    def __init__(self, store: Store, deliveries: Deliveries) -> None:
        self._store = store
        self._deliveries = deliveries

    async def after(self, events: Iterable[InboxEvent]) -> list[Deliver]:
        """The next turns of the rounds that these events are part of, which nobody will read any more.

        A broken row of the journal holds no round up: whom it stands for is passed over.
        """
        return [turn for event in events if NEXT in event.content for turn in await self._next(event)]

    async def _next(self, event: InboxEvent) -> list[Deliver]:
        """The message for the next agent, as it reads now; nothing once it is deleted, or nobody is left.

        Nor is there anything if that agent has it: the round has gone on without this one, which was tried again.
        """
        content, space_id = event.content, str(event.content.get("spaceId"))
        words = await self._words(event)
        if words is None:
            return []
        members = {each.entity_id for each in await self._store.spaces.members(space_id)}
        waiting = content[NEXT]
        assert isinstance(waiting, list), "a delivery lists the entities"
        rest = {name: value for name, value in content.items() if name != NEXT}
        delivery = await self._deliveries.first_of(
            [each for each in map(str, waiting) if each in members],
            event.event_id,
            rest | {"content": words},
            depth=event.depth,
            author=event.author,
        )
        if delivery is None or await is_there(self._store.inbox_event(delivery.thread.id, event.event_id)):
            return []
        return [Deliver(delivery=delivery)]

    async def _words(self, event: InboxEvent) -> str | None:
        """What the message says now, or what was heard of it if its row is broken; None once it is deleted."""
        try:
            message = await self._store.spaces.message(event.event_id)
        except RowBroken:
            return str(event.content.get("content"))
        if message is None or message.space_id != event.content.get("spaceId"):
            return None
        return message.content
