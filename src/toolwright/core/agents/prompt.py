"""Prompt: system text, model, model settings, context policy and tools."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TypeAlias, cast, get_args

from pydantic import BaseModel

from toolwright.core.agents.model_settings import MAX_TOKENS, declared_settings, whole_number
from toolwright.core.arguments.signature import Handler, read_required
from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.checks import (
    brief_value,
    check_callee,
    check_kind,
    check_list,
    check_name,
    is_number,
    refuse_fields,
)
from toolwright.core.dependencies.dynamic import Dynamic, Instructions, dynamic_of
from toolwright.core.env.env import EnvVar, Variable, declared_variables, name_error, read_env, stored_only
from toolwright.core.errors import DefinitionError, InvalidJSON, InvalidRequest
from toolwright.core.hooks import Hooks, check_hooks
from toolwright.core.json_value import JSON, JSONObject, plain_names
from toolwright.core.model import SMALL_MODEL, Model, ModelSettings, Reasoning, ToolChoice, check_model
from toolwright.core.schemas.output import Output
from toolwright.core.tools.relations import AgentTool, SubagentToolConfig, SubpromptConfig
from toolwright.core.tools.tool import Tool, as_tools

MAX_PARALLEL = 100  # maximum number of calls of one answer that run at once
MIN_TOKENS = 1_000
ANSWER_TOKENS = 16_384  # reserved for an answer if the model settings do not limit it
MAX_INSTRUCTIONS = 20_000  # characters
_CONTEXT_HINTS = {
    "max_messages": "A context is counted in tokens: give max_tokens=.",
    "tokens": "Give max_tokens=.",
    "model": "The model that summarizes is summarize_with=.",
}


def check_parallel(subject: str, parallel: object) -> None:
    """Raise `DefinitionError` unless the value is None or a valid number of concurrent calls."""
    if parallel is not None and not whole_number(1, MAX_PARALLEL + 1)(parallel):
        raise DefinitionError(
            f"{subject}: parallel must be a number of calls from 1 to {MAX_PARALLEL}, not {brief_value(parallel)}."
        )


SummaryModel: TypeAlias = str | Model | object | None


@refuse_fields(_CONTEXT_HINTS)
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Token limit of the requests to a model, and how older parts of a conversation are shortened.

    Raises `DefinitionError` if a field is invalid.

    Attributes:
        max_tokens: Maximum number of tokens of a request: system text, tools and messages, 1,000 or more. Default:
            None, the model's context window less the room for its answer; if the window is unknown, no limit until the
            provider reports one.
        start_at: Share of the tokens (between 0 and 1) at which the conversation is shortened: old tool results become
            references that the model can open with `read_result`, then older turns become a summary, or are omitted
            with a note. The share is of the tokens that remain of `max_tokens` after the system text and the tools.
            Default: 0.75.
        keep: Share of the same tokens, less than `start_at`, up to which the newest messages are left unchanged.
            Default: 0.3.
        summarize: Whether older turns become a summary. If False, they are omitted with a note. Default: True.
        summarize_with: The model that writes summaries, a name or a model object. Default: None, the agent's own.
        instructions: What summaries must contain, at most 20,000 characters. Default: "".
    """

    max_tokens: int | None = None
    start_at: float = 0.75
    keep: float = 0.3
    summarize: bool = True
    summarize_with: SummaryModel = None
    instructions: str = ""

    def __post_init__(self) -> None:
        most = self.max_tokens
        if most is not None and not whole_number(MIN_TOKENS, MAX_TOKENS)(most):
            raise DefinitionError(
                f"Context: max_tokens must be a number of tokens from {MIN_TOKENS} to {MAX_TOKENS - 1}, not "
                f"{brief_value(most)}."
            )
        for name in ("start_at", "keep"):
            share = getattr(self, name)
            if not is_number(share) or not 0 < share < 1:
                raise DefinitionError(
                    f"Context: {name} must be a number between 0 and 1, not {brief_value(share)}."
                )
        if self.keep >= self.start_at:
            raise DefinitionError(
                f"Context: keep ({self.keep:g}) must be less than start_at ({self.start_at:g})."
            )
        check_kind("Context: summarize", self.summarize, bool, "true or false")
        check_model("Context: summarize_with", self.summarize_with, SMALL_MODEL)
        check_kind("Context: instructions", self.instructions, str, "text")
        if len(self.instructions) > MAX_INSTRUCTIONS:
            raise DefinitionError(f"Context: instructions must have at most {MAX_INSTRUCTIONS} characters.")

    def budget(self, window: int | None, answer: int | None) -> int | None:
        """Return the maximum number of tokens of a request, or None for no limit.

        `window` is the model's context window in tokens, `answer` the maximum number of tokens of its answer.
        """
        if self.max_tokens is not None or window is None:
            return self.max_tokens
        return max(window - min(answer or ANSWER_TOKENS, window // 2), window // 4)


DEFAULT_CONTEXT = Context()


Env: TypeAlias = Mapping[str, EnvVar | str | Mapping[str, JSON]]
"""Values by name, each a text (a secret) or `{"value": …, "type": "text"}`."""

Callee: TypeAlias = (
    Tool | Handler | str | AgentTool | SubpromptConfig | SubagentToolConfig | Mapping[str, JSON]
)
"""Something that a prompt can call.

A tool; a plain function, which is converted to a tool; `agent.as_tool(…)`; the name of a tool, prompt or agent of the
app (an agent's name hands the conversation over); or a `SubpromptConfig` or `SubagentToolConfig`.
"""

EFFORTS = get_args(get_args(Reasoning)[0])


@dataclass(frozen=True, slots=True)
class Prompt:
    """Instructions for a model, with the model, its settings and the tools that it can call.

    Raises `DefinitionError` if a field is invalid.

    Attributes:
        name: The name by which sides and other prompts refer to it. Unique in the app.
        prompt: The system text, or a function of the run's state that returns it (see `Dynamic`). Default: "".
        model: A name such as `openai:gpt-6.1-terra`, a model object (ours or pydantic-ai's), or None (default) for the
            model of the settings.
        tools: Tools or plain functions, names of the app's tools, prompts and agents, and `SubpromptConfig`,
            `SubagentToolConfig` or `agent.as_tool(…)`. An agent's name hands the conversation over to it.
            Default: none.
        tool_choice: `"auto"` (default) lets the model choose, `"required"` makes it call a tool before it can answer in
            a run, `"none"` prevents calls.
        tenvs: Typed values by name, defaults that the agent's and the thread's override (S2 §9.4). Default: none.
        env: Variables by name, text (a secret) or `{"value": …, "type": "text"}`: the last layer of `state.env(name)`
            (D5). Default: none.
        tool_description: When to call the prompt, for the models of its callers. Required with `expose_as_tool`.
        include_chat: Whether the prompt, called as a tool, sees the caller's conversation (S0 §4). Default: False.
        include_past_tools: Whether it also sees the calls of that conversation and their results. Default: False.
        required_schema: pydantic model of its arguments as a tool. Default: None, which is `{"message": text}`.
        reasoning: Effort of the model's reasoning: `"minimal"`, `"low"`, `"medium"`, `"high"`, `"xhigh"`, `"max"`,
            True (the model decides), False (as little as possible) or None (default, not sent).
        variables: Variables that it requires. The run waits until the required ones have values (S0 §3). Default: none.
        expose_as_tool: Whether other prompts can call it by its name. Default: False.
        output: The type of the answer: a JSON Schema, or a type such as a pydantic model. An invalid answer is returned
            to the model with its errors, at most twice; then the run fails. Default: None, any text.
        model_settings: Settings of the model by pydantic-ai's names, as far as the provider supports them:
            `temperature`, `max_tokens` (of an answer), `timeout` (seconds), `extra_headers`, `openai_service_tier`, …
            Default: the provider's.
        context: Token limit of its requests, and how conversations are shortened. Default: the agent's, or the app's.
        parallel: Maximum number of calls of one answer that run at once, 1 to 100. Only calls of `read_only` tools
            run at once. Default: the agent's, or the app's, or 1.
        hooks: Hooks of its requests, answers and calls, see `tw.Hooks`. They are asked after those of the app and of
            the agent. Default: none.
    """

    name: str
    prompt: str | Instructions = ""
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
    hooks: Sequence[Hooks] = ()

    def __post_init__(self) -> None:
        check_name("A prompt", self.name)
        subject = f"Prompt {self.name!r}"
        check_values(subject, self.tenvs, self.env)
        check_model(f"{subject}: model", self.model)
        if not isinstance(self.prompt, str) and callable(self.prompt):
            object.__setattr__(self, "prompt", dynamic_of(self.prompt))
        check_kind(f"{subject}: prompt", self.prompt, (str, Dynamic), "text")
        if self.tool_choice not in get_args(ToolChoice):
            raise DefinitionError(f"{subject}: tool_choice must be one of {get_args(ToolChoice)}.")
        if self.reasoning is not None and type(self.reasoning) is not bool and self.reasoning not in EFFORTS:
            efforts = ", ".join(map(repr, EFFORTS))
            raise DefinitionError(
                f"{subject}: reasoning is {efforts}, true or false, not {brief_value(self.reasoning)}."
            )
        object.__setattr__(self, "tools", as_tools(self.tools))
        kinds = (Tool, str, AgentTool, SubpromptConfig, SubagentToolConfig, Mapping)
        expected = "tools, names of the app's tools, prompts and agents, and how these are called"
        if isinstance(self.tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            for each in self.tools:
                check_callee(f"{subject}: tools", each)
        check_list(f"{subject}: tools", self.tools, kinds, expected)
        for name in ("include_chat", "include_past_tools", "expose_as_tool"):
            check_kind(f"{subject}: {name}", getattr(self, name), bool, "true or false")
        object.__setattr__(self, "model_settings", declared_settings(subject, self.model_settings))
        declared_variables(subject, self.variables)
        check_kind(f"{subject}: context", self.context, (Context, NoneType), "a tw.Context")
        check_parallel(subject, self.parallel)
        object.__setattr__(self, "hooks", check_hooks(subject, self.hooks))
        check_exposed(subject, self.expose_as_tool, self.tool_description)
        self._set_output(subject)
        self.parameters()  # an invalid schema is reported here
        keep(self, "tools", "variables", "tenvs", "env")

    @property
    def dynamic(self) -> Dynamic | None:
        """The function that returns the system text of a run, or None for a text."""
        return self.prompt if isinstance(self.prompt, Dynamic) else None

    @property
    def text(self) -> str:
        """The system text, or a note that names the function which returns it."""
        if isinstance(self.prompt, str):
            return self.prompt
        return f"[The function {dynamic_of(self.prompt).name!r} returns the instructions.]"

    def _set_output(self, subject: str) -> None:
        """Validate the declared output and store it as the form that validates answers."""
        if self.output is None:
            return
        if self.expose_as_tool:
            raise DefinitionError(f"{subject} is exposed as a tool, so it cannot have an output.")
        if not isinstance(self.output, Output):
            output = Output(self.output, f"The output schema of the prompt {self.name!r}")
            object.__setattr__(self, "output", output)

    def parameters(self, *properties: str | None) -> JSONObject:
        """Return the JSON Schema of its arguments as a tool: its own schema, or a message and these text properties."""
        if self.required_schema is not None:
            return read_required(self.required_schema, self.name)[0]
        names = [name for name in properties if name is not None]
        schemas: JSONObject = {name: {"type": "string"} for name in ["message", *names]}
        return {
            "type": "object",
            "properties": schemas,
            "required": [names[0] if properties and properties[0] is not None else "message"],
            "additionalProperties": False,
        }

    def argument_validator(self, parameters: JSONObject) -> ArgumentValidator | None:
        """Return the validator of arguments by the declared model, or None if there is no model."""
        if self.required_schema is None:
            return None
        validator = ArgumentValidator(
            parameters, self.name, complete=read_required(self.required_schema, self.name)[1]
        )
        validator.compile()
        return validator


def keep(declared: object, *names: str) -> None:
    """Replace these fields by copies, so that later changes of the original objects do not change the declaration."""
    for name in names:
        object.__setattr__(declared, name, deep_copy(getattr(declared, name)))


def deep_copy(value: object) -> object:
    """Copy nested dicts and lists. Other values are shared."""
    if isinstance(value, Mapping):
        return {name: deep_copy(each) for name, each in cast("Mapping[object, object]", value).items()}
    return [deep_copy(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


def check_values(subject: str, tenvs: object, env: object) -> None:
    """Raise `DefinitionError` unless tenvs are a JSON object and env is text by name. Messages contain no values."""
    try:
        values = plain_names(tenvs)
        if not isinstance(values, dict):
            raise DefinitionError(f"{subject}: tenvs must be a dict of names and values.")
        error_text = next(
            (error_text for error_text in map(name_error, values) if error_text is not None), None
        )
        if error_text is not None:
            raise DefinitionError(f"{subject}: tenvs has the name {error_text}.")
        stored_only(read_env(env))
    except InvalidJSON as error:
        raise DefinitionError(f"{subject}: tenvs must be JSON: {error.message}") from error
    except InvalidRequest as error:
        raise DefinitionError(f"{subject}: {error.message}") from error


def check_exposed(subject: str, exposed: bool, description: object) -> None:
    """Raise `DefinitionError` if an exposed tool has no description."""
    check_kind(f"{subject}: tool_description", description, str, "text")
    if exposed and not cast("str", description).strip():  # its type was checked before
        raise DefinitionError(f"{subject} is exposed as a tool and needs a tool_description.")
