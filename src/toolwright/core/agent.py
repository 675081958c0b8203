"""Agents, their sides and their prompts: definitions, nothing that runs."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Literal, TypeAlias, get_args

from toolwright.core.asked import declared, declared_line, declared_list, declared_name, shown
from toolwright.core.env import EnvVar, read_env, stored_only
from toolwright.core.errors import DefinitionError, InvalidJSON, InvalidRequest
from toolwright.core.json_value import JSON
from toolwright.core.model import Model, ToolChoice
from toolwright.core.plain import plain
from toolwright.core.tool import Tool
from toolwright.core.toolkits import faulty_toolkits

Env: TypeAlias = Mapping[str, EnvVar | str | Mapping[str, JSON]]
"""Values by name, each a text (a secret) or `{"value": …, "type": "text"}`."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """System text, a model and the tools it may call.

    `model` is a name such as `openai:gpt-5`, a model object (ours or pydantic-ai's), or None for the one in the
    settings. `tools` are tools, or names of the app's tools. `tenvs` are the lowest of the values that a
    thread's tools are promised (S2 §9.4), `env` is where `state.env(name)` is looked for last (D5).
    """

    name: str
    prompt: str = ""
    model: str | Model | object | None = None
    tools: Sequence[Tool | str] = ()
    tool_choice: ToolChoice = "auto"
    tenvs: Mapping[str, JSON] = field(default_factory=dict[str, JSON], repr=False)
    env: Env = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        declared_name("A prompt", self.name)
        whose = f"Prompt {self.name!r}"
        check_values(whose, self.tenvs, self.env)
        if not _is_model(self.model):
            raise DefinitionError(
                f"{whose}: model must be a name such as 'openai:gpt-5' or a model object, not {self.model!r}."
            )
        declared(f"{whose}: prompt", self.prompt, str, "text")
        if self.tool_choice not in get_args(ToolChoice):
            raise DefinitionError(f"{whose}: tool_choice must be one of {get_args(ToolChoice)}.")
        declared_list(f"{whose}: tools", self.tools, (Tool, str), "tools and names of the app's tools")


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an agent: the prompt that speaks, by name or itself, and the most steps of one run."""

    prompt: str | Prompt
    label: str | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        declared("The prompt of a side", self.prompt, (Prompt, str), "a prompt or the name of one")
        declared("The label of a side", self.label, (str, NoneType), "text")
        if self.max_steps is not None and (type(self.max_steps) is not int or self.max_steps < 1):
            raise DefinitionError(f"max_steps must be 1 or more, not {shown(self.max_steps)}.")


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: who answers in a thread. `side_a` is a side, or a prompt (by name or itself) as its only part.

    `tenvs` come before the prompt's and after the thread's (S2 §9.4). `env` are the agent's values (D5), and
    `user_env` names what a person may set in a thread of their own (D24). `toolkits` are built-in tools, by kit.
    With `inbox_preview` a line at each step tells what has come for the next run. `key` and `revision` are those of
    an agent that is configured as JSON; `tool_env` are its values for single tools, by the tool's name.
    """

    name: str
    side_a: Side | Prompt | str
    type: Literal["ai_human"] = "ai_human"
    description: str = ""
    tenvs: Mapping[str, JSON] = field(default_factory=dict[str, JSON], repr=False)
    env: Env = field(default_factory=dict[str, str], repr=False)
    user_env: Sequence[str] = ()
    toolkits: Sequence[str] = ()
    inbox_preview: bool = False
    key: str | None = field(default=None, repr=False)
    revision: int | None = field(default=None, repr=False)
    tool_env: Mapping[str, Env] = field(default_factory=dict[str, Env], repr=False)

    def __post_init__(self) -> None:
        declared_name("An agent", self.name)
        if self.key is None:  # one that is kept was looked at when it was configured
            declared_line("An agent", self.name)
        whose = f"Agent {self.name!r}"
        declared(f"{whose}: side_a", self.side_a, (Side, Prompt, str), "a side, a prompt or the name of one")
        if self.type != "ai_human":  # pyright: ignore[reportUnnecessaryComparison]  # user input
            raise DefinitionError(f"{whose}: type must be 'ai_human', not {shown(self.type)}.")
        declared(f"{whose}: description", self.description, str, "text")
        check_values(whose, self.tenvs, self.env)
        declared_list(f"{whose}: user_env", self.user_env, str, "names")
        declared_list(f"{whose}: toolkits", self.toolkits, str, "names of toolkits")
        fault = faulty_toolkits(self.toolkits)
        if fault is not None:
            raise DefinitionError(f"{whose}: {fault}")

    @property
    def id(self) -> str:
        """The agent's id. One that the app declares has it from its name: it is the same in every process."""
        return f"agt_{_digest(self.name) if self.key is None else self.key}"

    @property
    def entity_id(self) -> str:
        """The id of the agent as a member of spaces."""
        return entity_id_of(self.id)

    @property
    def home_thread_id(self) -> str:
        """The id of the thread that is the agent's own; its inbox is the agent's."""
        return home_thread_id_of(self.id)

    @property
    def side(self) -> Side:
        """`side_a`, always as a side."""
        return self.side_a if isinstance(self.side_a, Side) else Side(self.side_a)


def entity_id_of(agent_id: str) -> str:
    """The entity of the agent with that id."""
    return f"ent_{agent_id.removeprefix('agt_')}"


def home_thread_id_of(agent_id: str) -> str:
    """The home thread of the agent with that id."""
    return f"thr_{agent_id.removeprefix('agt_')}"


def agent_id_of(entity_id: str) -> str:
    """The id that the agent with that entity would have; whether there is one is another question."""
    return f"agt_{entity_id.removeprefix('ent_')}"


def check_values(whose: str, tenvs: object, env: object) -> None:
    """Refuse tenvs that are no JSON object, and env that is not texts by name. No value is in the words."""
    try:
        if not isinstance(plain(tenvs), dict):
            raise DefinitionError(f"{whose}: tenvs must be a dict of names and values.")
        stored_only(read_env(env))
    except InvalidJSON as error:
        raise DefinitionError(f"{whose}: tenvs must be JSON: {error.message}") from error
    except InvalidRequest as error:
        raise DefinitionError(f"{whose}: {error.message}") from error


def _is_model(model: object) -> bool:
    if model is None or isinstance(model, str):
        return True
    speaks = hasattr(model, "respond") or hasattr(model, "request_stream")  # ours, or pydantic-ai's
    return speaks and not isinstance(model, type)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:20]
