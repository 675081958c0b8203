"""Parent threads as scopes of a thread's variables (D5)."""

from collections.abc import Sequence

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvRow
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.journal.store import Store
from toolwright.core.threads.thread import Thread
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.env.env import NO_NAMES, Environment, ParentScope, Resolve, ThreadEnv


class Lineages:
    """Builds the resolvers of threads' envs."""

    def __init__(self, store: Store, agents: Agents, environment: Environment) -> None:
        self._store = store
        self._agents = agents
        self._environment = environment

    async def resolver(self, thread: Thread) -> Resolve:
        """Return the resolver of the thread's env for an agent, given the rows of all scopes."""
        scopes = await self._above(thread) if thread.parent_id is not None else []
        _, hidden = await self._agent(thread.agent)

        def resolve(thread: Thread, active: ActiveAgent | None, rows: Sequence[EnvRow]) -> ThreadEnv:
            # names hidden by the previous agent stay hidden
            before = NO_NAMES if thread.active_agent is None else hidden
            return self._environment.for_agent(thread, active, rows, scopes, before)

        return resolve

    async def env(
        self, thread: Thread, active: ActiveAgent | None, rows: Sequence[EnvRow] | None = None
    ) -> ThreadEnv:
        """Return the current env of the thread; `rows` are its values, if they were read already."""
        resolve = await self.resolver(thread)
        return resolve(thread, active, await self._store.env(thread.id) if rows is None else rows)

    async def _above(self, thread: Thread) -> list[ParentScope]:
        """Return the parent threads, the nearest first."""
        return [await self._scope_of(each) for each in await self._store.children.lineage(thread.id)]

    async def _scope_of(self, thread: Thread) -> ParentScope:
        scoped, hidden = await self._agent(thread.answering)
        if thread.active_agent is not None:
            hidden |= (await self._agent(thread.agent))[1]
        private = frozenset(thread.link.hidden if thread.link is not None else ())
        return ParentScope(thread.id, scoped, hidden, private)

    async def _agent(self, agent_id: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names that the agent scopes, and the names that it hides."""
        try:
            agent = await self._agents.find(agent_id)
        except (InvalidRequest, DefinitionError):
            agent = None  # an agent that cannot run has no active prompt
        return (NO_NAMES, NO_NAMES) if agent is None else (agent.scoped, agent.hidden)
