"""Inboxes of agents: deliveries (D7, D15), rounds in a space, and listing, triggering and retrying events."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from toolwright.core import errors
from toolwright.core.agents.agent import agent_id_of, home_thread_id_of
from toolwright.core.broken_rows import exists
from toolwright.core.env.logs import logger
from toolwright.core.journal.effects import Deliver
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict, RetryEvent
from toolwright.core.json_value import JSON, NOT_ONE_LINE, JSONObject, one_line, plain
from toolwright.core.limits import MAX_NAME
from toolwright.core.ports import Clock, NewId
from toolwright.core.spaces import Entity, Member, Space, SpaceMessage
from toolwright.core.threads.inbox import Delivery, InboxEvent, InboxType
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tenvs_needed import missing_tenvs
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.carried import Carried
from toolwright.runtime.journal import EffectCommits, Services, by_id, by_kind, by_text, page
from toolwright.wire.event import run_event

MAX_CHAIN_DEPTH = 3

Audience: TypeAlias = Literal["members", "dm"]
"""The agents that a message wakes: all agent members but the author, or only the other member of a dm (D7)."""

NEXT = "next"
"""The field of a delivered message that lists the entities whose turns follow this agent's."""

log = logger("toolwright.runtime")


class Deliveries:
    """Builds deliveries for the inboxes of agents."""

    def __init__(
        self, store: Store, agents: Agents, clock: Clock, new_id: NewId, max_depth: int = MAX_CHAIN_DEPTH
    ) -> None:
        self._store = store
        self._agents = agents
        self._clock = clock
        self._new_id = new_id
        self._max_depth = max_depth

    def delivery(
        self,
        agent_id: str,
        type_: InboxType,
        event_id: str,
        content: JSONObject,
        *,
        depth: int = 0,
        author: str | None = None,
        thread: Thread | None = None,
    ) -> Delivery:
        """Return the delivery of an event to the agent's inbox, or to an existing thread.

        `depth` is the chain depth of a run that reads it.
        """
        now, home_id = self._clock.now(), home_thread_id_of(agent_id)
        to = Thread(id=home_id, agent=agent_id, created_at=now) if thread is None else thread
        run = Run(id=self._new_id("run"), thread_id=to.id, agent=to.agent, chain_depth=depth, created_at=now)
        return Delivery(
            thread=to,
            existing=thread is not None,
            event=InboxEvent(
                thread_id=to.id,
                event_id=event_id,
                type=type_,
                content=content,
                author=author,
                depth=depth,
                created_at=now,
            ),
            run=run,
            queued=run_event(run),
        )

    async def of_message(
        self,
        message: SpaceMessage,
        space: Space,
        author: Entity,
        members: Sequence[Member],
        depth: int | None,
        audience: Audience = "members",
    ) -> tuple[Delivery, ...]:
        """Return deliveries to the other agents among the members, or only to the first if they take turns.

        `depth` is the depth of the run that speaks, or None for a person.
        """
        if (depth is not None and depth >= self._max_depth) or (audience == "dm" and space.kind != "dm"):
            return ()
        content: JSONObject = {
            "spaceId": space.id,
            "spaceName": space.name,
            "spaceKind": space.kind,
            "messageId": message.id,
            "entityId": author.id,
            "entityType": author.type,
            "displayName": author.display_name,
            "content": message.content,
            "parentMessageId": message.parent_id,
        }
        deeper = 0 if depth is None else depth + 1
        listeners = [
            each.entity_id for each in members if each.type == "agent" and each.entity_id != author.id
        ]
        if depth is None and space.delivery == "sequential":
            first = await self.first_of(listeners, message.id, content, depth=deeper, author=author.id)
            return () if first is None else (first,)
        deliveries = [
            await self._message_to(each, message.id, content, depth=deeper, author=author.id)
            for each in listeners
        ]
        return tuple([each for each in deliveries if each is not None])

    async def first_of(
        self,
        listeners: Sequence[str],
        message_id: str,
        content: JSONObject,
        *,
        depth: int,
        author: str | None,
    ) -> Delivery | None:
        """Return the delivery to the first entity that can be woken. It lists the entities that follow.

        It is required: if that agent ends its home thread at the same time, the unit is rebuilt for another agent.
        """
        for n, entity_id in enumerate(listeners, 1):
            remaining: JSONObject = {NEXT: [*listeners[n:]]} if listeners[n:] else {}
            try:
                if await self._is_over(entity_id):
                    continue
                delivery = await self._message_to(
                    entity_id, message_id, content | remaining, depth=depth, author=author
                )
            except errors.RowBroken as error:
                log.warning("The agent of the entity %s is skipped: %s", entity_id, error)
                continue
            if delivery is not None:
                return changed(delivery, required=True)
        return None

    async def _is_over(self, entity_id: str) -> bool:
        """Return whether the agent's home thread has ended permanently, so that deliveries are dropped."""
        home = await self._store.thread(home_thread_id_of(agent_id_of(entity_id)))
        return home is not None and home.is_over

    async def _message_to(
        self, entity_id: str, message_id: str, content: JSONObject, *, depth: int, author: str | None
    ) -> Delivery | None:
        agent_id = agent_id_of(entity_id)
        missing = await self._agents.missing_home_tenvs(agent_id)
        if missing:
            log.warning(
                "The agent %s is not woken, because it cannot have a home thread: %s.", agent_id, missing
            )
            return None
        if not await self._agents.exists(agent_id):
            return None
        return self.delivery(agent_id, "space_message", message_id, content, depth=depth, author=author)


class Rounds:
    """Builds the deliveries to the next agents, for the unit that finishes a run's inbox events."""

    def __init__(self, store: Store, deliveries: Deliveries) -> None:
        self._store = store
        self._deliveries = deliveries

    async def after(self, events: Iterable[InboxEvent]) -> list[Deliver]:
        """Return the next deliveries of the rounds of these events, which will not be read again.

        An entity whose row is broken is skipped.
        """
        return [turn for event in events if NEXT in event.content for turn in await self._next(event)]

    async def _next(self, event: InboxEvent) -> list[Deliver]:
        """Return the delivery to the next agent, or nothing if the message was deleted or no agent is left.

        Return nothing either if the next agent already has the message: the round has continued while this event was
        retried.
        """
        content, space_id = event.content, str(event.content.get("spaceId"))
        event_text = await self._content(event)
        if event_text is None:
            return []
        waiting = content[NEXT]
        assert isinstance(waiting, list), "a delivery lists the entities"
        fields = {name: value for name, value in content.items() if name != NEXT}
        delivery = await self._deliveries.first_of(
            await self._members_among(space_id, map(str, waiting)),
            event.event_id,
            fields | {"content": event_text},
            depth=event.depth,
            author=event.author,
        )
        if delivery is None or await exists(self._store.inbox_event(delivery.thread.id, event.event_id)):
            return []
        return [Deliver(delivery=delivery)]

    async def _members_among(self, space_id: str, entity_ids: Iterable[str]) -> list[str]:
        """Return the entities that are still members of the space, without those whose membership is a broken row."""
        members: list[str] = []
        for entity_id in entity_ids:
            try:
                if await self._store.spaces.member(space_id, entity_id) is not None:
                    members.append(entity_id)
            except errors.RowBroken as error:
                log.warning("The entity %s is skipped: %s", entity_id, error)
        return members

    async def _content(self, event: InboxEvent) -> str | None:
        """Return the current content of the message, the delivered one if its row is broken, None if it was deleted."""
        try:
            message = await self._store.spaces.message(event.event_id)
        except errors.RowBroken:
            return str(event.content.get("content"))
        if message is None or message.space_id != event.content.get("spaceId"):
            return None
        return message.content


class Inboxes(Carried):
    """Inboxes of agents: of the home thread by default, or of a named thread of the agent."""

    def __init__(
        self, services: Services, agents: Agents, deliveries: Deliveries, effect_commits: EffectCommits
    ) -> None:
        self._store = services.store
        self._agents = agents
        self._deliveries = deliveries
        self._effect_commits = effect_commits
        self._motor = services.motor
        self._clock = services.clock
        self._new_id = services.new_id

    async def list(
        self, agent: str, thread_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[InboxEvent]:
        """Return all events ever delivered to the agent, given by name or id, the oldest first.

        An agent without a home thread has none. Raises `NotFound` for a thread that is not the agent's.
        """
        page(limit, offset)
        return await self._store.inbox(await self._thread(agent, thread_id), limit, offset)

    async def trigger(self, agent: str, service_name: str, payload: JSON = None) -> InboxEvent:
        """Wake an agent in a service's name: it reads `[Service: NAME] {payload}` in its home thread.

        Every call creates a new event. Raises `NotFound` for an unknown agent, `TenvsRequired` for an agent that cannot
        have a home thread, `ThreadTerminated` for an agent that has ended its home thread permanently.
        """
        _check_service(service_name)
        receiver = await self._agents.get(agent)
        missing = await self._agents.missing_home_tenvs(receiver.id)
        if missing:
            raise missing_tenvs(f"The agent {receiver.name!r} cannot have a home thread", missing)
        content = {"serviceName": service_name, "payload": plain(payload)}
        delivery = self._deliveries.delivery(receiver.id, "service", self._new_id("svc"), content)
        answer = await self._effect_commits.commit(Deliver(delivery=delivery))
        if isinstance(answer, Conflict):
            raise errors.StoreError(f"The agent {agent!r} could not be triggered ({answer.guard}).")
        if not answer.runs:
            raise errors.ThreadTerminated(
                f"The home thread of the agent {agent!r} is terminated, so no agent answers in it."
            )
        return delivery.event

    async def retry(self, agent: str, event_id: str, thread_id: str | None = None) -> InboxEvent:
        """Retry a parked event, as if it were new.

        Raises `NotFound` for an event or a thread that is not the agent's, `NotFailed` for an event that is not parked,
        `ThreadTerminated` if no agent answers in the thread any more.
        """
        by_id("event", event_id)
        place = await self._thread(agent, thread_id)
        thread = await self._store.thread(place)
        if thread is not None and thread.is_over:
            raise errors.ThreadTerminated(f"The thread {place!r} is terminated, so no agent answers in it.")
        unit = RetryEvent(
            token=self._new_id("unit"), at=self._clock.now(), thread_id=place, event_id=event_id
        )
        conflict = isinstance(await self._store.commit(unit), Conflict)
        event = await self._store.inbox_event(place, event_id)
        if event is None:
            raise errors.NotFound(f"There is no event {event_id!r} in this inbox.")
        if conflict:
            raise errors.NotFailed(
                f"The event {event_id!r} is {event.status}. Only failed events can be retried."
            )
        self._motor.wake(place)
        return event

    async def _thread(self, name_or_id: str, thread_id: str | None) -> str:
        agent = await self._agents.get(name_or_id)
        if thread_id is None:
            return agent.home_thread_id
        thread = await self._store.thread(by_id("thread", thread_id))
        if thread is None or thread.agent != agent.id:
            raise errors.NotFound(f"The agent {agent.name!r} has no thread {thread_id!r}.")
        return thread_id


def _check_service(name: str) -> None:
    by_kind("serviceName", name, str, "text")
    by_text("serviceName", name)
    error = None if one_line(name) else NOT_ONE_LINE
    if not name.strip() or len(name) > MAX_NAME:
        error = f"must be a name of 1 to {MAX_NAME} characters"
    if error is not None:
        raise errors.InvalidRequest(f"serviceName {error}.", [{"path": "serviceName", "message": error}])
