"""Owner ids: the keys under which an agent's own data, and its data for each person, are stored."""

from collections.abc import Sequence

from toolwright.core.agents.agent import keeper_of, user_of_keeper
from toolwright.core.checks import invalid_value
from toolwright.core.journal.store import Store
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.checks import by_kind, can_be_id


async def person_of(store: Store, user_id: str) -> str:
    """Return the id of the person to whom a thread with that user belongs.

    This is the entity with that id or external id, or the user id itself if there is none.
    """
    if not can_be_id(user_id):
        return user_id
    entity = await store.entity(user_id) or await store.entity_by_external_id(user_id)
    return user_id if entity is None else entity.id


class Keepers:
    """Finds owner ids by the name or id of an agent, and by user. Raises `NotFound` for an unknown agent."""

    def __init__(self, store: Store, agents: Agents) -> None:
        self._store = store
        self._agents = agents

    async def keeper_id(self, agent: str, user_id: str | None = None) -> str:
        """Return the owner id of the agent's own data, or of its data for that user."""
        agent_id = (await self._agents.get(agent)).id
        if user_id is None:
            return agent_id
        by_kind("userId", user_id, str, "text")
        if not user_id:
            raise invalid_value("userId", "must not be empty; omit it for the agent's own")
        return keeper_of(agent_id, await person_of(self._store, user_id))

    async def people(self, agent: str) -> Sequence[str]:
        """Return the ids of the people for whom the agent stores data, up to 1,000."""
        keeper_ids = await self._store.agents.keepers_in_use((await self._agents.get(agent)).id)
        return [user_id for each in keeper_ids if (user_id := user_of_keeper(each)) is not None]
