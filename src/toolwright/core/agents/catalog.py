"""Catalog of an app's declarations: agents, prompts and tools, with every name resolved."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from types import NoneType
from typing import Any, TypeVar, cast

from toolwright.core.agents.activation import activated
from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import Agent
from toolwright.core.agents.prompt import (
    Callee,
    Context,
    Env,
    Prompt,
    check_parallel,
    check_values,
    deep_copy,
)
from toolwright.core.arguments.signature import Handler
from toolwright.core.checks import brief_value, check_kind, check_list
from toolwright.core.errors import DefinitionError, NotFound
from toolwright.core.hooks import Hooks, check_hooks
from toolwright.core.schemas.meta import ANONYMOUS
from toolwright.core.text import hint, sentence
from toolwright.core.tools.mcp import McpServer
from toolwright.core.tools.relations import AgentCall, AgentTool, SubagentToolConfig
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.core.value import changed

T = TypeVar("T")
REQUESTS = Agent("composed requests", Prompt("composed requests"), key="requests", mcp=[])
"""Agent whose threads solve composed requests (S1). It is not in any list."""
APP_TOOLS = Agent("app tools", Prompt("app tools"), key="app-tools", mcp=[])
"""Agent whose threads execute calls of the app's tools by external hosts, one call per thread.

It is not in any list, has no model, and never answers.
"""
RESERVED = {REQUESTS.id: "composed requests", APP_TOOLS.id: "calls of the app's tools"}
"""Purposes of the built-in agents, by agent id."""


class Catalog:
    """The app's agents and tools, by name or id. Raises `DefinitionError` for an unknown name.

    `models` override the models of the prompts, by agent id. `handlers` execute the schema tools of composed requests,
    `requests` are the saved requests, by name, from which delegates are built. `servers` are MCP servers. `configured`
    are the agents of a configuration file: hosts can call their tools too. `context` is the context policy of agents
    without one, `parallel` the number of calls that these agents can run at once. `hooks` hold for all agents.
    """

    def __init__(
        self,
        *,
        agents: Sequence[Agent] = (),
        prompts: Sequence[Prompt] = (),
        tools: Iterable[Tool | Handler] = (),
        env: Env | None = None,
        models: Mapping[str, str] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        requests: Mapping[str, Any] | None = None,
        servers: Sequence[McpServer] = (),
        configured: Sequence[Agent] = (),
        context: Context | None = None,
        parallel: int | None = None,
        hooks: Sequence[Hooks] = (),
    ) -> None:
        check_kind("App: context", context, (Context, NoneType), "a tw.Context")
        check_parallel("App", parallel)
        self.context, self.parallel, self.hooks = context, parallel, check_hooks("App", hooks)
        check_list("App: agents", agents, Agent, "agents")
        check_list("App: prompts", prompts, Prompt, "prompts")
        called = _called_agents(agents, prompts)
        agents = list({id(each): each for each in [*agents, *called]}.values())
        self._called_names = frozenset(each.name for each in called)
        check_values("App", {}, {} if env is None else env)
        self._env = cast("Env", deep_copy({} if env is None else env))
        self._models = dict(models or {})
        self.handlers = dict(handlers or {})
        self.requests: Mapping[str, Any] = dict(requests or {})  # validated in `core/requests`
        self.tools = Toolset(tools)
        self.servers: Mapping[str, McpServer] = {each.name: each for each in servers}
        self._configured = tuple(configured)
        self._prompts = _by_name("prompt", [(prompt.name, prompt) for prompt in prompts])
        self._agents = _by_name("agent", [(agent.name, agent) for agent in agents])
        self._check_tools(agents)
        self._check_exposed()
        self._by_id = {agent.id: agent for agent in agents}
        self._check_names()
        self._active = {agent.id: self.activate(agent) for agent in (*agents, REQUESTS)}
        self._check_immediate()

    def _check_names(self) -> None:
        """Raise `DefinitionError` if a name is the id of another agent, or a reserved id."""
        for agent in self._agents.values():
            for reserved, purpose in RESERVED.items():
                if reserved in (agent.name, agent.id):
                    raise DefinitionError(
                        f"The agent {agent.name!r} has the id of {purpose}, {reserved!r}: give it another "
                        "name or key."
                    )
            other = self._by_id.get(agent.name, agent)
            if other is not agent:
                raise DefinitionError(
                    f"The name {agent.name!r} is the id of another agent, {other.name!r}: rename one."
                )

    def _check_tools(self, agents: Sequence[Agent]) -> None:
        """Raise `DefinitionError` if two tools have the same name: routes, commands and records refer to it."""
        first_places: dict[str, tuple[Tool, str]] = {}
        for tool, place in self._tools_by_location(agents):
            _check_meta(tool)
            self.check_delegate(tool)
            first, where = first_places.setdefault(tool.name, (tool, place))
            if where != place and not first.same_as(tool):
                raise DefinitionError(
                    f"The app has two different tools named {tool.name!r}, one in {where}, the other in {place}: "
                    "rename one."
                )

    def _tools_by_location(self, agents: Sequence[Agent]) -> Iterator[tuple[Tool, str]]:
        for tool in self.tools:
            yield tool, "the app's tools"
        for prompt in self._prompts.values():
            for tool in _own_tools(prompt):
                yield tool, f"the tools of the prompt {prompt.name!r}"
        for agent in agents:
            for side in agent.sides.values():
                for tool in _own_tools(side.prompt):
                    yield tool, f"the tools of the agent {agent.name!r}"

    def _check_exposed(self) -> None:
        """Raise `DefinitionError` if two callable tools, agents or prompts have the same name."""
        exposed = [each for each in [*self._prompts.values(), *self._agents.values()] if each.expose_as_tool]
        names = [*[tool.name for tool in self.tools], *[each.name for each in exposed]]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DefinitionError(
                f"The app has two tools, agents or prompts named {twice!r} that are called as tools. Rename one."
            )

    def _check_immediate(self) -> None:
        """Raise `DefinitionError` if agents start each other immediately: the recursion would never end."""
        at_once = {
            agent_id: [
                each.agent_id
                for side in agent.sides.values()
                for each in side.relations
                if each.config.always_immediate
            ]
            for agent_id, agent in self._active.items()
        }
        try:
            TopologicalSorter(at_once).prepare()
        except CycleError as error:
            cycle = " → ".join([self._by_id[each].name for each in reversed(error.args[1])])
            raise DefinitionError(
                sentence(f"Agents start each other immediately, without end: {cycle}")
            ) from None

    @property
    def agents(self) -> Sequence[Agent]:
        """All agents, in the order of their declaration."""
        return list(self._by_id.values())

    def agent(self, name_or_id: str) -> Agent:
        """Return the agent with a name or id. Raises `NotFound`."""
        if not isinstance(name_or_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise NotFound(f"An agent's name or id must be text, not {brief_value(name_or_id)}.")
        agent = self._by_id.get(name_or_id) or self._agents.get(name_or_id)
        if agent is None:
            raise NotFound(f"There is no agent {name_or_id!r}.{hint(name_or_id, self._agents)}")
        return agent

    def active(self, agent_id: str) -> ActiveAgent:
        """Return the agent with a name or id, ready to run. Raises `NotFound`."""
        active = self._active.get(agent_id)
        if active is None:
            raise NotFound(f"The agent {agent_id!r} of this thread is not configured in this app.")
        return active

    @property
    def delegates(self) -> Sequence[str]:
        """The names of all agents and requests to which calls can be delegated."""
        return [ANONYMOUS, *self.requests, *self._agents]

    def check_delegate(self, tool: Tool) -> None:
        """Raise `DefinitionError` if the tool fixes or offers a delegate that the app does not have."""
        if tool.meta is None:
            return
        offered = tool.meta.choices.get("_delegate", {}).get("enum")
        ids = {agent.id for agent in self._agents.values()}
        for name in (tool.meta.delegate, *(offered if isinstance(offered, list) else [])):
            if name is not None and name not in self.delegates and name not in ids:
                names = ", ".join(map(repr, self.delegates))
                raise DefinitionError(
                    f"The tool {tool.name!r} has the unknown delegate {brief_value(name)}. Choose one of {names}."
                )

    def find(self, agent_id: str) -> ActiveAgent | None:
        """Return the active agent by its id, or None if it is not configured."""
        return self.app_tools if agent_id == APP_TOOLS.id else self._active.get(agent_id)

    @cached_property
    def app_tools(self) -> ActiveAgent:
        """Return the agent through which external hosts call the app's tools, prompts and agents. Built on first use.

        Tools that belong to only one agent are included, with that agent's values. Latent tools are excluded, because
        they have no handler. Raises `DefinitionError` for a tool that cannot be called this way.
        """
        tools: dict[str, Callee] = {tool.name: tool for tool in self.tools}
        for each in [*self._prompts.values(), *self._agents.values()]:
            if each.expose_as_tool:
                tools[each.name] = (
                    each.name if isinstance(each, Prompt) else SubagentToolConfig(name=each.name)
                )
        values: dict[str, Env] = {}
        for agent in [*self.agents, *self._configured]:
            for side in self.activate(agent).sides.values():
                for tool in side.tools:
                    if tool.relation is None and tool.name not in tools:
                        tools[tool.name] = tool
                        values[tool.name] = {
                            **side.prompt.env,
                            **agent.env,
                            **agent.tool_env.get(tool.name, {}),
                        }
        offered: list[Callee] = [
            each for each in tools.values() if not (isinstance(each, Tool) and each.latent)
        ]
        prompt = Prompt(APP_TOOLS.name, tools=offered)
        return self.activate(changed(APP_TOOLS, side_a=prompt, tool_env=values))

    def tenvs_set(self, agent: ActiveAgent) -> frozenset[str]:
        """Return the names of the tenvs that the app sets for any prompt that a thread of the agent can reach.

        These are the tenvs of all prompts of the agent and of the agents to which the thread can be handed over, and
        the tenvs that a caller passes on to a child.
        """
        names: set[str] = set()
        visited: set[tuple[str, frozenset[str] | None]] = set()
        pending: list[tuple[ActiveAgent, frozenset[str] | None]] = [
            (agent, None)
        ]  # None: any name can be passed
        while pending:
            active, names_passed = pending.pop()
            if (active.agent_id, names_passed) in visited:
                continue
            visited.add((active.agent_id, names_passed))
            for voice in active.voices:
                names |= {*voice.tenvs} if names_passed is None else {*voice.tenvs} & names_passed
                for relation in voice.calls_agents:
                    called = self.find(relation.agent_id)
                    passed = names_passed
                    if isinstance(relation, AgentCall):
                        own = frozenset(relation.config.pass_tenvs)
                        passed = own if names_passed is None else own & names_passed
                    if called is not None and (passed is None or passed):
                        pending.append((called, passed))
        return frozenset(names)

    def reached(self, voices: Iterable[ActiveAgent]) -> list[ActiveAgent]:
        """Return all agents that these prompts hand over to, run as children or delegate to, directly or indirectly."""
        agents: dict[str, ActiveAgent] = {}
        pending = [called for voice in voices for called in self._called(voice)]
        while pending:
            called = pending.pop()
            if called.agent_id not in agents:
                agents[called.agent_id] = called
                pending += [each for voice in called.voices for each in self._called(voice)]
        return [*agents.values()]

    def _called(self, voice: ActiveAgent) -> Iterator[ActiveAgent]:
        """Yield the agents that a prompt calls, including delegates; all agents if a call can choose any delegate."""
        called = [self.find(each.agent_id) for each in voice.calls_agents]
        for name in voice.delegates:
            called += [*self._active.values()] if name is None else [self.find_named(name)]
        yield from (each for each in called if each is not None and each.agent_id not in RESERVED)

    def reached_by(self, tool: Tool) -> list[ActiveAgent]:
        """Return the agents that a call of an app tool can reach, the directly called one first."""
        if isinstance(tool.relation, AgentCall):
            called = self.find(tool.relation.agent_id)
            return [] if called is None else [called, *self.reached(called.voices)]
        below = self.app_tools.nested.get(tool.name)
        return [] if below is None else self.reached([below, *below.below])

    def find_named(self, name_or_id: str) -> ActiveAgent | None:
        """Return the active agent by its name or id, or None if it is not declared here."""
        try:
            return self._active.get(self.agent(name_or_id).id)
        except NotFound:
            return None

    def with_model(self, agent_id: str, model: str) -> "Catalog":
        """Return a copy in which the agent uses that model."""
        return Catalog(
            agents=self.agents,
            prompts=list(self._prompts.values()),
            tools=self.tools,
            env=self._env,
            models={**self._models, self.active(agent_id).agent.id: model},
            handlers=self.handlers,
            requests=self.requests,
            servers=[*self.servers.values()],
            configured=self._configured,
            context=self.context,
            parallel=self.parallel,
            hooks=self.hooks,
        )

    def activate(self, agent: Agent) -> ActiveAgent:
        """Return the agent ready to run, without its toolkits. Raises `DefinitionError` for an unknown name."""
        return activated(agent, self, self._env, self._models.get(agent.id))

    @property
    def env(self) -> Env:
        """The app's own values."""
        return self._env

    @property
    def prompts(self) -> Mapping[str, Prompt]:
        """All prompts, by name."""
        return self._prompts

    @property
    def callees(self) -> Mapping[str, Tool | Prompt | Agent]:
        """Everything that a prompt can call, by name: tools, and the agents and prompts exposed as tools."""
        exposed = [each for each in [*self._agents.values(), *self._prompts.values()] if each.expose_as_tool]
        called = [each for each in self._agents.values() if each.name in self._called_names]
        return {each.name: each for each in [*called, *exposed, *self.tools]}

    @property
    def agents_by_name(self) -> Mapping[str, Agent]:
        """All agents, by name."""
        return self._agents


def _called_agents(agents: Sequence[Agent], prompts: Sequence[Prompt]) -> list[Agent]:
    """Return the agents that prompts include with `Agent.as_tool`, directly or indirectly."""
    sides = [side.prompt for agent in agents for side in agent.sides.values()]
    called: list[Agent] = []
    for prompt in [*prompts, *sides]:
        tools = () if isinstance(prompt, str) else prompt.tools
        called += [each.agent for each in tools if isinstance(each, AgentTool)]
    new = [each for each in called if not any(each is agent for agent in agents)]
    return called if not new else [*called, *_called_agents([*agents, *new], ())]


def _own_tools(prompt: Prompt | str) -> Sequence[Tool]:
    """Return the tools that a prompt contains, excluding those that it refers to by name."""
    return (
        ()
        if isinstance(prompt, str)
        else [cast("Tool", each) for each in prompt.tools if isinstance(each, Tool)]
    )


def _by_name(what: str, items: Sequence[tuple[str, T]]) -> dict[str, T]:
    by_name: dict[str, T] = {}
    for name, value in items:
        if name in by_name:
            raise DefinitionError(f"The app has two {what}s named {name!r}.")
        by_name[name] = value
    return by_name


def _check_meta(tool: Tool) -> None:
    """Raise `DefinitionError` for a schema tool without a registered handler."""
    meta = tool.meta
    if meta is None:
        return
    if meta.activity is not None and tool.handler is None:
        raise DefinitionError(
            f"The tool {tool.name!r} names the handler {meta.activity!r} as its _activity, but no handler is bound to "
            "it. Register both with a Registry."
        )
