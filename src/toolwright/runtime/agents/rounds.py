"""The rounds of a space with sequential delivery: a message goes on to the next agent when one is done with it."""

from collections.abc import Iterable

from toolwright.core.broken_rows import all_of
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
        """The next turns of the rounds that these events are part of, which nobody will read any more."""
        return [turn for event in events if NEXT in event.content for turn in await self._next(event)]

    async def _next(self, event: InboxEvent) -> list[Deliver]:
        """The message for the next agent, as it reads now; nothing once it is deleted, or nobody is left.

        Nor is there anything if that agent has it: the round has gone on without this one, which was tried again.
        """
        content = event.content
        message = await self._store.spaces.message(str(content.get("messageId")))
        if message is None or message.space_id != content.get("spaceId"):
            return []
        members = {each.entity_id for each in all_of(await self._store.spaces.members(message.space_id))}
        waiting = content[NEXT]
        assert isinstance(waiting, list), "a delivery lists the entities"
        rest = {name: value for name, value in content.items() if name != NEXT}
        delivery = await self._deliveries.first_of(
            [each for each in map(str, waiting) if each in members],
            message.id,
            rest | {"content": message.content},
            depth=event.depth,
            author=event.author,
        )
        if delivery is None or await self._store.inbox_event(delivery.thread.id, event.event_id) is not None:
            return []
        return [Deliver(delivery=delivery)]
