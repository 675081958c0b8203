"""A worker's functions: how each is given a call's arguments, and what becomes of what it returns or raises."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast, get_origin, get_type_hints

from toolwright.core.checks import brief_value
from toolwright.core.concurrency import DaemonThreads, is_cancelled
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON
from toolwright.core.results.result import ToolResult
from toolwright.core.results.returned import as_failure, as_result

Function: TypeAlias = Callable[..., object]  # sync or async, of any arguments
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Work:
    """A function that carries out calls; `whole` if its one parameter takes the arguments as they are."""

    function: Function
    whole: bool
    on_loop: bool

    async def __call__(self, arguments: JSON, threads: DaemonThreads) -> ToolResult:
        """The result of one call. Whatever the function raises is an error result; only our cancellation passes."""
        if not isinstance(arguments, dict):
            return ToolResult.fail(f"The arguments are no JSON object: {brief_value(arguments)}.")
        call: Callable[[], object] = (
            (lambda: self.function(arguments)) if self.whole else (lambda: self.function(**arguments))
        )
        try:
            value = call() if self.on_loop else await _in_thread(call, threads)
            if isinstance(value, Awaitable):
                value = await cast("Awaitable[object]", value)  # whatever it yields
            return as_result(value)
        except BaseException as error:
            if _passes(error):
                raise
            return as_failure(error)


def work_of(name: str, function: Function) -> Work:
    """The function as work. It gets the arguments as keywords; a single one annotated as a dict gets them whole."""
    if not callable(function) or isinstance(function, type):
        raise DefinitionError(
            f"The tool {name!r} needs a function to carry it out, not {brief_value(function)}."
        )
    on_loop = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is async
    )
    return Work(function, _takes_whole(function), on_loop)


def _takes_whole(function: Function) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in _POSITIONAL:
        return False
    annotated = _hints(function).get(parameters[0].name, parameters[0].annotation)
    kind: Any = get_origin(annotated) or annotated  # an annotation may be anything
    return isinstance(kind, type) and issubclass(kind, Mapping)


def _hints(function: Function) -> dict[str, Any]:  # annotations may be anything
    try:
        return get_type_hints(function if inspect.isroutine(function) else type(function).__call__)
    except (NameError, TypeError, AttributeError):  # names that are not there at run time
        return {}


async def _in_thread(call: Callable[[], object], threads: DaemonThreads) -> object:
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    value, error = await loop.run_in_executor(threads, lambda: context.run(_caught, call))
    if error is not None:
        raise error
    return value


def _caught(call: Callable[[], object]) -> tuple[object, BaseException | None]:
    """A future cannot carry every exception."""
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - it is raised on the other side
        return None, error


def _passes(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt):
        return True
    return isinstance(error, asyncio.CancelledError) and is_cancelled()
