"""Access to spaces, and the redaction of secrets in them (D6, D7)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from toolwright.core.agents.agent import Agent, Reach, agent_id_of, reach_of
from toolwright.core.broken_rows import all_rows
from toolwright.core.env.redact import NOTHING, Redactor
from toolwright.core.journal.effects import Edit, Effect, Post
from toolwright.core.journal.store import Store
from toolwright.core.spaces import Entity, Member, Space, open_to
from toolwright.core.tools.tenvs_needed import MissingTenvs, missing_tenvs
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.minds import person_of

MOST_SHARED = 1_000  # maximum number of shared spaces that are checked, the oldest first


@dataclass(frozen=True, slots=True)
class RedactableEffect:
    """An effect on that space, which `make` builds with the redactor applied."""

    space_id: str
    make: Callable[[Redactor], Post | Edit]


Intended: TypeAlias = Effect | RedactableEffect
"""An effect of a unit: final, or redacted when the unit is built."""


class Membership:
    """Decides access to spaces, and redacts posted content for the secrets of all agents in the space."""

    def __init__(self, store: Store, agents: Agents) -> None:
        self._store = store
        self._agents = agents
        self._redactor = lru_cache(maxsize=1_000)(Redactor)  # consecutive messages have the same agents

    async def reach(self, agent: Agent, user_id: str | None) -> Reach:
        """Return what the agent's home tools can access in a thread that belongs to that user, or to no one."""
        return reach_of(agent, None if user_id is None else await person_of(self._store, user_id))

    async def open_to(self, space_id: str, entity_id: str, person: str | None = None) -> Space | None:
        """Return the space if the entity, and the person it acts for, may read and write there. None otherwise."""
        if person is not None and await self.open_to(space_id, person) is None:
            return None
        space = await self._store.spaces.space(space_id)
        if space is None:
            return None
        member = await self._store.spaces.member(space_id, entity_id)
        return space if open_to(space, is_member=member is not None) else None

    async def share_a_space(self, entity_id: str, other_id: str) -> bool:
        """Return whether both entities are members of a space that is not public: anyone can join a public one."""
        shared = await self._store.spaces.spaces_of(entity_id, MOST_SHARED, other_id)
        return any(space.kind != "public" for space in shared)

    async def admit(self, entity: Entity) -> None:
        """Raise `TenvsRequired` if the entity is an agent without the tenvs of its home thread, where it reads (D4)."""
        agent = await self._agents.usable(agent_id_of(entity.id)) if entity.type == "agent" else None
        missing = MissingTenvs() if agent is None else agent.missing_home_tenvs
        if missing:
            raise missing_tenvs(f"The agent {entity.display_name!r} cannot be in a space", missing)

    async def redactor(self, space_id: str) -> Redactor:
        """Return the redactor for messages in the space."""
        return await self.redactor_of(all_rows(await self._store.spaces.members(space_id)))

    async def redactor_of(self, members: Sequence[Member]) -> Redactor:
        """Return a redactor for a space with these members: for the secrets of its agents and of the app."""
        secrets: set[tuple[str, str]] = set()
        for member in members:
            if member.type == "agent" and (agent := await self._agents.usable(agent_id_of(member.entity_id))):
                secrets |= agent.secrets
        return self._redactor(frozenset(secrets)) if secrets else NOTHING

    async def settled(self, intended: Sequence[Intended]) -> list[Effect]:
        """Return the effects, redacted for the members of their spaces."""
        spaces = {each.space_id for each in intended if isinstance(each, RedactableEffect)}
        redactors = {space_id: await self.redactor(space_id) for space_id in spaces}
        return [
            each.make(redactors[each.space_id]) if isinstance(each, RedactableEffect) else each
            for each in intended
        ]
