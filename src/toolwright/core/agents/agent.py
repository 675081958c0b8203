"""Agents, their sides and the built-in toolkits (D7, D11): the definitions, without execution."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeAlias,
    _SpecialForm,  # pyright: ignore[reportPrivateUsage]  # the only type of `Literal[…]` and `Annotated[…]`
    cast,
    get_args,
)

from typing_extensions import TypeForm, TypeVar

from toolwright.core.agents.deps import check_deps
from toolwright.core.agents.prompt import (
    Callee,
    Context,
    Env,
    Prompt,
    check_exposed,
    check_parallel,
    check_values,
    keep,
)
from toolwright.core.checks import (
    brief_value,
    check_kind,
    check_line,
    check_list,
    check_name,
    is_number,
    refuse_fields,
)
from toolwright.core.dependencies.dynamic import Dynamic, Instructions
from toolwright.core.errors import DefinitionError
from toolwright.core.hooks import Hooks, check_hooks
from toolwright.core.json_value import JSON
from toolwright.core.mcp.config import declared_servers
from toolwright.core.model import Model, ModelSettings
from toolwright.core.threads.compaction import READ_RESULT
from toolwright.core.threads.run import Side as SideName
from toolwright.core.tools.mcp import McpServer
from toolwright.core.tools.relations import AgentTool, SubagentToolConfig
from toolwright.core.tools.toolset import Toolset

Out = TypeVar("Out", default=Any)
"""The type of an agent's output, `Any` if it is not known."""
Deps = TypeVar("Deps", default=Any)
"""The type of an agent's deps, `Any` if it declares none."""
T = TypeVar("T")
DepsClass: TypeAlias = type[T]
OutputType: TypeAlias = type[T] | TypeForm[T] | Mapping[str, Any] | UnionType | _SpecialForm
"""A JSON Schema or a type. mypy takes a union for its first member: annotate the agent, as in `tw.Agent[A | B]`."""

SPACES, MIND, CHANNELS, MEMORY = "spaces", "mind", "channels", "memory"
ENTER_SPACE, SEND_MESSAGE = "enter_space", "send_message"

SUBAGENT_CREATE, SUBAGENT_MESSAGE = "subagent_create", "subagent_message"
LIFECYCLE = (SUBAGENT_CREATE, SUBAGENT_MESSAGE)
"""Tools of an agent that can run resumable agents (S0 §6)."""

TOOLKITS: Mapping[str, tuple[str, ...]] = {
    SPACES: (ENTER_SPACE, "leave_space", SEND_MESSAGE, "read_messages", "skip"),
    MIND: (
        "set_goals",
        "delete_goals",
        "set_memories",
        "delete_memories",
        "set_plans",
        "delete_plans",
        "get_plans",
    ),
    CHANNELS: (SEND_MESSAGE, "react_to_message", "do_nothing"),
    MEMORY: ("update_memory", "search_memory", "store_memory"),
}
CONFIGURED: tuple[str, ...] = (SPACES, MIND)
ALTERNATIVE_TOOLKITS: tuple[str, ...] = (CHANNELS, MEMORY)
"""The default toolkits of an agent configured as JSON, and the alternative to them."""
WRITE_PROMPT = " To write the prompt here, give instructions=."  # where a name is needed
_OWN = ("instructions", "model", "tools", "output", "model_settings", "max_steps", "max_seconds")
"""The arguments of the short form, in the order of the fields."""
_RUN_BY = {
    "run": "await tw.run(agent, 'text')",
    "run_sync": "tw.run_sync(agent, 'text')",
    "run_stream": "tw.stream(agent, 'text')",
    "stream": "tw.stream(agent, 'text')",
    "invoke": "tw.run_sync(agent, 'text')",
}
"""Functions in place of the methods that agents of other libraries have."""
_ESCAPED = (("%", "%25"), (":", "%3A"), ("/", "%2F"))
_DIGITS = 20


def configured(toolkits: Sequence[str]) -> tuple[str, ...] | None:
    """Return the toolkits of an agent configured as JSON with these names, or None if it mixes the two groups."""
    names = {*toolkits}
    if names <= {*CONFIGURED}:
        return CONFIGURED
    return ALTERNATIVE_TOOLKITS if names <= {*ALTERNATIVE_TOOLKITS} else None


def toolkits_error(toolkits: Sequence[str]) -> str | None:
    """Return the error of an agent's toolkits, as the end of a sentence without a full stop, or None."""
    unknown = [name for name in toolkits if name not in TOOLKITS]
    if unknown:
        return f"names {unknown[0]!r}, which is no toolkit: there are {', '.join(map(repr, TOOLKITS))}"
    if SPACES in toolkits and CHANNELS in toolkits:
        return "must not name both 'spaces' and 'channels': both have a tool 'send_message'"
    return None


def reserved(toolkits: Iterable[str]) -> frozenset[str]:
    """Return the names of the tools in these toolkits, and of the tools that every agent can have."""
    return frozenset([READ_RESULT, *[name for kit in toolkits for name in TOOLKITS[kit]]])


AgentType: TypeAlias = Literal["ai_human", "dual_ai"]
OpenTo: TypeAlias = Literal["everyone", "members", "nobody"]
HomeTools: TypeAlias = Literal["own", "all", "none"]
Readers: TypeAlias = Literal["services", "everyone", "nobody"]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an agent: its prompt, and the conditions that end its turn or the session.

    Raises `DefinitionError` if a field is invalid.

    Attributes:
        prompt: The prompt, or its name in the app.
        label: Display name of the side. Default: None.
        max_steps: Maximum number of the side's model calls in one run, 1 or more. Default: None, the settings' limit.
        max_seconds: Seconds from the start of the run, waiting included, after which the side makes no further step.
            At most 10**9. Default: None, no limit.
        stop_on_response: Whether an answer of text without calls ends the turn. Default: True.
        stop_tool: Name of the tool whose successful call ends the turn. Default: None.
        stop_tool_response_property: Argument of that call which becomes the side's answer. Requires one of the three
            ending tools. Default: None.
        session_stop: Name of the tool whose call ends the whole run successfully. Default: None.
        session_fail: Name of the tool whose call ends the whole run as failed. Default: None.
    """

    prompt: str | Prompt
    label: str | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    stop_on_response: bool = True
    stop_tool: str | None = None
    stop_tool_response_property: str | None = None
    session_stop: str | None = None
    session_fail: str | None = None

    def __post_init__(self) -> None:
        check_kind("The prompt of a side", self.prompt, (Prompt, str), "a prompt or the name of one")
        check_kind("The label of a side", self.label, (str, NoneType), "text")
        if self.max_steps is not None and (type(self.max_steps) is not int or self.max_steps < 1):
            raise DefinitionError(f"max_steps must be 1 or more, not {brief_value(self.max_steps)}.")
        if self.max_seconds is not None and not (is_number(self.max_seconds) and 0 < self.max_seconds <= 1e9):
            raise DefinitionError(
                f"max_seconds must be a positive number of seconds, at most 10**9, not {brief_value(self.max_seconds)}."
            )
        check_kind("The stop_on_response of a side", self.stop_on_response, bool, "true or false")
        for name in ("stop_tool", "stop_tool_response_property", "session_stop", "session_fail"):
            value = getattr(self, name)
            if value is not None:
                check_name(f"The {name} of a side", value)
        if self.stop_tool_response_property is not None and not self.ending:
            raise DefinitionError("A side with a stop_tool_response_property needs a stop_tool.")

    @property
    def ending(self) -> tuple[str, ...]:
        """The names of the tools that end the side's turn or the session."""
        return tuple([n for n in (self.stop_tool, self.session_stop, self.session_fail) if n is not None])


_HINTS = {
    "system": "An agent has no system=: give instructions='…'.",
    "system_prompt": "An agent has no system_prompt=: give instructions='…'.",
    "output_type": "An agent has no output_type=: give output=….",
    "settings": "An agent has no settings=: give model_settings={…}.",
    **{
        name: f"An agent has no {name}=: give model_settings={{'{name}': …}}."
        for name in ("temperature", "top_p", "max_tokens", "seed", "timeout", "parallel_tool_calls")
    },
    **{
        name: f"An agent has no {name}=: its prompt has. Write tw.Agent('name', tw.Prompt('name', {name}=…))."
        for name in ("variables", "tool_choice", "required_schema", "prompt")
    },
}


@refuse_fields(_HINTS)
@dataclass(frozen=True, slots=True, weakref_slot=True)
class Agent(Generic[Out, Deps]):
    """An agent: one or two sides with their prompts, variables, memory and permissions. It answers in threads.

    `tw.Agent("counter", instructions="…", model="openai:gpt-6.1-terra", tools=[…])` is the short form: an agent whose
    `side_a` is a prompt of the same name. Raises `DefinitionError` if a field is invalid.

    Attributes:
        name: The name by which threads, tools and routes refer to the agent. Unique in the app, on one line.
        side_a: The side that answers the user: a `Side`, or only its prompt (the prompt or its name in the app).
            Not with the short form.
        side_b: The second side of a `dual_ai` agent, which answers side_a. Default: none.
        type: `"ai_human"` (default): side_a answers the user. `"dual_ai"`: the two sides answer each other in turns.
        description: What the agent does, for people, and for other agents if `tool_description` is empty. Default: "".
        tenvs: Typed values by name. They override the prompt's; the thread's override both (S2 §9.4). Default: none.
        env: The agent's variables by name: text (a secret) or `{"value": …, "type": "text"}` (D5). Default: none.
        user_env: Names of the variables that a person may set in their own thread (D24). Default: none.
        toolkits: Sets of built-in tools: `"spaces"`, `"mind"`, `"channels"`, `"memory"`; not both `"spaces"` and
            `"channels"`. Default: none.
        inbox_preview: Whether the prompt lists the waiting inbox events at each step. Default: False.
        key: Id of an agent that is configured as JSON. Set by the runtime.
        revision: Number of the configuration of an agent that is configured as JSON. Set by the runtime.
        tool_env: Variables for single tools, by tool name, of an agent that is configured as JSON.
        max_session_turns: Maximum number of turns of each side in a session of a `dual_ai` agent, 1 or more.
            Default: None, no limit.
        expose_as_tool: Whether other prompts can call the agent by its name. Default: False.
        tool_description: When to call the agent, for the models of its callers. Required with `expose_as_tool`.
        mcp: Its MCP servers: configurations by name, or a list of configurations and of names of the app's servers.
            Default: None, all servers of the app.
        open_to: The people who may open threads with it: `"everyone"`, `"members"` (people who share a space with it
            that is not public), `"nobody"`, or a list of claims, one of which their token must have: `"role"` is a
            claim that is set, `"role=admin"` a claim with this value, or with a list that has it. Default: None, which
            is `"members"` for an agent with toolkits and `"everyone"` for any other.
        home_tools: What its toolkits, and their parts of the system prompt, reach in a thread of a user: `"own"`
            (default) only what that person may see and do, with a memory for that person; `"all"` everything that the
            agent reaches elsewhere; `"none"` removes them.
        shared_memory: Whether all users share its goals, memories, plans, blocks and passages. Default: False.
        context: Token limit of its requests to models, and how conversations are shortened. Default: the app's.
        parallel: Maximum number of calls of one answer that run at once, 1 to 100. Only calls of `read_only` tools
            run at once. Default: the app's, or 1.
        reasoning: The readers of its model's reasoning, live and in messages: `"services"` (default), `"everyone"`, or
            `"nobody"`: it is neither streamed nor kept. The effort is `Prompt.reasoning`.
        hooks: Hooks of its runs, requests, answers and calls, see `tw.Hooks`. They are asked after those of the app.
            Default: none.
        deps: Type of the value that the caller of a run passes as `deps=`, which tools read as `state.deps`: a pydantic
            model, a dataclass or a TypedDict. The value is stored with the run as JSON. Default: none.
        user_deps: Whether people may set `deps` over HTTP, in addition to services. Default: False.
        instructions: Short form: the text of its prompt, or a function of the run's state, see `Prompt.prompt`.
        model: Short form: the model of its prompt, see `Prompt.model`.
        tools: Short form: the tools of its prompt, see `Prompt.tools`.
        output: Short form: the type of its answer, see `Prompt.output`.
        model_settings: Short form: the settings of its model, see `Prompt.model_settings`.
        max_steps: Short form: maximum number of model calls in a run, see `Side.max_steps`.
        max_seconds: Short form: seconds after which a run makes no further step, see `Side.max_seconds`.
    """

    name: str
    side_a: Side | Prompt | str | None = None
    side_b: Side | Prompt | str | None = None
    type: AgentType = "ai_human"
    description: str = ""
    tenvs: Mapping[str, JSON] = field(default_factory=dict[str, JSON], repr=False)
    env: Env = field(default_factory=dict[str, str], repr=False)
    user_env: Sequence[str] = ()
    toolkits: Sequence[str] = ()
    inbox_preview: bool = False
    key: str | None = field(default=None, repr=False)
    revision: int | None = field(default=None, repr=False)
    tool_env: Mapping[str, Env] = field(default_factory=dict[str, Env], repr=False)
    max_session_turns: int | None = None
    expose_as_tool: bool = False
    tool_description: str = ""
    mcp: object = field(default=None, repr=False)
    open_to: OpenTo | Sequence[str] | None = None
    home_tools: HomeTools = "own"
    shared_memory: bool = False
    context: Context | None = None
    parallel: int | None = None
    reasoning: Readers = "services"
    hooks: Sequence[Hooks] = ()
    deps: DepsClass[Deps] | None = field(default=None, repr=False)
    user_deps: bool = False
    instructions: InitVar[str | Instructions | None] = None
    model: InitVar[str | Model | object | None] = None
    tools: InitVar[Sequence[Callee] | Toolset | None] = None
    output: InitVar[OutputType[Out] | None] = None
    model_settings: InitVar[Mapping[str, object] | ModelSettings | None] = None
    max_steps: InitVar[int | None] = None
    max_seconds: InitVar[float | None] = None

    def __post_init__(self, *own: object) -> None:
        check_name("An agent", self.name)
        if self.key is None:  # a stored agent was validated when it was configured
            check_line("An agent", self.name)
        subject = f"Agent {self.name!r}"
        short_form = {name: each for name, each in zip(_OWN, own, strict=False) if each is not None}
        self._make_own_prompt(subject, short_form)
        check_kind(
            f"{subject}: side_a", self.side_a, (Side, Prompt, str), "a side, a prompt or the name of one"
        )
        if self.type not in get_args(AgentType):
            raise DefinitionError(
                f"{subject}: type must be 'ai_human' or 'dual_ai', not {brief_value(self.type)}."
            )
        self._check_sides(subject)
        check_kind(f"{subject}: description", self.description, str, "text")
        for name in ("inbox_preview", "expose_as_tool"):
            check_kind(f"{subject}: {name}", getattr(self, name), bool, "true or false")
        if self.reasoning not in get_args(Readers):
            raise DefinitionError(
                f"{subject}: reasoning names its readers, 'services', 'everyone' or 'nobody', not "
                f"{brief_value(self.reasoning)}. The effort is set on the prompt: tw.Prompt('name', reasoning=…)."
            )
        object.__setattr__(self, "hooks", check_hooks(subject, self.hooks))
        check_kind(f"{subject}: user_deps", self.user_deps, bool, "true or false")
        if self.deps is not None:
            check_deps(subject, self.deps)
        check_exposed(subject, self.expose_as_tool, self.tool_description)
        check_values(subject, self.tenvs, self.env)
        check_list(f"{subject}: user_env", self.user_env, str, "names")
        check_list(f"{subject}: toolkits", self.toolkits, str, "names of toolkits")
        error = toolkits_error(self.toolkits)
        if error is not None:
            raise DefinitionError(f"{subject}: toolkits {error}.")
        self._check_people(subject)
        keep(self, "user_env", "toolkits", "tenvs", "env", "tool_env", "open_to")
        check_kind(f"{subject}: context", self.context, (Context, NoneType), "a tw.Context")
        check_parallel(subject, self.parallel)
        if self.mcp is not None:
            object.__setattr__(self, "mcp", tuple(declared_servers(self.mcp, subject)))

    # fields of `SubagentToolConfig`
    def as_tool(self, description: str | None = None, **options: Any) -> AgentTool:
        """Return this agent as a tool for another agent's `tools=[…]`: a call runs it in a thread of its own.

        The call's result is the agent's answer. (An agent's name in `tools` hands the conversation over instead: the
        agent then answers the user itself.) `description` tells the model when to call it; the default is the agent's
        `tool_description` or `description`. `options` are fields of `tw.SubagentToolConfig`, such as `blocking=False`.
        Raises `DefinitionError`.
        """
        text = description or self.tool_description or self.description
        if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise DefinitionError(
                f"Agent {self.name!r}: as_tool needs a description, which tells the model what to call it for."
            )
        return AgentTool(agent=self, description=text, config=SubagentToolConfig(name=self.name, **options))

    if not TYPE_CHECKING:  # a type checker knows which attributes there are

        def __getattr__(self, name: str) -> object:
            """Raise the error of an attribute that an agent does not have, with what to call instead."""
            advice = f" Call {_RUN_BY[name]}." if name in _RUN_BY else ""
            raise AttributeError(f"An agent has no attribute {name!r}.{advice}", name=name, obj=self)

    def _make_own_prompt(self, subject: str, own: dict[str, Any]) -> None:
        """Create the prompt of the short form from its fields `own`, unless the agent has sides."""
        if self.side_a is not None or self.type == "dual_ai":
            if not own:
                return
            name = next(iter(own))
            of_side = name in ("max_steps", "max_seconds")
            places = "its sides" if of_side else "the prompts of its sides"
            if self.side_a is None:
                error_text = f"is of the type 'dual_ai': give {name}= to {places}."
            elif isinstance(self.side_a, str) and not of_side:
                error_text = f"names the prompt {self.side_a!r}: its {name}= belongs there.{WRITE_PROMPT}"
            else:
                error_text = (
                    f"has a side_a: its {name}= belongs to the {'side' if of_side else 'prompt'} there."
                )
            raise DefinitionError(f"{subject} {error_text}")
        given = own.get("instructions", "")
        if not callable(given):
            check_kind(f"{subject}: instructions", given, (str, Dynamic), "text")
        limits = {name: own.pop(name) for name in ("max_steps", "max_seconds") if name in own}
        try:
            prompt = Prompt(self.name, own.pop("instructions", ""), **own)
        except DefinitionError as error:  # it would name a prompt that the user did not write
            as_prompt, as_agent = f"rompt {self.name!r}", f"gent {self.name!r}"
            message = error.message.replace(f"P{as_prompt}", f"A{as_agent}", 1)
            raise DefinitionError(message.replace(f"the p{as_prompt}", f"the a{as_agent}", 1)) from None
        try:
            object.__setattr__(self, "side_a", Side(prompt, **limits) if limits else prompt)
        except DefinitionError as error:
            raise DefinitionError(f"{subject}: {error.message}") from None

    def _check_people(self, subject: str) -> None:
        """Validate the fields about people, and set the default of `open_to`."""
        if self.open_to is None:
            object.__setattr__(self, "open_to", "members" if self.toolkits else "everyone")
        if isinstance(self.open_to, str) and self.open_to not in get_args(OpenTo):
            raise DefinitionError(
                f"{subject}: open_to must be 'everyone', 'members', 'nobody' or a list of claims, not "
                f"{brief_value(self.open_to)}."
            )
        if not isinstance(self.open_to, str):
            check_list(f"{subject}: open_to", self.open_to, str, "claims")
            if not self.open_to or not all(each.partition("=")[0].strip() for each in self.open_to):
                raise DefinitionError(
                    f"{subject}: open_to must list at least one claim, each with a name, such as 'role=admin'."
                )
        if self.home_tools not in get_args(HomeTools):
            raise DefinitionError(
                f"{subject}: home_tools must be 'own', 'all' or 'none', not {brief_value(self.home_tools)}."
            )
        check_kind(f"{subject}: shared_memory", self.shared_memory, bool, "true or false")

    def _check_sides(self, subject: str) -> None:
        if self.type == "dual_ai":
            check_kind(
                f"{subject}: side_b", self.side_b, (Side, Prompt, str), "a side, a prompt or the name of one"
            )
        elif self.side_b is not None:
            raise DefinitionError(f"{subject} is of the type 'ai_human': a side_b needs type='dual_ai'.")
        turns = self.max_session_turns
        if turns is not None and self.type != "dual_ai":
            raise DefinitionError(
                f"{subject} is of the type 'ai_human': max_session_turns needs type='dual_ai'."
            )
        if turns is not None and (type(turns) is not int or turns < 1):
            raise DefinitionError(
                f"{subject}: max_session_turns must be 1 or more, not {brief_value(turns)}."
            )

    @property
    def servers(self) -> tuple[McpServer | str, ...] | None:
        """Return the MCP servers, with the app's servers by name; None means all servers of the app."""
        return cast("tuple[McpServer | str, ...] | None", self.mcp)

    @property
    def id(self) -> str:
        """The agent's id. For a declared agent it is derived from the name, so it is the same in every process."""
        return f"agt_{_digest(self.name) if self.key is None else self.key}"

    @property
    def entity_id(self) -> str:
        """The id of the agent as a member of spaces."""
        return entity_id_of(self.id)

    @property
    def home_thread_id(self) -> str:
        """The id of the agent's home thread, whose inbox is the agent's inbox."""
        return home_thread_id_of(self.id)

    @property
    def sides(self) -> Mapping[SideName, Side]:
        """The sides by name, as `Side` values."""
        both = {"side_a": self.side_a, "side_b": self.side_b}
        return {
            cast("SideName", name): side if isinstance(side, Side) else Side(side)
            for name, side in both.items()
            if side is not None
        }


for _name in _OWN:
    delattr(Agent, _name)  # the default of an argument; the prompt stores the value


def entity_id_of(agent_id: str) -> str:
    """Return the entity id of the agent with that id."""
    return f"ent_{agent_id.removeprefix('agt_')}"


def home_thread_id_of(agent_id: str) -> str:
    """Return the home thread id of the agent with that id."""
    return f"thr_{agent_id.removeprefix('agt_')}"


def keeper_of(agent_id: str, user_id: str | None) -> str:
    """Return the id under which the agent stores goals, memories, plans, blocks and passages for that user.

    Without a user it is the agent's own id. A query for one id never returns data of another. Slashes and colons in a
    user's id are escaped, because they separate it from the agent's id and from the rest of a timer's name.
    """
    if user_id is None:
        return agent_id
    for mark, escaped in _ESCAPED:
        user_id = user_id.replace(mark, escaped)
    return f"{agent_id}/{user_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The ids and limits of an agent's home tools in a thread.

    `keeper` is the id under which they store data. `person` is the person to whose spaces they are limited, or None.
    `plans` is the id under which plans are stored: each person's plans are separate even if the memory is shared.
    """

    keeper: str
    plans: str
    person: str | None = None


def reach_of(agent: Agent, person: str | None) -> Reach:
    """Return the reach of the agent's home tools in a thread of the given person, or of no person."""
    if person is None or agent.home_tools == "all":
        return Reach(keeper=agent.id, plans=agent.id)
    own = keeper_of(agent.id, person)
    return Reach(keeper=agent.id if agent.shared_memory else own, plans=own, person=person)


def agent_of_keeper(keeper: str) -> str:
    """Return the id of the agent that stores data under that id."""
    return keeper.partition("/")[0]


def user_of_keeper(keeper: str) -> str | None:
    """Return the user for whom data is stored under that id, or None if it is the agent's own."""
    user_id = keeper.partition("/")[2]
    for mark, escaped in reversed(_ESCAPED):
        user_id = user_id.replace(escaped, mark)
    return user_id or None


def agent_id_of(entity_id: str) -> str:
    """Return the agent id that belongs to an entity id. The agent need not exist."""
    return f"agt_{entity_id.removeprefix('ent_')}"


def is_declared_id(agent_id: str) -> bool:
    """Return whether an app declares the agent. Its id is derived from its name; configured agents have longer ids."""
    digits = agent_id.removeprefix("agt_")
    return len(digits) == _DIGITS and digits != agent_id


@lru_cache(maxsize=1_000)
def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
