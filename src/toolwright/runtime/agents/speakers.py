"""Active agents of threads: the thread's agent, or the agent that took it over, with its tools."""

from collections.abc import Callable, Mapping, Sequence

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import is_declared_id
from toolwright.core.agents.catalog import REQUESTS
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.requests.speaker import RequestAgents
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tool import Tool
from toolwright.runtime.agents.agents import Agents

MAX_CACHED_AGENTS = 1_000  # active agents with their tools


class UnknownAgent(str):
    """The reason why an agent cannot run: this process's app does not declare it, but another process's app can."""

    __slots__ = ()


class Speakers:
    """Finds agents for runs, with the tools of their toolkits."""

    def __init__(
        self,
        agents: Agents,
        with_builtins: Callable[[ActiveAgent, str | None], ActiveAgent],
        requests: RequestAgents,
    ) -> None:
        self._agents = agents
        self._equip = with_builtins
        self._requests = requests
        self.catalog = agents.catalog

    def forget(self, thread: Thread) -> None:
        """Remove the cached data of a finished request."""
        if thread.agent == REQUESTS.id:
            self._requests.release(thread.id)

    async def agent_for(self, thread: Thread, run: Run) -> ActiveAgent | str:
        """Return the agent in the run's revision, or the current one, or the reason why it cannot run.

        A run that waits for variables, or whose model has failed, continues with the current agent, which can provide
        the variables or have another model. A reopened run does so too, so that calls of the current tools are
        possible. A run of a deleted agent neither retries a failing model without end, nor calls any model when it is
        retried.
        """
        agent_id = thread.answering
        if agent_id == REQUESTS.id:
            return await self._of_request(thread)
        began = run.started_at is not None and agent_id == run.agent
        waits = (run.waiting or {}).get("reason") == "variables"
        backs_off = run.status == "queued" and run.error is not None
        renewed = waits or backs_off or run.is_reopened
        try:
            speaker = await self._agents.usable(agent_id) if began and renewed else None
            asks_anew = backs_off or (run.is_reopened and not run.calls_only)
            if speaker is None and (not asks_anew or await self._agents.exists(agent_id)):
                speaker = await self._agents.find(agent_id, run.revision if began else None)
        except (InvalidRequest, DefinitionError) as error:
            return f"The agent {agent_id!r} of this thread cannot run: {error.message}"
        if speaker is None and is_declared_id(agent_id):
            return UnknownAgent(
                f"The process that tried this run does not declare the agent {agent_id!r}: the run waits for one that "
                "does. Start a process whose app has this agent, or cancel the run."
            )
        if speaker is None:
            return f"The agent {agent_id!r} of this thread is not configured in this app."
        equipped = self._equip(speaker, thread.user_id)
        equipped = self._requests.with_output(thread, equipped)
        return equipped.sides.get(run.side, equipped)

    async def _of_request(self, thread: Thread) -> ActiveAgent | str:
        try:
            return await in_thread_if_large(thread.arguments, self._requests.agent, thread)
        except (InvalidRequest, DefinitionError) as error:
            return error.message


class BuiltinTools:
    """The built-in tools by toolkit, and the agents that have them."""

    def __init__(self, kits: Mapping[str, Sequence[Tool]]) -> None:
        self._kits = kits
        self._ready: dict[tuple[int, bool], tuple[ActiveAgent, ActiveAgent]] = {}

    def with_builtins(self, agent: ActiveAgent, user_id: str | None = None) -> ActiveAgent:
        """Return the agent with the tools of its toolkits added. Results are cached.

        In a thread that belongs to a user it has none of them if it is declared so.
        """
        if not agent.agent.toolkits:
            return agent
        bare = user_id is not None and agent.agent.home_tools == "none"
        ready = self._ready.get((id(agent), bare))
        if ready is not None and ready[0] is agent:
            return ready[1]
        tools = [tool for kit in agent.agent.toolkits for tool in self._kits.get(kit, ())]
        equipped = agent.without_toolkits() if bare else agent.with_tools(tools)
        if len(self._ready) >= MAX_CACHED_AGENTS:
            del self._ready[next(iter(self._ready))]
        self._ready[id(agent), bare] = agent, equipped
        return equipped
