"""Preview of an agent's system prompt: its text and its parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.errors import NotFound
from toolwright.core.journal.store import Store
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.checks import by_id
from toolwright.runtime.mcp.offer import McpOffers, env_of_agent
from toolwright.runtime.prompts.channel_history import Place
from toolwright.runtime.prompts.system_prompt import Section, SystemPrompts, prompt, sections
from toolwright.runtime.spaces.membership import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPreview:
    """A system text and its parts, in their order."""

    prompt: str
    sections: Sequence[Section]


class Prompts:
    """Builds the prompts of agents as a run does at each step; `with_builtins` adds the tools of their toolkits."""

    def __init__(
        self,
        store: Store,
        agents: Agents,
        system_prompts: SystemPrompts,
        membership: Membership,
        with_builtins: Callable[[ActiveAgent, str | None], ActiveAgent],
        mcp: McpOffers,
    ) -> None:
        self._store = store
        self._agents = agents
        self._system_prompts = system_prompts
        self._membership = membership
        self._equip = with_builtins
        self._mcp = mcp

    async def of(self, agent: str, space_id: str | None = None, user_id: str | None = None) -> PromptPreview:
        """Return the prompt of the agent in its home thread, as if in that space, by default in its current space.

        With a `user_id` it is the prompt in a new thread of that user. Raises `NotFound` for an unknown agent, and for
        a space that it cannot enter.
        """
        active = self._equip(await self._agents.active(agent), user_id)
        reach = await self._membership.reach(active.agent, user_id)
        if space_id is None:
            open_space_id = await self._home_space(active) if user_id is None else None
        elif (open_space_id := await self._open(active, by_id("space", space_id), reach.person)) is None:
            raise NotFound(f"There is no space {space_id!r} that the agent {active.agent.name!r} can be in.")
        places = [] if open_space_id is None else [Place(space_id=open_space_id)]
        offer = await self._mcp.tools_for(active, env_of_agent(active))
        active = changed(active, instructions=offer.instructions)
        parts = sections(active, await self._system_prompts.state_for(active, reach, places), open_space_id)
        return PromptPreview(prompt=prompt(parts), sections=parts)

    async def _home_space(self, active: ActiveAgent) -> str | None:
        thread = await self._store.thread(active.agent.home_thread_id)
        if thread is None or thread.space_id is None:
            return None
        return await self._open(active, thread.space_id)

    async def _open(self, active: ActiveAgent, space_id: str, person: str | None = None) -> str | None:
        space = await self._membership.open_to(space_id, active.agent.entity_id, person)
        return None if space is None else space_id
