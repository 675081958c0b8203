"""What an app declares, with every name resolved: agents to their prompts, prompts to their tools."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeVar, cast

from toolwright.core.agent import Agent, Env, Prompt, check_values
from toolwright.core.asked import declared_list, shown
from toolwright.core.env import EnvVar, read_env, stored_only
from toolwright.core.errors import DefinitionError, NotFound
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ToolChoice
from toolwright.core.needs import Lacking, Needs, lacking
from toolwright.core.plain import plain
from toolwright.core.tool import Tool
from toolwright.core.toolkits import reserved
from toolwright.core.toolset import Toolset

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveAgent:
    """An agent ready to run. `model` None means the one in the settings, `max_steps` None the settings' limit.

    `tenvs` are the prompt's and the agent's, merged; `needs` is what its tools declare, `secret_tenvs` the names
    of secrets among it. `env` are the layers below a thread's and its user's: app, agent, prompt. `secrets` are
    the names and values of secrets in all of them. `tool_env` are the values of single tools.
    """

    agent: Agent
    system: str
    model: object
    tools: Toolset
    by_name: Mapping[str, Tool]
    tool_choice: ToolChoice
    max_steps: int | None
    who: tuple[str, ...]
    tenvs: JSONObject
    needs: tuple[Needs, ...]
    secret_tenvs: frozenset[str]
    env: tuple[Mapping[str, EnvVar], ...]
    secrets: frozenset[tuple[str, str]]
    tool_env: Mapping[str, Mapping[str, EnvVar]]

    @property
    def lacks_at_home(self) -> Lacking:
        """What its tools need and its home thread would not have: nobody brings tenvs there (D4)."""
        return lacking(self.needs, self.tenvs)

    def with_tools(self, more: Iterable[Tool]) -> "ActiveAgent":
        """The same agent with these tools behind its own."""
        tools = Toolset([*self.tools, *more])
        return replace(self, tools=tools, by_name={tool.name: tool for tool in tools})


class Catalog:
    """The app's agents and tools, by name or id. A name that leads nowhere raises `DefinitionError`.

    `models` are used instead of those of the prompts, by the agents' ids.
    """

    def __init__(
        self,
        *,
        agents: Sequence[Agent] = (),
        prompts: Sequence[Prompt] = (),
        tools: Iterable[Tool] = (),
        env: Env | None = None,
        models: Mapping[str, str] | None = None,
    ) -> None:
        declared_list("App: agents", agents, Agent, "agents")
        declared_list("App: prompts", prompts, Prompt, "prompts")
        check_values("App", {}, {} if env is None else env)
        self._given_env = env
        self._env = stored_only(read_env(env))
        self._models = dict(models or {})
        self.tools = Toolset(tools)
        self._prompts = _by_name("prompt", [(prompt.name, prompt) for prompt in prompts])
        self._agents = _by_name("agent", [(agent.name, agent) for agent in agents])
        self._by_id = {agent.id: agent for agent in agents}
        self._active = {agent.id: self.activate(agent) for agent in agents}

    @property
    def agents(self) -> Sequence[Agent]:
        """All agents, in the order of their declaration."""
        return list(self._by_id.values())

    def agent(self, name_or_id: str) -> Agent:
        """The agent of that name or id, else `NotFound`."""
        if not isinstance(name_or_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise NotFound(f"An agent is named by its name or id, which is text, not {shown(name_or_id)}.")
        found = self._agents.get(name_or_id) or self._by_id.get(name_or_id)
        if found is None:
            raise NotFound(f"There is no agent {name_or_id!r}.{_hint(name_or_id, self._agents)}")
        return found

    def active(self, agent_id: str) -> ActiveAgent:
        """The agent ready to run, else `NotFound`."""
        found = self._active.get(agent_id)
        if found is None:
            raise NotFound(f"The agent {agent_id!r} of this thread is not configured in this app.")
        return found

    def find(self, agent_id: str) -> ActiveAgent | None:
        """The same, None if it is not configured."""
        return self._active.get(agent_id)

    def with_model(self, agent_id: str, model: str) -> "Catalog":
        """The same catalog, in which the agent uses that model."""
        return Catalog(
            agents=self.agents,
            prompts=list(self._prompts.values()),
            tools=self.tools,
            env=self._given_env,
            models={**self._models, self.active(agent_id).agent.id: model},
        )

    def activate(self, agent: Agent) -> ActiveAgent:
        """The agent ready to run, but for its toolkits; raises `DefinitionError` where a name leads nowhere."""
        side = agent.side
        prompt = side.prompt if isinstance(side.prompt, Prompt) else self._prompt(side.prompt, agent)
        tools = Toolset([self._tool(tool, prompt) for tool in prompt.tools])
        needs = tuple([tool.needs for tool in tools if tool.needs is not None])
        secret_tenvs = frozenset[str]().union(*(each.secrets for each in needs))
        tenvs = cast("JSONObject", plain({**prompt.tenvs, **agent.tenvs}))  # a dict stays an object
        _check_built_ins(agent, tools)
        env = (self._env, stored_only(read_env(agent.env)), stored_only(read_env(prompt.env)))
        tool_env = {name: stored_only(read_env(own)) for name, own in agent.tool_env.items()}
        return ActiveAgent(
            agent=agent,
            system=prompt.prompt,
            model=self._models.get(agent.id, prompt.model),
            tools=tools,
            by_name={tool.name: tool for tool in tools},
            tool_choice=prompt.tool_choice,
            max_steps=side.max_steps,
            who=(agent.name, prompt.name),
            tenvs=tenvs,
            needs=needs,
            secret_tenvs=secret_tenvs,
            env=env,
            secrets=_secrets(tenvs, secret_tenvs, (*env, *tool_env.values())),
            tool_env=tool_env,
        )

    def _prompt(self, name: str, agent: Agent) -> Prompt:
        found = self._prompts.get(name)
        if found is None:
            raise DefinitionError(
                f"Agent {agent.name!r} names the prompt {name!r}, which the app does not have."
                f"{_hint(name, self._prompts)}"
            )
        return found

    def _tool(self, tool: Tool | str, prompt: Prompt) -> Tool:
        if isinstance(tool, Tool):
            return tool
        if tool not in self.tools:
            names = {known.name: known for known in self.tools}
            raise DefinitionError(
                f"Prompt {prompt.name!r} names the tool {tool!r}, which the app does not have."
                f"{_hint(tool, names)}"
            )
        return self.tools[tool]


def _check_built_ins(agent: Agent, tools: Iterable[Tool]) -> None:
    """No tool may stand in the place of a built-in one (D11)."""
    taken = reserved(agent.toolkits)
    for tool in tools:
        if tool.name in taken:
            raise DefinitionError(
                f"Agent {agent.name!r}: {tool.name!r} is the name of a built-in tool of its toolkits; rename the tool."
            )


def _secrets(
    tenvs: JSONObject, secret: frozenset[str], layers: Iterable[Mapping[str, EnvVar]]
) -> frozenset[tuple[str, str]]:
    named = {(name, value) for name, value in tenvs.items() if name in secret and isinstance(value, str)}
    named.update((n, var.value) for layer in layers for n, var in layer.items() if var.type == "secret")
    return frozenset(named)


def _by_name(what: str, named: Sequence[tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, value in named:
        if name in found:
            raise DefinitionError(f"The app has two {what}s named {name!r}.")
        found[name] = value
    return found


def _hint(name: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(name, list(known), n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" It has: {', '.join(sorted(known))}." if known else ""
