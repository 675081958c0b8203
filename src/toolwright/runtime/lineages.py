"""The threads above a thread, as far as its values come from there (D5)."""

from collections.abc import Sequence

from toolwright.core.active import ActiveAgent
from toolwright.core.env import EnvRow
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.ports import Store
from toolwright.core.thread import Thread
from toolwright.runtime.agents import Agents
from toolwright.runtime.env import Environment, ThreadEnv
from toolwright.runtime.hold import Resolve


class Lineages:
    """Makes what resolves the values of threads."""

    def __init__(self, store: Store, agents: Agents, environment: Environment) -> None:
        self._store = store
        self._agents = agents
        self._environment = environment

    async def resolver(self, thread: Thread) -> Resolve:
        """What says which values hold in the thread for an agent, given the rows of all who have a say."""
        above = await self._above(thread) if thread.parent_id is not None else []

        def resolve(here: Thread, voice: ActiveAgent | None, rows: Sequence[EnvRow]) -> ThreadEnv:
            return self._environment.of(here, voice, rows, above)

        return resolve

    async def env(self, thread: Thread, voice: ActiveAgent | None) -> ThreadEnv:
        """What holds in the thread now."""
        resolve = await self.resolver(thread)
        return resolve(thread, voice, await self._store.env(thread.id))

    async def _above(self, thread: Thread) -> list[tuple[str, frozenset[str]]]:
        """The threads above it, the nearest first, with the names that are scoped there."""
        lineage = await self._store.children.lineage(thread.id)
        return [(each.id, await self._scoped(each.answering)) for each in lineage]

    async def _scoped(self, agent_id: str) -> frozenset[str]:
        try:
            agent = await self._agents.find(agent_id)
        except (InvalidRequest, DefinitionError):
            return frozenset()  # an agent that cannot run has no active prompt
        return frozenset() if agent is None else agent.scoped
