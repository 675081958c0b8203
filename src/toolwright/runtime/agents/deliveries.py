"""Deliveries of a space's message: to the agents that it wakes, until the chain is too deep (D7, D15)."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from toolwright.core.agents.agent import agent_id_of, home_thread_id_of
from toolwright.core.env.logs import logger
from toolwright.core.errors import RowBroken
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSONObject
from toolwright.core.ports import Clock, NewId
from toolwright.core.spaces.space import Entity, Member, Space, SpaceMessage
from toolwright.core.threads.inbox import Delivery, InboxEvent, InboxType
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.wire.event import run_event

MAX_CHAIN_DEPTH = 3

Audience: TypeAlias = Literal["members", "dm"]
"""Whom a message wakes: every other agent that is a member, or the other one of a dm alone (D7)."""

NEXT = "next"
"""The field of a delivered message that names the entities whose turn comes after this agent's."""

log = logger("toolwright.runtime")


class Deliveries:
    """Makes deliveries for the inboxes of agents."""

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
        """An event for the agent's inbox, or for that thread, which is there. A run that reads it is as deep as `depth`
        says.
        """
        now, home = self._clock.now(), home_thread_id_of(agent_id)
        to = Thread(id=home, agent=agent_id, created_at=now) if thread is None else thread
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
        """For every other agent among the members, for the first of them alone if they are to have their turns.

        `depth` is that of the run that speaks, None for a person.
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
        made = [
            await self._message_to(each, message.id, content, depth=deeper, author=author.id)
            for each in listeners
        ]
        return tuple([each for each in made if each is not None])

    async def first_of(
        self,
        listeners: Sequence[str],
        message_id: str,
        content: JSONObject,
        *,
        depth: int,
        author: str | None,
    ) -> Delivery | None:
        """The message for the first of these entities that can be woken; its delivery names those behind it.

        It is required: if that agent ends its home thread at the same moment, the unit is made again, for another.
        """
        for n, entity_id in enumerate(listeners, 1):
            rest: JSONObject = {NEXT: [*listeners[n:]]} if listeners[n:] else {}
            try:
                if await self._is_over(entity_id):
                    continue
                delivery = await self._message_to(
                    entity_id, message_id, content | rest, depth=depth, author=author
                )
            except RowBroken as error:
                log.warning("The agent of the entity %s is passed over: %s", entity_id, error)
                continue
            if delivery is not None:
                return changed(delivery, required=True)
        return None

    async def _is_over(self, entity_id: str) -> bool:
        """Return whether the agent has ended its home thread permanently: what is delivered there is put nowhere."""
        home = await self._store.thread(home_thread_id_of(agent_id_of(entity_id)))
        return home is not None and home.is_over

    async def _message_to(
        self, entity_id: str, message_id: str, content: JSONObject, *, depth: int, author: str | None
    ) -> Delivery | None:
        agent_id = agent_id_of(entity_id)
        lacking = await self._agents.missing_home_tenvs(agent_id)
        if lacking:
            log.warning("The agent %s is not woken, it cannot have a home thread: %s.", agent_id, lacking)
            return None
        if not await self._agents.exists(agent_id):
            return None
        return self.delivery(agent_id, "space_message", message_id, content, depth=depth, author=author)
