"""Toolsets: tools described for any model, and called by name."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from toolwright.core.arguments.signature import Handler
from toolwright.core.arguments.validator import RawArguments
from toolwright.core.checks import brief_value, check_callee, check_kind
from toolwright.core.dependencies.dynamic import Availability, Dynamic, dynamic_of, is_true
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError, FunctionFailed, InvalidJSON
from toolwright.core.json_value import JSON, JSONObject, dumps, plain
from toolwright.core.model import ToolDefinition
from toolwright.core.results import ToolResult
from toolwright.core.schemas.provider_forms import ProviderForm, ToolError, alias_of, provider_form
from toolwright.core.schemas.provider_rules import PropertyNames, Provider
from toolwright.core.state.memory import MemoryState
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.approval import Requirement, is_needed, needs_approval
from toolwright.core.tools.function import FunctionExecutor, call_at_once, ends_at_once
from toolwright.core.tools.pipeline import (
    Executor,
    PreparedCall,
    answer_internal,
    answer_latent,
    carry_out,
    execute,
    missing_variables,
    missing_variables_error,
    prepare,
    unknown_tool,
)
from toolwright.core.tools.tool import Kind, Tool, adapter, as_tool
from toolwright.core.value import Value, changed

log = logger("toolwright.tools")
Format: TypeAlias = Literal["openai", "anthropic", "mcp"]


class RenamedTool(Value):
    """A tool that was sent to a model under another name, or with other property names."""

    name: str
    names: PropertyNames | None

    def arguments(self, args: RawArguments) -> RawArguments:
        """Return the arguments with the names of the tool's own schema. Invalid JSON is returned unchanged."""
        if self.names is None:
            return args
        if isinstance(args, bytes):
            return self.names.real(args.decode("utf-8", "replace"))
        if isinstance(args, str):
            return self.names.real(args)
        if not isinstance(args, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            return args
        try:
            return self.names.real(dumps(plain(dict(args))))
        except InvalidJSON:
            return args  # validation reports the error

    def result(self, result: ToolResult) -> ToolResult:
        """Return the result, with argument errors under the names that were sent to the model."""
        if self.names is None or result.error is None or result.error_code != "invalid_arguments":
            return result
        return changed(result, error=self.names.with_model_names(result.error))


class Toolset:
    """Tools by name, in order. Raises `DefinitionError` if two share a name (D18).

    Plain functions are converted as by `tool`. `executors` execute kinds other than `function`, `internal` and `latent`
    when the tools are called outside a run. The executor of `gateway` executes all HTTP calls.
    """

    def __init__(
        self, tools: Iterable[Tool | Handler] = (), *, executors: Mapping[Kind, Executor] | None = None
    ) -> None:
        check_kind("The tools of a toolset", tools, Iterable, "a list")
        self._tools: dict[str, Tool] = {}
        for each in tools:
            tool = as_tool(each)
            if not isinstance(tool, Tool):
                check_callee("A toolset", tool)
                raise DefinitionError(f"A toolset must contain tools, not {brief_value(tool)}.")
            if tool.name in self._tools:
                raise DefinitionError(f"Two tools are called {tool.name!r}; rename one or use .prefixed().")
            self._tools[tool.name] = tool
        self._executors: dict[Kind, Executor] = {**(executors or {})}
        functions = self._executors.setdefault("function", FunctionExecutor())
        self._calls_functions = type(functions) is FunctionExecutor
        self._executors.setdefault("internal", answer_internal)
        self._executors.setdefault("latent", answer_latent)
        self._rendered: dict[tuple[Format, Provider | None], str] = {}
        self._renamed: dict[str, RenamedTool] = {}

    @cached_property
    def model_definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools for a model adapter; returns the same object each time."""
        return tuple(tool.definition for tool in self)

    def definitions(self, format: Format = "openai", *, provider: Provider | None = None) -> list[JSONObject]:
        """Return the tools in the format of OpenAI's chat completions, Anthropic's messages or MCP, as a new list.

        With a `provider` each tool is sent in a form that the provider accepts. Tools without such a form are omitted
        (see `faults`), and `call` accepts the names that were sent to the model.
        """
        if not isinstance(format, str) or format not in _FORMS:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise DefinitionError(
                f"The format {format!r} is unknown. Choose one of {', '.join(map(repr, _FORMS))}."
            )
        if (format, provider) not in self._rendered:
            definitions = [form.definition for form in self._forms(provider)]
            listed = [_FORMS[format](self[self._own_name(each.name)], each) for each in definitions]
            self._rendered[format, provider] = dumps(listed)
        return json.loads(self._rendered[format, provider])

    def faults(self, provider: Provider) -> list[ToolError]:
        """Return the tools that `definitions` omits for this provider, with the reasons."""
        forms = [provider_form(tool.definition, _check_provider(provider)) for tool in self]
        return [form for form in forms if isinstance(form, ToolError)]

    def renamed(self, name: str) -> RenamedTool | None:
        """Return the tool for a renamed tool's name as sent to a model, or None for a tool's own name."""
        return self._renamed.get(name)

    def _forms(self, provider: Provider | None) -> Iterator[ProviderForm]:
        for tool in self:
            definition = tool.definition
            form = (
                ProviderForm(definition=definition)
                if provider is None
                else provider_form(definition, _check_provider(provider))
            )
            if isinstance(form, ToolError):
                continue
            if provider is not None:
                alias = alias_of(tool.name)
                if alias != tool.name or form.names is not None:
                    self._renamed[alias] = RenamedTool(name=tool.name, names=form.names)
                form = changed(form, definition=changed(form.definition, name=alias))
            yield form

    def _own_name(self, sent: str) -> str:
        return self._renamed[sent].name if sent in self._renamed else sent

    async def call(self, name: str, args: RawArguments, state: ThreadState | None = None) -> ToolResult:
        """Call a tool by name with JSON text or an object.

        A failure of the tool, including invalid arguments, an unknown name or missing variables, is returned as an
        error result and never raised. Without a state the handler gets an in-memory state.
        """
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            return ToolResult.fail(
                f"A tool's name must be text, not {brief_value(name)}.",
                error_code="unknown_tool",
            )
        if name in self._renamed:
            return await self._call_renamed(self._renamed[name], args, state)
        tool = self._tools.get(name)
        if tool is not None and tool.stands_alone and self._calls_functions:
            result = call_at_once(tool, args)
            return result if isinstance(result, ToolResult) else await result
        prepared = prepare(self._tools, name, args, "")
        if not isinstance(prepared, PreparedCall):
            return prepared
        if state is None:
            state = MemoryState(invoke=self.call)
        asked = prepared.tool.available
        if asked is not None and not await self._is_available(name, dynamic_of(asked), state):
            return unknown_tool(name, [each for each in self._tools if each != name])
        missing = await missing_variables(prepared.tool, state) if prepared.tool.variables else []
        if missing:
            return missing_variables_error(name, missing)
        approval = prepared.tool.approval
        if approval is not None and await is_needed(approval, name, prepared.arguments, state):
            return needs_approval(name)
        at_once = ends_at_once(self._executors["function"], prepared.tool)
        outcome = await (carry_out if at_once else execute)(self._executors, prepared, state)
        if isinstance(outcome, ToolResult):
            return outcome
        return ToolResult.fail(
            f"The result of {name!r} arrives later, and only a run can wait for it.",
            error_code="pending_outside_run",
        )

    async def _call_renamed(
        self, renamed_tool: RenamedTool, args: RawArguments, state: ThreadState | None
    ) -> ToolResult:
        own_tool = self._with([self[renamed_tool.name]])  # a toolset that only knows the tool's own name
        return renamed_tool.result(
            await own_tool.call(renamed_tool.name, renamed_tool.arguments(args), state)
        )

    async def _is_available(self, name: str, asked: Dynamic, state: ThreadState) -> bool:
        """Return whether the tool is available outside a run. One whose function fails is not."""
        functions = self._executors["function"]
        values = functions if isinstance(functions, FunctionExecutor) else FunctionExecutor()
        try:
            return await is_true(asked, state, values.value)
        except FunctionFailed:
            log.exception("Whether the tool %r is available could not be found out.", name)
            return False

    def filtered(self, predicate: Callable[[Tool], bool]) -> "Toolset":
        """Return the tools for which `predicate` is true."""
        if not callable(predicate):
            raise DefinitionError(
                f"Tools must be filtered by a function of a tool, not by {brief_value(predicate)}."
            )
        return self._with(tool for tool in self if predicate(tool))

    def available(self, predicate: Availability, *, per_step: bool = False) -> "Toolset":
        """Return the tools, each available only in runs for whose state `predicate` is true, see `Dynamic`.

        With `per_step` the predicate is asked before each request to the model. It replaces those of the tools.
        """
        asked = predicate if isinstance(predicate, Dynamic) else Dynamic(predicate, per_step=per_step)
        return self._with(changed(tool, available=asked) for tool in self)

    def prefixed(self, text: str) -> "Toolset":
        """Return the tools with `text` prepended to their names."""
        check_kind("What tools are prefixed with", text, str, "text")
        return self._with(changed(tool, name=text + tool.name) for tool in self)

    def for_pydantic_ai(self, state: ThreadState | None = None) -> list[Any]:
        """Return the tools as `pydantic_ai.Tool`s: `Agent(…, tools=toolset.for_pydantic_ai())`.

        Here and in the following methods, arguments are validated and calls executed as by `call`, with that `state`. A
        failure is returned to the model as an error; images are sent to the model. Raises `MissingExtra`.
        """
        return adapter("pydantic_ai", "native_tools")(self, state)

    def for_openai_agents(self, state: ThreadState | None = None) -> list[Any]:
        """Return the tools as `FunctionTool`s of the OpenAI Agents SDK."""
        return adapter("openai_agents", "native_tools")(self, state)

    def for_langchain(self, state: ThreadState | None = None) -> list[Any]:
        """Return the tools as LangChain `StructuredTool`s, also for LangGraph; a message's artifact is our result."""
        return adapter("langchain", "native_tools")(self, state)

    def requiring_approval(
        self, predicate: Callable[[Tool], bool] | None = None, approval: Requirement = True
    ) -> "Toolset":
        """Return a copy of the toolset in which the tools selected by `predicate` (default: all) require approval.

        `approval` has the same values as a tool's `requires_approval`: a function receives the call's arguments. It
        replaces the tool's own requirement.
        """
        chosen = self if predicate is None else self.filtered(predicate)
        return self._with(
            changed(tool, requires_approval=approval) if tool in chosen else tool for tool in self
        )

    def close(self) -> None:
        """Shut down the threads of sync functions."""
        executor = self._executors["function"]
        if isinstance(executor, FunctionExecutor):
            executor.close()

    def _with(self, tools: Iterable[Tool]) -> "Toolset":
        return Toolset(tools, executors=self._executors)

    def __or__(self, other: "Toolset") -> "Toolset":
        """Return the tools of both sets. Raises `DefinitionError` if both have a tool of the same name."""
        if not isinstance(other, Toolset):  # type: ignore[redundant-expr]  # user input
            return NotImplemented
        return Toolset([*self, *other], executors={**other._executors, **self._executors})

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, tool: object) -> bool:
        """Return whether the set has a tool of this name, or this tool."""
        if isinstance(tool, Tool):
            return self._tools.get(tool.name) is tool
        return tool in self._tools

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __repr__(self) -> str:
        return f"Toolset([{', '.join(self._tools)}])"


def _check_provider(provider: object) -> Provider:
    """Return the provider. Raises `DefinitionError` if it is unknown."""
    for each in get_args(Provider):
        if each == provider:
            return each
    names = ", ".join(map(repr, get_args(Provider)))
    raise DefinitionError(f"The provider {brief_value(provider)} is unknown. Choose one of {names}.")


def _openai(tool: Tool, definition: ToolDefinition) -> JSON:
    return {
        "type": "function",
        "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": definition.parameters,
        },
    }


def _anthropic(tool: Tool, definition: ToolDefinition) -> JSON:
    return {
        "name": definition.name,
        "description": definition.description,
        "input_schema": definition.parameters,
    }


def _mcp(tool: Tool, definition: ToolDefinition) -> JSON:
    hints: JSONObject = {
        "readOnlyHint": tool.read_only,
        "idempotentHint": tool.idempotent,
        "destructiveHint": tool.destructive,
    }
    return {
        "name": definition.name,
        "description": definition.description,
        "inputSchema": definition.parameters,
        "annotations": hints,
    }


_FORMS: dict[Format, Callable[[Tool, ToolDefinition], JSON]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "mcp": _mcp,
}
