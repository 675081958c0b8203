"""Active agents: prompts, tools and values with every name resolved; and the next side after a step."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from toolwright.core.agents.agent import Agent, Side
from toolwright.core.agents.prompt import Callee, Prompt
from toolwright.core.env.env import EnvTypes, EnvVar, Variable
from toolwright.core.hooks import HookPoints
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ModelSettings
from toolwright.core.schemas.output import AnswerForm
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, StopReason
from toolwright.core.threads.run import Side as SideName
from toolwright.core.tools.mcp import McpServer
from toolwright.core.tools.relations import AgentCall, AgentTool, Handoff, SubagentToolConfig, SubpromptConfig
from toolwright.core.tools.tenvs_needed import MissingTenvs, Needs, merged_errors
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.core.value import changed

OTHER: dict[SideName, SideName] = {"side_a": "side_b", "side_b": "side_a"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActiveAgent:
    """An agent ready to run with one of its prompts: the prompt of a side, or of a prompt tool.

    `model` None means the model from the settings, `max_steps` None the limit from the settings. `sides` holds the
    agent with the prompt of each side, `nested` with the prompt of each prompt tool, by the tool's name. `stops` are
    the conditions that end the side's turn. `relations` are the agents that it can run in child threads.

    `tenvs` are the tenvs of the prompt and the agent, merged. `needs` are the tenvs that the prompt's tools require.
    `secret_tenvs` are the names of the secret tenvs that the whole agent requires. `variables` are required by the
    prompt, its tools and its prompt tools. `env` are the default layers, which a thread's and its user's values
    override: app, agent, prompt. `secrets` are the names and values of secrets in all layers of the whole agent.
    `tool_env` are the values of single tools. `types` are the types that the whole agent declares for values set as
    plain text. `has_relations` is true if a prompt of the agent has relations, `has_schema_tools` if one has schema
    tools. `scoped` are the names that a side declares as scoped (D5). `hidden` are the names whose values are passed to
    immediate children but never to a model (D6). `mcp` are the servers whose tools it has in addition to its own;
    `instructions` are the servers' instructions for the model, by server name. `form` is the required form of its
    answers, or None. `settings` are the model settings. `parallel` is the number of read-only calls that can run at
    once. `hooks` are those of the app, the agent and the prompt, or None. `is_dynamic` is true if its instructions or
    the availability of its tools depend on the run.
    """

    agent: Agent
    agent_id: str
    side: SideName
    stops: Side
    prompt: Prompt
    model: object
    tools: Toolset
    by_name: Mapping[str, Tool]
    who: tuple[str, ...]
    tenvs: JSONObject
    needs: tuple[Needs, ...]
    variables: tuple[Variable, ...]
    env: tuple[Mapping[str, EnvVar], ...]
    tool_env: Mapping[str, Mapping[str, EnvVar]]
    relations: tuple[AgentCall, ...]
    nested: Mapping[str, "ActiveAgent"]
    sides: Mapping[SideName, "ActiveAgent"]
    secret_tenvs: frozenset[str]
    secrets: frozenset[tuple[str, str]]
    types: EnvTypes
    scoped: frozenset[str]
    hidden: frozenset[str]
    has_relations: bool
    has_schema_tools: bool
    mcp: tuple[McpServer, ...] = ()
    instructions: tuple[tuple[str, str], ...] = ()
    form: AnswerForm | None = None
    settings: ModelSettings | None = None
    parallel: int = 1
    hooks: HookPoints | None = None
    is_dynamic: bool = False

    @property
    def system(self) -> str:
        """The system prompt, or a note in place of one that depends on the run."""
        return self.prompt.text

    @property
    def max_steps(self) -> int | None:
        """The maximum number of the side's steps in one run, or None for the limit from the settings."""
        return self.stops.max_steps

    @property
    def missing_home_tenvs(self) -> MissingTenvs:
        """The tenvs that the agent's tools require and its home thread cannot provide (D4)."""
        return self.missing_tenvs({})

    def missing_tenvs(self, brought: Mapping[str, JSON]) -> MissingTenvs:
        """Return the required tenvs that a thread with these tenvs does not provide, for each prompt (D4)."""
        total = MissingTenvs()
        for active in self.voices:
            total |= merged_errors(active.needs, {**active.tenvs, **brought})
        return total

    @property
    def voices(self) -> Iterator["ActiveAgent"]:
        """Yield the agent with each prompt that it can use, including prompt tools."""
        for side in self.sides.values():
            yield side
            yield from side.below

    @property
    def below(self) -> Iterator["ActiveAgent"]:
        """The agent with the prompts of its prompt tools, recursively."""
        for each in self.nested.values():
            yield each
            yield from each.below

    @property
    def calls_agents(self) -> Iterator[Handoff | AgentCall]:
        """The agents to which this prompt can hand the thread over, or which it can run as children."""
        yield from self.relations
        for tool in self.tools:
            if isinstance(tool.relation, Handoff):
                yield tool.relation

    @property
    def delegates(self) -> Iterator[str | None]:
        """The names of agents and requests to which calls of this prompt's tools can be delegated; None means any."""
        for tool in self.tools:
            if tool.meta is not None:
                yield from tool.meta.delegates

    @property
    def values_set(self) -> frozenset[str]:
        """Return the names of the values set by the agent, its prompts and its tools, excluding the app's values."""
        names: set[str] = set()
        for voice in self.voices:
            _, *own = voice.env
            names.update(*own, *voice.tool_env.values())
        return frozenset(names)

    def with_tools(self, more: Sequence[Tool]) -> "ActiveAgent":
        """Return a copy with these tools added to every side, after its own."""
        sides: dict[SideName, ActiveAgent] = {}
        for name, side in self.sides.items():
            tools = Toolset([*side.tools, *more])
            sides[name] = changed(side, tools=tools, by_name={tool.name: tool for tool in tools}, sides=sides)
        return sides[self.side]

    def without_toolkits(self) -> "ActiveAgent":
        """Return a copy without toolkits and without the parts of the system prompt that describe them."""
        bare = changed(self.agent, toolkits=())
        sides: dict[SideName, ActiveAgent] = {}
        for name, side in self.sides.items():
            sides[name] = changed(side, agent=bare, sides=sides)
        return sides[self.side]

    def without(self, names: Collection[str]) -> "ActiveAgent":
        """Return a copy that has no tools of these names."""
        tools = [tool for tool in self.tools if tool.name not in names]
        return self.offering(tools, [tool for tool in self.by_name.values() if tool.name not in names])

    def offering(self, tools: Sequence[Tool], executed_by: Sequence[Tool]) -> "ActiveAgent":
        """Return a copy that offers `tools` to the model and executes their calls with the tools in `executed_by`."""
        return changed(self, tools=Toolset(tools), by_name={tool.name: tool for tool in executed_by})


Callees = Mapping[str, Tool | Prompt | Agent]
"""Tools, prompts and agents that prompts can name."""


def passed_secrets(
    relations: Iterable[AgentCall], callees: Callees, prompts: Mapping[str, Prompt]
) -> Iterator[str]:
    """Yield the names that these relations pass on and that the descendants' tools declare as secret."""
    for relation in relations:
        child = callees.get(relation.config.name)
        if relation.config.pass_tenvs and isinstance(child, Agent):
            secrets = _secrets_of(child, callees, prompts)
            yield from (name for name in relation.config.pass_tenvs if name in secrets)


def _secrets_of(agent: Agent, callees: Callees, prompts: Mapping[str, Prompt]) -> frozenset[str]:
    """Return the secret tenvs of all tools that the agent and its callees can reach."""
    secrets: set[str] = set()
    visited: set[int] = set()
    pending: list[object] = [agent]
    while pending:
        each = pending.pop()
        if each is None or id(each) in visited:
            continue
        visited.add(id(each))
        match each:
            case Tool(needs=needs):
                secrets |= set() if needs is None else needs.secrets
            case Agent():
                pending += [
                    prompts.get(s.prompt) if isinstance(s.prompt, str) else s.prompt
                    for s in each.sides.values()
                ]
            case Prompt():
                pending += [
                    callee if isinstance(callee, Tool) else callees.get(_name(callee))
                    for callee in each.tools
                ]
            case _:
                pass
    return frozenset(secrets)


def _name(callee: Callee) -> str:
    if isinstance(callee, str):
        return callee
    if isinstance(callee, AgentTool | SubpromptConfig | SubagentToolConfig):
        return callee.name
    return str(cast("Mapping[str, object]", callee).get("name"))  # functions are tools here


SideEnd: TypeAlias = Literal["end_turn", "stop_tool"]


@dataclass(frozen=True, slots=True)
class CallSummary:
    """A finished call of a step: its tool, the JSON text of its arguments, and whether it succeeded."""

    name: str
    arguments: str
    succeeded: bool


def after_text(active: ActiveAgent, run: Run) -> tuple[Run, StopReason | None]:
    """Return the run after an answer without calls, and its stop reason if it ends."""
    if not active.stops.stop_on_response:
        return run, None
    return side_over(active, run, "end_turn")


def after_calls(active: ActiveAgent, run: Run, calls: Sequence[CallSummary]) -> tuple[Run, StopReason | None]:
    """Return the run after all calls of a step are answered, and its stop reason if it ends."""
    stops = active.stops
    if not stops.ending:
        return run, None
    done = {each.name: each for each in calls if each.succeeded}
    reasons: list[tuple[str | None, StopReason]] = [
        (stops.session_fail, "session_fail"),
        (stops.session_stop, "session_stop"),
        (stops.stop_tool, "stop_tool"),
    ]
    for name, reason in reasons:
        if name is None or name not in done:
            continue
        answer, has_answer = answer_in(done[name].arguments, stops.stop_tool_response_property)
        if has_answer:
            run = changed(run, output=answer)
        return side_over(active, run, "stop_tool") if reason == "stop_tool" else (run, reason)
    return run, None


def side_over(active: ActiveAgent, run: Run, reason: SideEnd) -> tuple[Run, StopReason | None]:
    """Return the run after a side's turn has ended, and its stop reason if the run ends too.

    In an agent with two sides the other side is next, unless this was the last turn.
    """
    if active.agent.type == "ai_human":
        return run, reason
    run = changed(run, side=OTHER[run.side], turn=run.turn + 1)
    most = active.agent.max_session_turns
    return run, reason if most is not None and run.turn >= 2 * most else None


def answer_in(arguments: str, property_: str | None) -> tuple[JSON, bool]:
    """Return the answer in a call that ends a turn (the value of that argument), and whether the call has it."""
    if property_ is None:
        return None, False
    parsed = json.loads(arguments or "{}")  # the call succeeded, so its arguments are an object
    return parsed.get(property_), property_ in parsed


def steps_of(speaker: str | None, messages: Sequence[Message], run: Run, side: SideName | None = None) -> int:
    """Return the number of steps of the prompt in the run, on the given side only if one is given."""
    if speaker is None:
        return run.step_count
    own = [m for m in messages if m.run_id == run.id and m.role == "assistant" and m.by == speaker]
    before_the_first = {0}  # no model has answered then
    return len({m.step for m in own if side in (None, m.side)} - before_the_first)
