"""Inboxes of agents: what waits, what is being read, what has failed and may be tried again."""

from collections.abc import Sequence

from toolwright.core.errors import NotFailed, NotFound
from toolwright.core.inbox import InboxEvent
from toolwright.core.ports import Clock, Motor, NewId, Store
from toolwright.core.units import Conflict, RetryEvent
from toolwright.runtime.agents import Agents
from toolwright.runtime.asked import by_id, page


class Inboxes:
    """The inbox of an agent is that of its home thread; those of its other threads are read by naming the thread."""

    def __init__(self, store: Store, agents: Agents, motor: Motor, clock: Clock, new_id: NewId) -> None:
        self._store = store
        self._agents = agents
        self._motor = motor
        self._clock = clock
        self._new_id = new_id

    async def list(
        self, agent: str, thread_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[InboxEvent]:
        """All events that ever came to the agent, named by name or id, the oldest first.

        There are none as long as it has no home thread. Raises `NotFound` for a thread that is not the agent's.
        """
        page(limit, offset)
        return await self._store.inbox(await self._thread(agent, thread_id), limit, offset)

    async def retry(self, agent: str, event_id: str, thread_id: str | None = None) -> InboxEvent:
        """Try a parked event again, as if it were new.

        Raises `NotFound` for an event or a thread that is not the agent's, `NotFailed` for an event that is not parked.
        """
        by_id("event", event_id)
        place = await self._thread(agent, thread_id)
        unit = RetryEvent(
            token=self._new_id("unit"), at=self._clock.now(), thread_id=place, event_id=event_id
        )
        conflict = isinstance(await self._store.commit(unit), Conflict)
        event = await self._store.inbox_event(place, event_id)
        if event is None:
            raise NotFound(f"There is no event {event_id!r} in this inbox.")
        if conflict:
            raise NotFailed(f"The event {event_id!r} is {event.status}: only a failed one is tried again.")
        self._motor.wake(place)
        return event

    async def _thread(self, name_or_id: str, thread_id: str | None) -> str:
        agent = await self._agents.get(name_or_id)
        if thread_id is None:
            return agent.home_thread_id
        thread = await self._store.thread(by_id("thread", thread_id))
        if thread is None or thread.agent != agent.id:
            raise NotFound(f"The agent {agent.name!r} has no thread {thread_id!r}.")
        return thread_id
