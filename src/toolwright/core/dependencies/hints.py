"""The annotations of a function of the user's own: read, also where they are text or lie within another object."""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias, get_args, get_origin

from toolwright.core.errors import DefinitionError
from toolwright.core.state.state import ThreadState
from toolwright.core.text import sentence

Function: TypeAlias = Callable[..., object]
"""A plain or an async function, a generator function, or an object that is called like one."""


def read_hints(function: Function, what: str, scope: Mapping[str, object]) -> dict[str, Any]:
    """The annotations of its parameters, those that are text too; `DefinitionError` begins with `what` it is.

    `scope` holds the names of the place of definition.
    """
    own = inspect.unwrap(innermost(function))
    names: dict[str, object] = {"ThreadState": ThreadState, **getattr(own, "__globals__", {}), **scope}
    try:
        hinted = getattr(own, "__annotations__", {})
        annotations = {name: each for name, each in hinted.items() if name != "return"}
        parameters = types.SimpleNamespace(__annotations__=annotations)
        return typing.get_type_hints(parameters, names, include_extras=True)  # type: ignore[arg-type]  # it has them
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise DefinitionError(sentence(f"{what}: its annotations cannot be read: {error}")) from error


def innermost(function: Function) -> Function:
    """The function whose annotations count: within a partial, of a method, of a class, of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return function.__init__ if isinstance(function, type) else type(function).__call__


def bound_names(function: Function) -> frozenset[str]:
    """The names that a partial has given already."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def runs_on_loop(function: Function) -> bool:
    """Return whether its calls give a coroutine, so that they belong on the event loop; any other runs in a thread."""
    own = innermost(function)
    return inspect.iscoroutinefunction(own) or inspect.iscoroutinefunction(inspect.unwrap(own))


def is_state(hint: object) -> bool:
    """Return whether a parameter of that annotation is given the thread's state."""
    if get_origin(hint) is Annotated or get_origin(hint) in (typing.Union, types.UnionType):
        return any(is_state(part) for part in get_args(hint))
    return hint is ThreadState
