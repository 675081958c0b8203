"""Inboxes of agents: what waits, what is being read, what has failed and may be tried again."""

from collections.abc import Sequence

from toolwright.core.errors import InvalidRequest, NotFailed, NotFound, StoreError, ThreadTerminated
from toolwright.core.journal.effects import Deliver
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict, RetryEvent
from toolwright.core.json_value import JSON
from toolwright.core.plain import NOT_ONE_LINE, one_line, plain
from toolwright.core.ports import Clock, Motor, NewId
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.tools.tenvs_needed import tenvs_lacking
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.deliveries import Deliveries
from toolwright.runtime.checks import by_id, by_kind, by_text, page
from toolwright.runtime.journal import EffectCommits

LONGEST_NAME = 200  # characters


class Inboxes:
    """The inbox of an agent is that of its home thread; those of its other threads are read by naming the thread."""

    def __init__(
        self,
        store: Store,
        agents: Agents,
        deliveries: Deliveries,
        effect_commits: EffectCommits,
        motor: Motor,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._store = store
        self._agents = agents
        self._deliveries = deliveries
        self._effect_commits = effect_commits
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

    async def trigger(self, agent: str, service_name: str, payload: JSON = None) -> InboxEvent:
        """Wake an agent in a service's name: it reads `[Service: NAME] {payload}` in its home thread.

        Every call is an event of its own. Raises `NotFound` for an agent that is not there, `TenvsLacking` for one that
        cannot have a home thread, `ThreadTerminated` for one that has ended its home thread permanently.
        """
        _check_service(service_name)
        receiver = await self._agents.get(agent)
        lacking = await self._agents.missing_home_tenvs(receiver.id)
        if lacking:
            raise tenvs_lacking(f"The agent {receiver.name!r} cannot have a home thread", lacking)
        content = {"serviceName": service_name, "payload": plain(payload)}
        delivery = self._deliveries.delivery(receiver.id, "service", self._new_id("svc"), content)
        answer = await self._effect_commits.commit(Deliver(delivery=delivery))
        if isinstance(answer, Conflict):
            raise StoreError(f"The agent {agent!r} could not be triggered ({answer.guard}).")
        if not answer.runs:
            raise ThreadTerminated(
                f"The home thread of the agent {agent!r} is terminated: nobody answers in it any more."
            )
        return delivery.event

    async def retry(self, agent: str, event_id: str, thread_id: str | None = None) -> InboxEvent:
        """Try a parked event again, as if it were new.

        Raises `NotFound` for an event or a thread that is not the agent's, `NotFailed` for an event that is not parked,
        `ThreadTerminated` where nobody answers any more.
        """
        by_id("event", event_id)
        place = await self._thread(agent, thread_id)
        thread = await self._store.thread(place)
        if thread is not None and thread.is_over:
            raise ThreadTerminated(f"The thread {place!r} is terminated: nobody answers in it any more.")
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


def _check_service(name: str) -> None:
    by_kind("serviceName", name, str, "text")
    by_text("serviceName", name)
    fault = None if one_line(name) else NOT_ONE_LINE
    if not name.strip() or len(name) > LONGEST_NAME:
        fault = f"must be a name of 1 to {LONGEST_NAME} characters"
    if fault is not None:
        raise InvalidRequest(f"serviceName {fault}.", [{"path": "serviceName", "message": fault}])
