"""The opener of dependencies: from what a function declares to the values that it is called with."""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass
from inspect import isawaitable
from typing import TypeAlias, cast

from toolwright.core.dependencies.depends import Dependency, generator_function
from toolwright.core.dependencies.hints import Function
from toolwright.core.dependencies.scope import Scope, Scoped
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError
from toolwright.core.state.state import ThreadState
from toolwright.core.value import changed

InThread: TypeAlias = Callable[[Function, dict[str, object]], Awaitable[tuple[object, BaseException | None]]]
"""Calls a function in a thread: what was returned, or what was raised."""
Overrides: TypeAlias = Mapping[Function, Dependency]
"""Functions that stand in for others, as `App.override` says."""

_NOTHING = object()

log = logger("toolwright.dependencies")


@dataclass(frozen=True, slots=True)
class Place:
    """The scopes of a run, and of what asks: a call, or with its key a value that is kept for the run."""

    run: Scope
    own: Scope
    key: Hashable = None


class Opener:
    """Opens dependencies; plain functions run `in_thread`. `overrides` are read again each time."""

    def __init__(self, in_thread: InThread, overrides: Overrides) -> None:
        self._in_thread = in_thread
        self._overrides = overrides

    @asynccontextmanager
    async def values(
        self, dependencies: Mapping[str, Dependency], state: ThreadState
    ) -> AsyncGenerator[dict[str, object]]:
        """The values of a call's parameters. What is kept for the call, all without a run, is cleaned up at its end."""
        own = Scope()
        place = Place(state.dependencies if isinstance(state, Scoped) else own, own)
        try:
            yield {name: await self._value(each, state, place) for name, each in dependencies.items()}
        finally:
            await own.close()

    async def _value(self, declared: Dependency, state: ThreadState, place: Place) -> object:
        other = self._overrides.get(declared.fn)
        wanted = declared if other is None else changed(other, cached=declared.cached)
        if wanted.cached:
            scope, key, place = place.run, cast("Hashable", wanted.fn), Place(place.run, place.run, wanted.fn)
        else:
            scope, key = place.own, (place.key, wanted.fn)
        return await scope.value(
            key, wanted.name, lambda: self._open(wanted, state, place), cleans_up=wanted.cleans_up
        )

    @asynccontextmanager
    async def _open(self, dependency: Dependency, state: ThreadState, place: Place) -> AsyncGenerator[object]:
        keywords: dict[str, object] = dict.fromkeys(dependency.state, state)
        for name, each in dependency.below.items():
            keywords[name] = await self._value(each, state, place)
        match dependency.form:
            case "async generator":
                opening = _async_generator(dependency, keywords)
            case "generator":
                opening = self._generator(dependency, keywords)
            case "async" | "plain":
                yield await self._returned(dependency, keywords)
                return
        async with opening as value:
            yield value

    async def _returned(self, dependency: Dependency, keywords: dict[str, object]) -> object:
        if dependency.form == "async":
            value = dependency.fn(**keywords)
        else:
            value = _or_raise(*await self._in_thread(dependency.fn, keywords))
        return cast("object", await value) if isawaitable(value) else value  # whatever it yields

    @asynccontextmanager
    async def _generator(self, dependency: Dependency, keywords: dict[str, object]) -> AsyncGenerator[object]:
        """The value of a plain generator; each of its steps runs in a thread, in the same context variables."""
        steps, context = _Steps(dependency, keywords), copy_context()
        try:
            value = _or_raise(*await self._in_thread(lambda: context.run(steps.open), {}))
        except BaseException:
            steps.give_up()
            raise
        try:
            yield value
        except BaseException:
            _or_raise(*await self._in_thread(lambda: context.run(steps.close), {}))
            raise
        _or_raise(*await self._in_thread(lambda: context.run(steps.clean_up), {}))


class _Steps:
    """The steps of a plain generator, in threads. One that is given up while it opens is closed there."""

    def __init__(self, dependency: Dependency, keywords: dict[str, object]) -> None:
        self._name = dependency.name
        function = cast("Callable[..., Generator[object]]", generator_function(dependency.fn))  # by its form
        self._generator = function(**keywords)
        self._lock = threading.Lock()
        self._is_open = self._given_up = False

    def open(self) -> object:
        """What it yields."""
        value = next(self._generator, _NOTHING)
        with self._lock:
            self._is_open = True
            given_up = self._given_up
        if given_up:
            self.close()
        return _checked(self._name, value)

    def give_up(self) -> None:
        """Nobody waits for it any more: a thread that is still opening it closes it then."""
        with self._lock:
            self._given_up = True

    def clean_up(self) -> None:
        """Let it go on behind its `yield`, to its end."""
        if next(self._generator, _NOTHING) is not _NOTHING:
            _log_second(self._name)
            self.close()

    def close(self) -> None:
        """End it at its `yield`."""
        self._generator.close()


@asynccontextmanager
async def _async_generator(dependency: Dependency, keywords: dict[str, object]) -> AsyncGenerator[object]:
    function = cast("Callable[..., AsyncGenerator[object]]", generator_function(dependency.fn))  # by its form
    generator = function(**keywords)
    value = _checked(dependency.name, await anext(generator, _NOTHING))
    try:
        yield value
    except BaseException:
        await generator.aclose()
        raise
    if await anext(generator, _NOTHING) is not _NOTHING:
        _log_second(dependency.name)
        await generator.aclose()


def _or_raise(value: object, error: BaseException | None) -> object:
    if error is not None:
        raise error
    return value


def _checked(name: str, value: object) -> object:
    if value is _NOTHING:
        raise DefinitionError(f"The dependency {name!r} has yielded no value: let it yield one, once.")
    return value


def _log_second(name: str) -> None:
    log.error("The dependency %r yields twice; only its first value is used: let it yield once.", name)
