"""Pipeline of a tool call: parse, validate, execute, return the result. It does not need a runtime."""

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, Protocol, TypeAlias

from toolwright.core.arguments.errors import InvalidArguments, join_errors
from toolwright.core.arguments.validator import RawArguments, ResultValidator
from toolwright.core.concurrency import Supervision, cancellations, check_cancelled, in_thread_if_large
from toolwright.core.env.logs import internal_error, logger
from toolwright.core.errors import CannotUnseal, DefinitionError, VariablesRequired
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import Outcome, ToolResult, as_failure
from toolwright.core.schemas.meta import latent_result, read_call
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief, sentence
from toolwright.core.tools.tenvs_needed import MissingTenvs
from toolwright.core.tools.tool import Kind, Tool
from toolwright.core.value import Value

_log = logger("toolwright.pipeline")
_NAMES_SHOWN = 50


class PreparedCall(Value, gc=True):
    """A validated call, ready for its executor.

    `arguments` are JSON. `keywords` are the same values for a function (models built, enums created), or None if the
    handler takes the JSON unchanged.
    """

    tool: Tool
    arguments: JSONObject
    call_id: str
    keywords: dict[str, object] | None = None


Decision: TypeAlias = Literal["start", "ask"] | ToolResult
"""The decision about a prepared call: it may start, or needs an approval first, or is refused with an error."""

INLINE: frozenset[Kind] = frozenset({"function", "gateway", "mcp", "internal"})
"""Carriers whose executor executes the call itself, so the tool's timeout is enforced here."""


class Executor(Protocol):
    """An executor of prepared calls. It raises only if it has a bug or is cancelled."""

    def __call__(self, prepared: PreparedCall, state: ThreadState) -> Awaitable[Outcome]:
        """Execute a validated call. Returns its result, or `Pending` if the result is submitted later."""
        ...


def prepare(
    tools: Mapping[str, Tool],
    name: str,
    arguments: RawArguments,
    call_id: str,
    resolve: Callable[[Tool, JSONObject], JSONObject] | None = None,
) -> PreparedCall | ToolResult:
    """Find the tool and validate the arguments. Returns an error result for an unknown tool or invalid arguments.

    `resolve` replaces references in the arguments of schema tools before they are validated.
    """
    tool = tools.get(name)
    if tool is None:
        return unknown_tool(name, tools)
    try:
        if resolve is None or tool.meta is None:
            validated = tool.validator.read(arguments)  # type: ignore[union-attr]  # set when the tool was made
        else:
            validated = tool.validator.read(arguments, partial(resolve, tool))  # type: ignore[union-attr]  # the same
        if tool.meta is not None and "_delegate" in validated and "_delegate" in tool.meta.choices:
            return PreparedCall(tool=tool.delegated, arguments=validated, call_id=call_id)
        keywords = None if tool.signature is None else tool.signature.binding.bind(validated)
        return PreparedCall(tool=tool, arguments=validated, call_id=call_id, keywords=keywords)
    except (InvalidArguments, DefinitionError) as error:
        return refusal(error)
    except Exception as error:  # noqa: BLE001 - the guard: a bug of ours is neither the model's fault nor the run's end
        return internal_failure(f"validating the arguments of the tool {name!r}", error)


def internal_failure(doing: str, error: Exception) -> ToolResult:
    """Log a bug of our own and return the error result that reports it."""
    reported = internal_error(doing, error)
    return ToolResult.fail(reported.message, error_code=reported.code)


def refusal(error: InvalidArguments | DefinitionError) -> ToolResult:
    """Return the error result of a call whose arguments, or whose tool's schema, are invalid."""
    if isinstance(error, InvalidArguments):
        return ToolResult.fail(str(error), error_code="invalid_arguments")
    return ToolResult.fail(error.message, error_code=error.code)


async def execute(executors: Mapping[Kind, Executor], prepared: PreparedCall, state: ThreadState) -> Outcome:
    """Execute a call within its tool's timeout. The caller's cancellation is raised even if a handler suppresses it."""
    seconds = limit_of(prepared.tool)
    if seconds is None:
        before = cancellations()
        outcome = await carry_out(executors, prepared, state)
        await check_cancelled(before)
        return outcome
    work = Supervision(carry_out(executors, prepared, state), prepared.tool.name, seconds)
    ended = await work.end()
    work.check_cancelled()
    return work.result() if ended else timed_out(seconds)


def limit_of(tool: Tool) -> float | None:
    """Return the timeout of a call in seconds, or None if its executor sets no limit."""
    return tool.timeout if tool.carrier in INLINE else None


async def carry_out(
    executors: Mapping[Kind, Executor], prepared: PreparedCall, state: ThreadState
) -> Outcome:
    """Execute a call without a time limit. A missing or broken executor gives an error result."""
    tool = prepared.tool
    executor = executors.get(tool.carrier)
    if executor is None:
        return ToolResult.fail(
            f"Tool {tool.name!r} of the kind {tool.kind!r} cannot be executed here.",
            error_code="no_executor",
        )
    if tool.needs is not None:
        tenvs = state.tenvs
        built = tool.needs.build(tenvs)
        if isinstance(built, MissingTenvs):
            return missing_tenvs_error(tool.name, built)
        tenvs.adopt(built, tool.needs.by_both_names(built))
    try:
        outcome = await executor(prepared, state)
    except Exception as error:  # noqa: BLE001 - the guard: a bug of an executor must not end the run
        _log.exception("The executor of the tool %r failed.", tool.name)
        return as_failure(error)
    if tool.result_validator is not None and isinstance(outcome, ToolResult) and outcome.status == "success":
        return await in_thread_if_large(outcome.result, _validated, tool.name, tool.result_validator, outcome)
    return outcome


def _validated(name: str, validator: ResultValidator, outcome: ToolResult) -> ToolResult:
    """Return the result, or an error result if the tool's `_output` does not allow it (S1)."""
    try:
        errors = validator.errors(outcome.result)
    except Exception as error:  # noqa: BLE001 - the guard, as in `prepare`
        return internal_failure(f"validating the result of the tool {name!r}", error)
    if not errors:
        return outcome
    return ToolResult.fail(
        f"Tool {name!r} returned a result that its _output does not allow: {join_errors(errors)}.",
        error_code="invalid_output",
    )


async def answer_internal(prepared: PreparedCall, state: ThreadState) -> ToolResult:
    """Execute a call of an internal tool: its arguments are its result."""
    return internal_result(prepared)


def internal_result(prepared: PreparedCall) -> ToolResult:
    """Return the immediate result of an internal tool's call (S3)."""
    return ToolResult.ok({"success": True, "args": prepared.arguments})


async def answer_latent(prepared: PreparedCall, state: ThreadState) -> ToolResult:
    """Execute a call of a latent tool."""
    return answer_by_model(prepared)


def answer_by_model(prepared: PreparedCall) -> ToolResult:
    """Return the result of a latent call: the model's output (S1)."""
    tool = prepared.tool
    if tool.meta is None or not tool.latent:
        return ToolResult.fail(f"Tool {tool.name!r} has no handler.", error_code="no_handler")
    call = read_call(tool.name, tool.meta, prepared.arguments, tool.latent)
    return latent_result(tool.meta, call)


def missing_tenvs_error(name: str, missing: MissingTenvs) -> ToolResult:
    """Return the error result of a call whose thread does not have the required tenvs (D4)."""
    invalid: list[JSON] = [{"name": each, "message": message} for each, message in missing.invalid]
    return ToolResult.fail(
        sentence(f"Tool {name!r} needs tenvs that this thread does not have: {missing}"),
        error_code="tenvs_required",
        error_data={"missing": [*missing.missing], "invalid": invalid},
    )


async def missing_variables(tool: Tool, state: ThreadState) -> list[str]:
    """Return the names of required variables without a value, for a call outside a run. An empty text is a value."""
    needed = [each.name for each in tool.variables if each.required]
    first = () if tool.execution is None else tool.execution.variables
    ordered = dict.fromkeys([*[name for name in first if name in needed], *needed])
    return [name for name in ordered if not await _resolves(state, name)]


async def _resolves(state: ThreadState, name: str) -> bool:
    try:
        return await state.env(name) is not None
    except CannotUnseal:  # a value that cannot be decrypted counts as missing
        return False


def missing_variables_error(name: str, missing: Sequence[str]) -> ToolResult:
    """Return the error result of a call that cannot wait for the values that it needs (D4)."""
    return ToolResult.fail(
        sentence(f"Tool {name!r} needs variables that are not set here: {', '.join(missing)}"),
        error_code=VariablesRequired.code,
        error_data={"missing": [*missing]},
    )


def timed_out(seconds: float) -> ToolResult:
    """Return the error result of a call that exceeded its timeout (D8)."""
    return ToolResult.fail(f"Tool timed out after {round(seconds * 1000)}ms", error_code="timeout")


def unknown_tool(name: str, names: Iterable[str]) -> ToolResult:
    """Return the error result for an unknown tool, with the existing names."""
    tools = list(names)
    close = difflib.get_close_matches(name[:200], tools[:1000], n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(tools[:_NAMES_SHOWN])
    more = f" and {len(tools) - _NAMES_SHOWN} more" if len(tools) > _NAMES_SHOWN else ""
    exist = sentence(f"The tools are: {listed}{more}") if tools else "There are no tools."
    return ToolResult.fail(
        f"There is no tool {brief(repr(name), 200)}.{hint} {exist}", error_code="unknown_tool"
    )
