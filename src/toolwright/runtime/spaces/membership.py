"""Access to spaces (D7)."""

from toolwright.core.agents.agent import Agent, Reach, agent_id_of, reach_of
from toolwright.core.errors import NotFound
from toolwright.core.journal.store import Store
from toolwright.core.spaces import Entity, Member, Space, open_to
from toolwright.core.tools.tenvs_needed import MissingTenvs, missing_tenvs
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.minds import person_of

MAX_MEMBERS = 500  # maximum number of members whose names are read
MAX_SHARED = 1_000  # maximum number of shared spaces that are checked, the oldest first


class Membership:
    """Decides access to spaces."""

    def __init__(self, store: Store, agents: Agents) -> None:
        self._store = store
        self._agents = agents

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

    async def company(self, entity_id: str) -> dict[str, list[tuple[Member, str]]]:
        """Return the members of the entity's spaces with their names, by the id of the space."""
        by_space: dict[str, list[tuple[Member, str]]] = {}
        for member, name in await self._store.spaces.company(entity_id, MAX_MEMBERS):
            label = name if member.type == "human" else await self.agent_name(member.entity_id)
            by_space.setdefault(member.space_id, []).append((member, label or member.entity_id))
        return by_space

    async def agent_name(self, entity_id: str) -> str | None:
        """Return the name of the agent with that entity, or None if it does not exist."""
        try:
            return (await self._agents.get(agent_id_of(entity_id))).name
        except NotFound:
            return None

    async def share_a_space(self, entity_id: str, other_id: str) -> bool:
        """Return whether both entities are members of a space that is not public: anyone can join a public one."""
        shared = await self._store.spaces.spaces_of(entity_id, MAX_SHARED, other_id)
        return any(space.kind != "public" for space in shared)

    async def admit(self, entity: Entity) -> None:
        """Raise `TenvsRequired` if the entity is an agent without the tenvs of its home thread, where it reads (D4)."""
        agent = await self._agents.usable(agent_id_of(entity.id)) if entity.type == "agent" else None
        missing = MissingTenvs() if agent is None else agent.missing_home_tenvs
        if missing:
            raise missing_tenvs(f"The agent {entity.display_name!r} cannot be in a space", missing)
