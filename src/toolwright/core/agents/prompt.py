"""A prompt: what a model is told, which model, and what it may call."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TypeAlias, cast, get_args

from pydantic import BaseModel

from toolwright.core.agents.model_settings import Context, check_parallel, declared_settings
from toolwright.core.arguments.judge import Judge
from toolwright.core.arguments.signature import Handler, read_required
from toolwright.core.checks import brief_value, check_callee, check_kind, check_list, check_name
from toolwright.core.env.env import EnvVar, faulty_name, read_env, stored_only
from toolwright.core.env.variable import Variable, declared_variables
from toolwright.core.errors import DefinitionError, InvalidJSON, InvalidRequest
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import Model, ModelSettings, Reasoning, ToolChoice, check_model
from toolwright.core.plain import plain_names
from toolwright.core.schemas.output import Output
from toolwright.core.tools.decorator import as_tools
from toolwright.core.tools.relations import AgentTool, SubagentToolConfig, SubpromptConfig
from toolwright.core.tools.tool import Tool

Env: TypeAlias = Mapping[str, EnvVar | str | Mapping[str, JSON]]
"""Values by name, each a text (a secret) or `{"value": …, "type": "text"}`."""

Callee: TypeAlias = (
    Tool | Handler | str | AgentTool | SubpromptConfig | SubagentToolConfig | Mapping[str, JSON]
)
"""Callee of a prompt: a tool; a plain function, which becomes one; `agent.as_tool(…)`; a tool, prompt or agent of the
app by its name (an agent's name hands the conversation over); one of the last two with how it is called."""

EFFORTS = get_args(get_args(Reasoning)[0])


@dataclass(frozen=True, slots=True)
class Prompt:
    """Instructions, a model and tools.

    `model` is a name such as `openai:gpt-5`, a model object (ours or pydantic-ai's), or None for the model of the
    settings; `reasoning` is the reasoning effort. `tools` are tools or plain functions, names of the app's tools,
    prompts and agents, and `SubpromptConfig` or `SubagentToolConfig`. The run waits until the required `variables`
    have values (S0 §3). `model_settings` are `temperature`, `top_p`, `max_tokens`, `seed`, `stop_sequences`,
    `presence_penalty` and `frequency_penalty`, as far as the provider takes them.
    `tenvs` are defaults, overridden by the agent's and the thread's (S2 §9.4); `env` is the last layer of
    `state.env(name)` (D5).

    A prompt with `expose_as_tool` is called with the arguments of `required_schema`, and described by
    `tool_description`. It sees the caller's conversation only with `include_chat`, and the tools called there only
    with `include_past_tools` (S0 §4).

    `output` declares the answer's type: a JSON Schema, or a type such as a pydantic model. An invalid answer is
    returned to the model twice, then the run fails. A valid one is the run's `output`.

    `context` limits the length of its requests and says how conversations are shortened; by default the agent's, or
    the app's. `parallel` is the maximum number of an answer's calls that run at once: only calls of `read_only`
    tools do; by default the agent's, or the app's, or 1.
    """

    name: str
    prompt: str = ""
    model: str | Model | object | None = None
    tools: Sequence[Callee] = ()
    tool_choice: ToolChoice = "auto"
    tenvs: Mapping[str, JSON] = field(default_factory=dict[str, JSON], repr=False)
    env: Env = field(default_factory=dict[str, str], repr=False)
    tool_description: str = ""
    include_chat: bool = False
    include_past_tools: bool = False
    required_schema: type[BaseModel] | None = None
    reasoning: Reasoning = None
    variables: Sequence[Variable] = ()
    expose_as_tool: bool = False
    output: object | None = None
    model_settings: ModelSettings | Mapping[str, object] | None = None
    context: Context | None = None
    parallel: int | None = None

    def __post_init__(self) -> None:
        check_name("A prompt", self.name)
        whose = f"Prompt {self.name!r}"
        check_values(whose, self.tenvs, self.env)
        check_model(f"{whose}: model", self.model)
        check_kind(f"{whose}: prompt", self.prompt, str, "text")
        if self.tool_choice not in get_args(ToolChoice):
            raise DefinitionError(f"{whose}: tool_choice must be one of {get_args(ToolChoice)}.")
        if self.reasoning is not None and type(self.reasoning) is not bool and self.reasoning not in EFFORTS:
            efforts = ", ".join(map(repr, EFFORTS))
            raise DefinitionError(
                f"{whose}: reasoning is {efforts}, true or false, not {brief_value(self.reasoning)}."
            )
        object.__setattr__(self, "tools", as_tools(self.tools))
        kinds = (Tool, str, AgentTool, SubpromptConfig, SubagentToolConfig, Mapping)
        wanted = "tools, names of the app's tools, prompts and agents, and how these are called"
        if isinstance(self.tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            for each in self.tools:
                check_callee(f"{whose}: tools", each)
        check_list(f"{whose}: tools", self.tools, kinds, wanted)
        for name in ("include_chat", "include_past_tools", "expose_as_tool"):
            check_kind(f"{whose}: {name}", getattr(self, name), bool, "true or false")
        object.__setattr__(self, "model_settings", declared_settings(whose, self.model_settings))
        declared_variables(whose, self.variables)
        check_kind(f"{whose}: context", self.context, (Context, NoneType), "a tw.Context")
        check_parallel(whose, self.parallel)
        check_exposed(whose, self.expose_as_tool, self.tool_description)
        self._keep_output(whose)
        self.parameters()  # an invalid schema is told of here
        keep(self, "tools", "variables", "tenvs", "env")

    def _keep_output(self, whose: str) -> None:
        """Validate the output, and keep what answers are validated by."""
        if self.output is None:
            return
        if self.expose_as_tool:
            raise DefinitionError(f"{whose} is exposed as a tool, and so can have no output.")
        if not isinstance(self.output, Output):
            output = Output(self.output, f"The output schema of the prompt {self.name!r}")
            object.__setattr__(self, "output", output)

    def parameters(self, *properties: str | None) -> JSONObject:
        """Return the JSON Schema of its arguments as a tool: its own, or a message and these texts."""
        if self.required_schema is not None:
            return read_required(self.required_schema, self.name)[0]
        named = [name for name in properties if name is not None]
        schemas: JSONObject = {name: {"type": "string"} for name in ["message", *named]}
        return {
            "type": "object",
            "properties": schemas,
            "required": [named[0] if properties and properties[0] is not None else "message"],
            "additionalProperties": False,
        }

    def judge(self, parameters: JSONObject) -> Judge | None:
        """Return the judge of arguments with these parameters by the declared model, or None if there is no model."""
        if self.required_schema is None:
            return None
        judge = Judge(parameters, self.name, complete=read_required(self.required_schema, self.name)[1])
        judge.compile()
        return judge


def keep(declared: object, *names: str) -> None:
    """Make these fields copies of what was given: who changes that later changes nothing that is declared."""
    for name in names:
        object.__setattr__(declared, name, deep_copy(getattr(declared, name)))


def deep_copy(value: object) -> object:
    """A copy of dicts and lists, and of those within them; all else is as it is."""
    if isinstance(value, Mapping):
        return {name: deep_copy(each) for name, each in cast("Mapping[object, object]", value).items()}
    return [deep_copy(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


def check_values(whose: str, tenvs: object, env: object) -> None:
    """Refuse tenvs that are no JSON object, and env that is not texts by name. No value is in the words."""
    try:
        named = plain_names(tenvs)
        if not isinstance(named, dict):
            raise DefinitionError(f"{whose}: tenvs must be a dict of names and values.")
        fault = next((fault for fault in map(faulty_name, named) if fault is not None), None)
        if fault is not None:
            raise DefinitionError(f"{whose}: tenvs has the name {fault}.")
        stored_only(read_env(env))
    except InvalidJSON as error:
        raise DefinitionError(f"{whose}: tenvs must be JSON: {error.message}") from error
    except InvalidRequest as error:
        raise DefinitionError(f"{whose}: {error.message}") from error


def check_exposed(whose: str, exposed: bool, description: object) -> None:
    """Raises `DefinitionError` for an exposed tool without a description."""
    check_kind(f"{whose}: tool_description", description, str, "text")
    if exposed and not cast("str", description).strip():  # as just declared
        raise DefinitionError(f"{whose} is exposed as a tool and needs a tool_description.")
