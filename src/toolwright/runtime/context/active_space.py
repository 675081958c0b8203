"""Active space of a run: the space that its agent has entered, or the space of the message that it reads."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import Agent, Reach, home_thread_id_of
from toolwright.core.journal.space_effects import Enter
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSONObject
from toolwright.core.spaces import Entity
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.thread import Thread
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.prompts import SpacePlace
from toolwright.runtime.spaces.membership import Membership

T = TypeVar("T")


class RetryUntilAvailable(Protocol):
    """Reads the journal, repeatedly while it is unavailable."""

    def __call__(self, work: Callable[[], Awaitable[T]]) -> Awaitable[T]: ...


class ActiveSpace:
    """Tracks the spaces in which the run's activity is visible. `reading` are the events that the run reads, by id.

    `enters` is whether the agent enters spaces; if False, it is shown as active where it was addressed. None means that
    the agent does not exist.
    """

    def __init__(
        self,
        thread: Thread,
        reading: Mapping[str, InboxEvent],
        membership: Membership,
        store: Store,
        retry_until_available: RetryUntilAvailable,
        enters: bool | None,
    ) -> None:
        self._thread_id = thread.id
        self._user_id = thread.user_id
        self._reaches: dict[str, Reach] = {}
        self._reading = reading
        self._membership = membership
        self._store = store
        self._retry = retry_until_available
        self._enters = enters
        self._gone: set[str] = set()
        self._at_home = enters is True and thread.id == home_thread_id_of(thread.agent)
        self.space_id = thread.space_id

    @property
    def trigger(self) -> JSONObject | None:
        """The space message that the run reads, the newest if there are several."""
        return _newest_message(self._reading.values())

    @property
    def places(self) -> list[SpacePlace]:
        """The places where the agent was addressed in the events that the run reads, each once, the newest last."""
        contents = [event.content for event in self._reading.values() if event.type == "space_message"]
        named = [(each.get("spaceId"), each.get("parentMessageId")) for each in contents]
        return [
            SpacePlace(space_id=space_id, parent_id=parent_id if isinstance(parent_id, str) else None)
            for space_id, parent_id in reversed(dict.fromkeys(reversed(named)))
            if isinstance(space_id, str) and space_id not in self._gone
        ]

    @property
    def trigger_space_id(self) -> str | None:
        """The space of the trigger, or None if the space was deleted."""
        space_id = _space_of(self.trigger)
        return None if space_id in self._gone else space_id

    def space_after(self, changes: Changes) -> str | None:
        """Return the space that the agent is in after the changes are committed."""
        if not changes.effects:
            return self.space_id
        entered = [effect for effect in changes.effects if isinstance(effect, Enter)]
        return entered[-1].space_id if entered else self.space_id

    def visible_space_after(self, changes: Changes, at_home: bool | None = None) -> str | None:
        """Return the space in which a call that starts after these changes is shown.

        In the home thread of an agent that enters spaces, this is the entered space only. `at_home` is whether the
        thread is that home thread; pass it if the tools of the step define it.
        """
        space_id = self.space_after(changes)
        at_home = self._at_home if at_home is None else at_home
        return self.trigger_space_id if space_id is None and not at_home else space_id

    def busy_space_after(self, changes: Changes) -> str | None:
        """Return the space in which the agent is shown as active after the changes are committed."""
        return (
            self.space_after(changes) if self._enters else self.trigger_space_id or self.space_after(changes)
        )

    async def enter_for(self, waiting: Iterable[InboxEvent], author: Entity | None) -> str | None:
        """Return the space in which the agent is shown as active when the run starts to read these events."""
        space_id = _space_of(_newest_message(waiting))
        if self._enters is not False or author is None or space_id is None:
            return self.space_id
        if await self._retry(lambda: self._membership.open_to(space_id, author.id)) is None:
            self._gone.add(space_id)
            return None
        return space_id

    async def reload(self) -> None:
        """Re-read the space; the agent leaves a deleted one."""
        for space_id in [one for one in (self.space_id, self.trigger_space_id) if one is not None]:
            if await self._retry(lambda one=space_id: self._store.spaces.space(one)) is None:
                self._gone.add(space_id)
        if self.space_id in self._gone:
            self.space_id = None

    async def reach(self, agent: Agent) -> Reach:
        """Return what the agent's home tools reach in this thread."""
        known = self._reaches.get(agent.id)
        if known is None:
            known = await self._retry(lambda: self._membership.reach(agent, self._user_id))
            self._reaches[agent.id] = known
        return known

    async def check(self, changes: Changes, active: ActiveAgent | None) -> None:
        """Remove the agent from a space that it (D10) or its user (D27) may no longer access."""
        space_id = self.space_id
        if space_id is None or active is None:
            return
        me, person = active.agent.entity_id, (await self.reach(active.agent)).person
        if await self._retry(lambda: self._membership.open_to(space_id, me, person)) is None:
            self.space_id = None
            changes.effects += (Enter(thread_id=self._thread_id, space_id=None),)


def _newest_message(events: Iterable[InboxEvent]) -> JSONObject | None:
    messages = [event.content for event in events if event.type == "space_message"]
    return messages[-1] if messages else None


def _space_of(message: JSONObject | None) -> str | None:
    space_id = None if message is None else message.get("spaceId")
    return space_id if isinstance(space_id, str) else None
