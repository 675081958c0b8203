"""Dynamic values: functions of a run's state that give an agent's instructions, or say whether a tool is available."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Concatenate, TypeAlias

from toolwright.core.checks import brief_value, check_kind
from toolwright.core.concurrency import is_cancelled
from toolwright.core.dependencies.depends import Dependency, DependencyReader, Depends, name_of
from toolwright.core.errors import DefinitionError, FunctionFailed
from toolwright.core.state.state import ThreadState
from toolwright.core.text import error_text, sentence

DYNAMIC_TIMEOUT = 30.0
"""Seconds that a function of the run's state may take."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A function of the run's state: `tw.Agent(instructions=brief)` or `tw.tool(available=is_open)` make one.

    It takes the `ThreadState`, which only reads, and values of `Depends`; it is sync (it runs in a thread) or async,
    and has 30 seconds. It is called once in each run, and what it returned is recorded: a run that continues after a
    crash does not call it again. With `per_step=True` it is called before each request to the model. A run whose
    function raises fails. Raises `DefinitionError` for a function that cannot be called so.
    """

    fn: Callable[..., Any]
    per_step: bool = field(default=False, kw_only=True)
    _dependency: Dependency = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.fn) or isinstance(self.fn, type):
            raise DefinitionError(
                f"Dynamic must be given a function of the run's state, not {brief_value(self.fn)}."
            )
        check_kind("Dynamic: per_step", self.per_step, bool, "true or false")
        reader = DependencyReader(f"The function {name_of(self.fn)!r}", {}, unannotated=ThreadState)
        dependency = reader.read(Depends(self.fn, cached=False))
        if dependency.cleans_up:
            raise DefinitionError(f"The function {self.name!r} must return its value, not yield it.")
        object.__setattr__(self, "_dependency", dependency)

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        return name_of(self.fn)

    async def value(self, state: ThreadState, value_of: "ValueOf") -> object:
        """Call the function. Raises `FunctionFailed` if it raises or takes too long."""
        limit = asyncio.timeout(DYNAMIC_TIMEOUT)
        try:
            async with limit:
                return await value_of(self._dependency, state)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            raise FunctionFailed(f"The function {self.name!r} was cancelled by itself.") from None
        except (Exception, SystemExit) as error:
            if limit.expired():
                fault = f"did not return within {DYNAMIC_TIMEOUT:g} seconds"
            else:
                fault = f"failed: {error_text(error)}"
            raise FunctionFailed(sentence(f"The function {self.name!r} {fault}")) from error


Instructions: TypeAlias = Callable[Concatenate[ThreadState, ...], str | Awaitable[str]] | Dynamic
"""Function of a run's state that returns the instructions. Further parameters are dependencies."""
Availability: TypeAlias = Callable[Concatenate[ThreadState, ...], bool | Awaitable[bool]] | Dynamic
"""Function of a run's state that says whether a tool is available. Further parameters are dependencies."""


def dynamic_of(value: Callable[..., Any] | Dynamic) -> Dynamic:
    """Return the function as a dynamic value that is computed once in each run, unless it is one already."""
    return value if isinstance(value, Dynamic) else Dynamic(value)


ValueOf: TypeAlias = Callable[[Dependency, ThreadState], Awaitable[object]]
"""Calls a function with a state and its dependencies, and returns its value."""


async def text_of(dynamic: Dynamic, state: ThreadState, value_of: ValueOf) -> str:
    """Return the instructions. Raises `FunctionFailed` if the function does not return text in time."""
    value = await dynamic.value(state, value_of)
    if not isinstance(value, str):
        raise FunctionFailed(
            f"The function {dynamic.name!r} must return the instructions as text, not {brief_value(value)}."
        )
    return value


async def is_true(dynamic: Dynamic, state: ThreadState, value_of: ValueOf) -> bool:
    """Return whether a tool is available. Raises `FunctionFailed` if the function does not say so in time."""
    value = await dynamic.value(state, value_of)
    if not isinstance(value, bool):
        raise FunctionFailed(
            f"The function {dynamic.name!r} must return whether the tool is available, True or False, not "
            f"{brief_value(value)}."
        )
    return value
