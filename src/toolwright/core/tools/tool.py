"""Tool: its definition for models, its executor, its effects; the decorator `tool`; tools of other frameworks."""

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, Generic, Literal, TypeAlias, cast, get_args, overload

from pydantic import BaseModel
from pydantic_core import from_json
from typing_extensions import ParamSpec, TypeVar

from toolwright.core.arguments.schema import with_definitions
from toolwright.core.arguments.signature import Handler, Signature, first_paragraph, read_signature
from toolwright.core.arguments.validator import ArgumentValidator, ResultValidator
from toolwright.core.checks import brief_value, check_kind, check_line
from toolwright.core.dependencies.dynamic import Availability, Dynamic, dynamic_of
from toolwright.core.env.env import NamedVariable, Variable, declared_variables
from toolwright.core.errors import DefinitionError, missing_extra
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.limits import OUTSIDE_TIMEOUT
from toolwright.core.model import ToolDefinition
from toolwright.core.schemas.meta import Meta, call_schema, offered
from toolwright.core.schemas.provider_forms import can_be_object
from toolwright.core.schemas.schema_tool import read_schema_tool
from toolwright.core.text import brief
from toolwright.core.threads.decision import hash_of
from toolwright.core.tools.approval import Approval, Requirement, approval_of
from toolwright.core.tools.config import check_tool_lengths, read_tool_config
from toolwright.core.tools.http.execution import HttpExecution
from toolwright.core.tools.mcp import McpCall
from toolwright.core.tools.relations import AgentCall, Handoff, PromptCall, Relation
from toolwright.core.tools.tenvs_needed import Needs

P = ParamSpec("P", default=...)
"""The parameters of a tool's function, any if the tool was not made from one."""
R = TypeVar("R", default=Any)
"""The value that a tool's function returns; for an async function, the coroutine."""
Framework: TypeAlias = Literal["pydantic_ai", "openai_agents", "langchain"]
_FRAMEWORKS: Mapping[Framework, tuple[str, str]] = {
    "pydantic_ai": ("pydantic-ai", "pydantic-ai"),
    "openai_agents": ("the OpenAI Agents SDK", "openai-agents"),
    "langchain": ("LangChain", "langchain"),
}
"""Display names, and the extras that install the required packages."""
_TAKEN_BY: Mapping[str, str] = {
    "langchain_core": "from_langchain",
    "pydantic_ai": "from_pydantic_ai",
    "agents": "from_openai_agents",
}
FUNCTION_TIMEOUT = 300.0
_FLAGS = ("visible", "is_async", "read_only", "idempotent", "destructive", "lenient")
_MAX_SECONDS = 1e9  # seconds, about thirty years: a deadline that a date can represent


def adapter(framework: Framework, function: Literal["native_tools", "tool_of"]) -> Callable[..., Any]:
    """Return a function of the framework's adapter, imported by name: the core does not depend on adapters.

    `native_tools(toolset, state)` returns the framework's tools that call ours. `tool_of(native, …)` returns our tool
    that calls the framework's. Raises `MissingExtra`.
    """
    try:
        return getattr(import_module(f"toolwright.adapters.frameworks.{framework}"), function)
    except ImportError as error:
        called, extra = _FRAMEWORKS[framework]
        raise missing_extra(f"A tool of {called}", extra, error) from error


def check_foreign(value: object) -> None:
    """Raise `DefinitionError` for a tool of another framework. The message names the function that converts it."""
    modules = [each.__module__.partition(".")[0] for each in type(value).__mro__]
    converter = next((_TAKEN_BY[module] for module in modules if module in _TAKEN_BY), None)
    if converter is not None:
        name = brief_value(getattr(value, "name", type(value).__name__))
        raise DefinitionError(
            f"The tool {name} belongs to another framework. Convert it with tw.Tool.{converter}(…)."
        )


Kind: TypeAlias = Literal[
    "function", "prompt", "agent", "gateway", "external", "space", "internal", "mcp", "latent", "delegate"
]
_TIMEOUTS: Mapping[Kind, float] = {
    "function": FUNCTION_TIMEOUT,
    **dict.fromkeys(("gateway", "external", "space", "mcp"), OUTSIDE_TIMEOUT),
}
"""Default timeouts in seconds (D8). All other kinds have no default timeout."""
_WAITING: frozenset[Kind] = frozenset({"external", "space"})
_SHOWN: frozenset[Kind] = frozenset({"gateway", "external", "space"})
_CONFIGURED: frozenset[Kind] = frozenset({"gateway", "external", "space", "internal"})
_NAMED_ELSEWHERE: frozenset[Kind] = frozenset({*_CONFIGURED, "mcp"})
_BY_KIND = float("nan")  # compared by identity; any other NaN is rejected
_SHOWN_BY_KIND = cast("bool", object())  # likewise
_CONFORMING = re.compile(r"[a-z][a-z0-9_]{0,63}")


class ToolNameWarning(UserWarning):
    """A tool's name is valid, but some providers accept it only under an alias (S2 §8.3)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool(Generic[P, R]):
    """A tool, declared once and callable by any agent (S2 §2). Raises `DefinitionError` if a field is invalid.

    `tw.tool` makes one from a function, `from_config` and `from_schema` from JSON.

    Attributes:
        name: The name by which models call it, on one line. Unique among the tools of a prompt.
        description: What the tool does and when to call it, for models. Required, except for a schema tool (S1).
        kind: What executes the calls: `"function"` (default) its handler; `"gateway"` an HTTP request; `"external"` a
            worker; `"space"` a person in the active space; `"internal"` nothing, the arguments are the result;
            `"mcp"`, `"prompt"` and `"agent"` what `relation` names; `"latent"` the model itself; `"delegate"` a
            composed request.
        parameters: JSON Schema of the arguments, which must be an object. Default: no arguments.
        handler: The function of a `"function"` tool. Default: None.
        timeout: Seconds after which a call fails, at most 10**9; None for no limit, which `external` and `space` tools
            must not have (S3). Default, by kind (D8): 300 for a function, 30 for `gateway`, `external`, `space` and
            `mcp`, None for the others.
        grace: Seconds that the function may continue after its run was cancelled. Default: None, which means 0, or 5
            for a call that has read the abort signal.
        visible: Whether calls are shown in the active space. Default, by kind (D10): True for `gateway`, `external` and
            `space`. A `space` tool must be visible.
        is_async: Whether the run continues without waiting for an external result. Default: False.
        expires_in: Seconds for which an external result is accepted, at most 10**9. Default: None, no limit.
        execution: The HTTP request that executes the calls, unless the kind is `"internal"` (D8). Default: None.
        read_only: Whether calls change nothing. An interrupted call is repeated (D14), and several can run at once.
            Default: False.
        idempotent: Whether repeating a call has no further effect. An interrupted call is repeated (D14).
            Default: False.
        destructive: Whether calls can delete or overwrite. Not together with `read_only`. Default: False.
        lenient: Whether arguments are converted before they are validated: JSON text to the object or list that the
            schema requires, the text of a number to the number, and a null for an optional parameter without null to
            its default. The call is recorded as received. Not for `external` and `space` tools, which are executed
            with the recorded arguments. Default: False.
        tenvs: pydantic model of the typed values that the thread must have (S2 §9). Default: None.
        variables: Variables that must have values before a call starts (S0 §3). Default: none.
        relation: What a `"prompt"`, `"agent"` or `"mcp"` tool calls. Set by the runtime.
        meta: Meta-properties of a schema tool, which are removed from `parameters` (S1). Default: None.
        requires_approval: Calls that wait for a person's approval before they start: True (all), a function of the
            arguments (and of the run's `state`), or an `Approval`. Default: None, no calls.
        available: Whether a run can call the tool: a function of its state that returns True or False (see `Dynamic`).
            A tool that is not available is neither sent to the model nor called. Default: None, always.
        signature: The handler's signature, if `tw.tool` made the tool. Any other handler is called as
            `handler(state, arguments)`.
        validator: Validates the arguments of calls. Set by default from `parameters`.
        needs: The fields of `tenvs`. Computed.
        carrier: The kind whose executor executes the calls (D8): `"gateway"` for all HTTP requests. Computed.
        approval: The terms of `requires_approval`. Computed.
        stands_alone: Whether calls wait for nothing and need only their arguments. Computed.
        result_validator: Validates the results of a schema tool, if it declares their schema. Computed.
    """

    name: str
    description: str
    kind: Kind = "function"
    parameters: JSONObject = field(default_factory=lambda: {"type": "object", "properties": {}})
    handler: Handler | None = None
    timeout: float | None = _BY_KIND
    grace: float | None = None
    visible: bool = _SHOWN_BY_KIND
    is_async: bool = False
    expires_in: float | None = None
    execution: HttpExecution | None = None
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    lenient: bool = False
    tenvs: type[BaseModel] | None = None
    variables: Sequence[Variable] = ()
    relation: Relation | None = None
    meta: Meta | None = None
    requires_approval: Requirement = None
    available: Availability | None = None
    signature: Signature | None = field(default=None, repr=False)
    validator: ArgumentValidator | None = field(default=None, repr=False)
    needs: Needs | None = field(default=None, init=False, repr=False)
    carrier: Kind = field(default="function", init=False, repr=False)
    approval: Approval | None = field(default=None, init=False, repr=False)
    stands_alone: bool = field(default=False, init=False, repr=False)
    result_validator: ResultValidator | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise DefinitionError(
                f"The tool kind {brief_value(self.kind)} is unknown. Choose one of {', '.join(get_args(Kind))}."
            )
        if self.timeout is _BY_KIND:
            object.__setattr__(self, "timeout", _TIMEOUTS.get(self.kind))
        if self.visible is _SHOWN_BY_KIND:
            object.__setattr__(self, "visible", self.kind in _SHOWN)
        _check(self)
        if self.available is not None:
            if not (callable(self.available) or isinstance(self.available, Dynamic)):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
                raise DefinitionError(
                    f"Tool {self.name!r}: available must be a function of the run's state, not "
                    f"{brief_value(self.available)}."
                )
            object.__setattr__(self, "available", dynamic_of(self.available))
        object.__setattr__(self, "approval", approval_of(self.requires_approval, f"Tool {self.name!r}"))
        over_http = self.execution is not None and self.kind != "internal"
        object.__setattr__(self, "carrier", "gateway" if over_http else self.kind)
        object.__setattr__(self, "variables", _variables(self))
        object.__setattr__(self, "stands_alone", _stands_alone(self))
        object.__setattr__(self, "needs", None if self.tenvs is None else Needs(self.tenvs, self.name))
        object.__setattr__(self, "result_validator", None)
        if self.meta is not None:
            schema = call_schema(self.name, self.parameters, self.meta, self.latent)
            object.__setattr__(self, "validator", ArgumentValidator(schema, self.name, lenient=self.lenient))
            object.__setattr__(self, "result_validator", _result_validator(self.name, self.meta, self.latent))
        elif self.validator is None or not self.validator.is_of(self.parameters, self.lenient):
            signature = self.signature
            validator = ArgumentValidator(
                self.parameters,
                self.name,
                signature is not None and signature.takes_nothing,
                lenient=self.lenient,
                opened=None if signature is None else signature.opened,
            )
            if signature is None and (usable := validator.compile().schema) is not self.parameters:
                object.__setattr__(self, "parameters", usable)  # without patterns that cannot be validated
                validator = ArgumentValidator(usable, self.name, lenient=self.lenient)
            object.__setattr__(self, "validator", validator)

    @classmethod
    def from_config(cls, config: object, *, prefix: str = "", trusted: bool = True) -> "Tool":
        """Return the tool of a JSON configuration (S3 "Tool Configuration").

        Raises `InvalidConfiguration` with the path of every error, after `prefix`. If it is not `trusted`, its URL
        cannot reach private addresses that the operator has not allowed (D13).
        """
        check_tool_lengths(config, prefix)
        return cls(**read_tool_config(config, prefix, trusted))

    @classmethod
    def from_schema(cls, name: str, schema: object) -> "Tool":
        """Return the tool of a JSON Schema (S1 "Schema as interface"): `latent`, or `delegate` if it names a delegate.

        Raises `InvalidConfiguration` with the path of every error, `DefinitionError` for an invalid name. Makes no
        requests and does not change the schema.
        """
        return cls(**read_schema_tool(name, schema))

    @classmethod
    def from_pydantic_ai(cls, native: object, *, deps: object = None) -> "Tool":
        """Return a tool that calls a `pydantic_ai.Tool`, whose context has these `deps` and the call's id.

        Arguments are validated by its schema, then by the tool itself. `ModelRetry` and `ToolFailed` become error
        results; returned bytes become attachments. Raises `DefinitionError`, `MissingExtra`.
        """
        return adapter("pydantic_ai", "tool_of")(native, deps)

    @classmethod
    def from_langchain(cls, native: object) -> "Tool":
        """Return a tool that calls a LangChain `BaseTool`; errors are error results. Raises like `from_pydantic_ai`."""
        return adapter("langchain", "tool_of")(native)

    @classmethod
    def from_openai_agents(cls, native: object, *, context: object = None) -> "Tool":
        """Return a tool that calls a `FunctionTool` of the OpenAI Agents SDK, whose run context has this `context`.

        Arguments are validated by its schema, then by the tool itself. Raises like `from_pydantic_ai`.
        """
        return adapter("openai_agents", "tool_of")(native, context)

    @property
    def latent(self) -> bool:
        """Return whether the model itself executes the calls, that is, provides their output (D17)."""
        return self.kind == "latent" and self.meta is not None and self.meta.activity is None

    @property
    def offered(self) -> JSONObject:
        """The schema sent to a model: the parameters, and the meta-properties left to each call of a schema tool."""
        return self.parameters if self.meta is None else offered(self.parameters, self.meta, self.latent)

    @property
    def repeatable(self) -> bool:
        """Return whether an interrupted call can be repeated (D14).

        Calls that run in a child or a prompt continue without being repeated.
        """
        continues = self.kind == "delegate" or (self.relation is not None and self.kind != "mcp")
        return self.read_only or self.idempotent or continues

    def kind_of(self, arguments: str) -> Kind:
        """Return the kind that executes a call with these arguments (JSON text), which can choose a delegate."""
        if self.meta is None or "_delegate" not in self.meta.choices:
            return self.kind
        if "_delegate" not in arguments and "\\" not in arguments:  # the name could be escaped
            return self.kind
        try:
            written: JSON = from_json(arguments)
        except ValueError:  # the validation of the arguments reports it
            return self.kind
        return "delegate" if isinstance(written, dict) and written.get("_delegate") is not None else self.kind

    @property
    def delegated(self) -> "Tool":
        """The tool for a call that chooses its delegate itself."""
        delegated = copy(self)
        for name, each in {
            "kind": "delegate",
            "carrier": "delegate",
            "timeout": None,
            "result_validator": None,
        }.items():
            object.__setattr__(delegated, name, each)
        return delegated

    @property
    def definition_hash(self) -> str:
        """A hash of what the tool tells models, of its kind and of what executes it, but not of a function's code."""
        return hash_of([self.name, self.description, self.offered, self.kind, *_target(self)])

    def same_as(self, other: "Tool") -> bool:
        """Return whether both tools have the same declaration, for example if they are made from one function."""
        return self is other or all(getattr(self, each) == getattr(other, each) for each in _DECLARED)

    @property
    def definition(self) -> ToolDefinition:
        """The tool as sent to a model."""
        return ToolDefinition(name=self.name, description=self.description, parameters=self.offered)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the handler directly, without validation and pipeline."""
        if self.handler is None:
            raise TypeError(f"Tool {self.name!r} of the kind {self.kind!r} has no function to call.")
        return cast("R", self.handler(*args, **kwargs))


_DECLARED = tuple(
    [each.name for each in fields(Tool) if each.init and each.name not in ("signature", "validator")]
)


def _target(tool: Tool) -> list[JSON]:
    """Return what executes the tool's calls: its request, its server, agent, prompt or delegate."""
    execution, meta = tool.execution, tool.meta
    request: list[JSON] = [] if execution is None else [execution.method, execution.url]
    chosen: list[JSON] = [] if meta is None else [meta.activity, meta.delegate]
    match tool.relation:
        case McpCall(server=server, tool=name, digest=digest):
            return [server.name, server.url, server.command, [*server.args], name, digest]
        case AgentCall(agent_id=agent_id) | Handoff(agent_id=agent_id):
            return [agent_id]
        case PromptCall(config=config):
            return [config.name]
        case _:
            return [request, chosen]


def _check(tool: Tool) -> None:
    if not isinstance(tool.name, str) or not tool.name.strip():  # type: ignore[redundant-expr]  # user input
        raise DefinitionError(f"A tool needs a name, not {tool.name!r}.")
    check_line("A tool", tool.name)
    has_none = not isinstance(tool.description, str) or not tool.description.strip()  # type: ignore[redundant-expr]  # same
    if has_none and tool.meta is None:
        raise DefinitionError(f"Tool {tool.name!r} needs a description: give description= or a docstring.")
    for name in _FLAGS:
        check_kind(f"Tool {tool.name!r}: {name}", getattr(tool, name), bool, "true or false")
    if tool.timeout is not None and not _is_duration(tool.timeout):
        raise DefinitionError(
            f"Tool {tool.name!r}: timeout must be a positive number of seconds, at most 10**9, or None, "
            f"not {tool.timeout!r}."
        )
    if tool.grace is not None and tool.grace != 0 and not _is_duration(tool.grace):
        raise DefinitionError(
            f"Tool {tool.name!r}: grace must be a number of seconds from 0 to 10**9, or None, not {tool.grace!r}."
        )
    if tool.timeout is None and tool.kind in _WAITING:
        raise DefinitionError(
            f"Tool {tool.name!r} of the kind {tool.kind!r} needs a timeout, so that an agent never waits without end."
        )
    _check_parameters(tool)
    _check_delivery(tool)
    if tool.lenient and tool.kind in _WAITING:
        raise DefinitionError(
            f"Tool {tool.name!r} of the kind {tool.kind!r} cannot be lenient: it is executed elsewhere, with the "
            "arguments as recorded."
        )
    if tool.read_only and tool.destructive:
        raise DefinitionError(f"Tool {tool.name!r} cannot be both read_only and destructive.")
    if tool.kind == "function" and tool.handler is None:
        raise DefinitionError(f"Tool {tool.name!r} of the kind 'function' needs a handler.")
    if tool.handler is not None and not callable(tool.handler):
        raise DefinitionError(
            f"Tool {tool.name!r}: its handler must be a function, not {brief_value(tool.handler)}."
        )
    if tool.kind not in _NAMED_ELSEWHERE and tool.meta is None and not _CONFORMING.fullmatch(tool.name):
        _warn_name(tool.name)


def _check_parameters(tool: Tool) -> None:
    """Raise `DefinitionError` unless the parameters accept an object, because arguments always are one."""
    if not isinstance(tool.parameters, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise DefinitionError(
            f"Tool {tool.name!r}: its parameters must be a JSON Schema as a dict, not "
            f"{brief_value(tool.parameters)}."
        )
    if not can_be_object(tool.parameters):
        raise DefinitionError(
            f"Tool {tool.name!r}: its parameters must be the JSON Schema of an object. "
            f"No object matches {brief(dumps_unescaped(tool.parameters), 200)}."
        )


def _check_delivery(tool: Tool) -> None:
    """Raise `DefinitionError` if fields about the delivery of results do not fit the kind."""
    what = f"Tool {tool.name!r} of the kind {tool.kind!r}"
    if tool.kind not in _CONFIGURED and (tool.execution is not None or tool.is_async or tool.expires_in):
        raise DefinitionError(
            f"{what} takes no execution, is_async or expires_in: its calls are executed here."
        )
    if tool.expires_in is not None and not _is_duration(tool.expires_in):
        raise DefinitionError(
            f"{what}: expires_in must be a positive number of seconds, at most 10**9, or None, not {tool.expires_in!r}."
        )
    if tool.kind == "space" and not tool.visible:
        raise DefinitionError(f"{what} must be visible: people answer it in the space.")
    if tool.execution is not None:
        error = tool.execution.error_with(tool.parameters)
        if error is not None:
            raise DefinitionError(f"{what}: its URL {error}.")


def _variables(tool: Tool) -> tuple[Variable, ...]:
    """Return the declared variables and the variables in the URL and the headers of an HTTP tool (D13)."""
    declared_variables(f"Tool {tool.name!r}", tool.variables)
    declared = {each.name for each in tool.variables}
    in_request = () if tool.execution is None else tool.execution.variables
    return (*tool.variables, *[NamedVariable(name, "secret") for name in in_request if name not in declared])


def _stands_alone(tool: Tool) -> bool:
    signature = tool.signature
    return (
        tool.carrier == "function"
        and tool.handler is not None
        and signature is not None
        and not signature.waits
        and signature.binding.state is None
        and not tool.variables
        and tool.approval is None
        and tool.available is None
        and tool.tenvs is None
        and tool.meta is None
    )


def _result_validator(name: str, meta: Meta, latent: bool) -> ResultValidator | None:
    """Return the validator of outputs, or None for latent tools, whose output is validated with the arguments."""
    if latent or meta.output is None:
        return None
    return ResultValidator(with_definitions(meta.output, meta.definitions), name)


def _is_duration(timeout: object) -> bool:
    return isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout <= _MAX_SECONDS


@functools.cache
def _warn_name(name: str) -> None:
    """Warn once for each name that some providers reject."""
    warnings.warn(
        f"The tool name {name!r} is not of the form [a-z][a-z0-9_]{{0,63}}; it works, but a provider "
        "that refuses it gets an alias.",
        ToolNameWarning,
        stacklevel=6,
    )


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    args: type[BaseModel] | None = None,
    tenvs: type[BaseModel] | None = None,
    variables: Sequence[Variable] = (),
    timeout: float | None = FUNCTION_TIMEOUT,
    grace: float | None = None,
    visible: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    lenient: bool = False,
    requires_approval: Requirement = None,
    available: Availability | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Handler | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    args: type[BaseModel] | None = None,
    tenvs: type[BaseModel] | None = None,
    variables: Sequence[Variable] = (),
    timeout: float | None = FUNCTION_TIMEOUT,
    grace: float | None = None,
    visible: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    lenient: bool = False,
    requires_approval: Requirement = None,
    available: Availability | None = None,
) -> Tool[..., Any] | Callable[[Callable[..., Any]], Tool[..., Any]]:
    """Make a tool from a function (S2 §2): `@tool`, or `@tool(description=…, timeout=…)`.

    The schema comes from the signature, or from `args=Model`; a parameter annotated `ThreadState` is injected.
    Descriptions come from `description=` and `Field(description=…)`, or from a Google docstring. With
    `requires_approval` a call waits for a person's approval before it starts: True for all calls, a function of the
    arguments, and of the run's `state`, that selects calls, or an `Approval` with terms. `available` is a function of
    the run's state that says whether the run can call the tool (see `Dynamic`). `tenvs=Model` declares values that
    the thread requires, read as `state.tenvs` (S2 §9); `variables` declares values of the env, read as
    `await state.env(name)` (S0 §3).
    `timeout` is in seconds, None for no limit. `grace` is the number of seconds that the function may continue after
    its run was cancelled. By default it is cancelled immediately, or after 5 seconds if it has read
    `state.execution.abort_signal`. With `lenient` the usual mistakes of models in arguments are converted before the
    validation: JSON text for an object or a list, a number as text, null for an optional parameter. Raises
    `DefinitionError` naming the tool and the invalid path.
    """
    frame = inspect.currentframe()
    scope: Mapping[str, object] = frame.f_back.f_locals if frame and frame.f_back else {}

    def make(handler: Handler) -> Tool:
        called = _name(handler, name)
        signature = read_signature(handler, name=called, args=args, scope=scope)
        return Tool(
            name=called,
            description=first_paragraph(_doc(handler)) if description is None else description,
            parameters=signature.parameters,
            handler=handler,
            timeout=timeout,
            grace=grace,
            visible=visible,
            read_only=read_only,
            idempotent=idempotent,
            destructive=destructive,
            lenient=lenient,
            tenvs=tenvs,
            variables=variables,
            requires_approval=requires_approval,
            available=available,
            signature=signature,
        )

    return make if function is None else make(function)


def as_tool(callee: object) -> object:
    """Convert a plain function to a tool, as `tool` does. Other values are returned unchanged.

    Raises `DefinitionError` for a tool of another framework.
    """
    if not isinstance(callee, Tool | str):
        check_foreign(callee)
    value = cast("object", callee)  # not a tool with unknown parameters
    is_function = inspect.isroutine(value) or type(value) is functools.partial
    if is_function:
        return tool(cast("Handler", value))
    return cast("object", value)


def as_tools(callees: object) -> object:
    """Convert the plain functions in a list to tools. A value that is not a list is returned unchanged."""
    if isinstance(callees, str | bytes | Mapping) or not isinstance(callees, Iterable):
        return cast("object", callees)
    return [as_tool(each) for each in cast("Iterable[object]", callees)]


def _name(handler: Handler, name: str | None) -> str:
    if not callable(handler) or isinstance(handler, type | Tool):
        raise DefinitionError(f"A tool must be made from a function, not from {handler!r}.")
    if name is not None:
        return name
    inner = handler.func if isinstance(handler, functools.partial) else handler
    own = getattr(inner, "__name__", "")
    if not own or own == "<lambda>":
        raise DefinitionError(f"{handler!r} has no name. Give it one with name=.")
    return str(own)


def _doc(handler: Handler) -> str | None:
    inner = handler.func if isinstance(handler, functools.partial) else handler
    return inner.__doc__
