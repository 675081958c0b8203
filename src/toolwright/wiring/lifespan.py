"""The lifespan of an app: what is open as long as its runtime."""

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from toolwright.core.checks import brief_value, takes_one
from toolwright.core.errors import DefinitionError

Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[object]]
"""Gives the async context manager for a runtime of that app."""


def checked_lifespan(lifespan: Lifespan | None) -> Lifespan | None:
    """The lifespan; raises `DefinitionError` for what is none, such as a generator function without its decorator."""
    if lifespan is None:
        return None
    if inspect.isasyncgenfunction(lifespan) or inspect.isgeneratorfunction(lifespan):
        raise DefinitionError("App: the lifespan yields; decorate it with @contextlib.asynccontextmanager.")
    if isinstance(lifespan, AbstractAsyncContextManager):
        raise DefinitionError(
            "App: the lifespan is the function itself, not what it returns: leave out its ()."
        )
    if not callable(lifespan) or inspect.iscoroutinefunction(lifespan) or not takes_one(lifespan):
        raise DefinitionError(
            "App: the lifespan must be a function of the app that gives an async context manager, not "
            f"{brief_value(lifespan)}."
        )
    return lifespan
