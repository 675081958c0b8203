"""Scope of open dependencies: each value is opened once and cleaned up at the end, newest first."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from toolwright.core.checks import brief_value
from toolwright.core.concurrency import GRACE, abandon
from toolwright.core.dependencies.depends import (
    Dependency,
    DependencyReader,
    Depends,
    Function,
    generator_function,
    name_of,
)
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.state.state import ThreadState
from toolwright.core.value import changed

Opening: TypeAlias = AbstractAsyncContextManager[Any]
"""A context manager that opens a value and cleans it up. The same task enters and exits it."""

CLEAN_UP = 10.0  # maximum seconds of one clean-up
HURRY = 2.0  # maximum seconds of all of them once the caller is cancelled: less than `GRACE`

log = logger("toolwright.dependencies")


class OpenedValue:
    """A value, and the task that opens it, holds it and cleans it up. `waiting` counts the callers while it opens."""

    def __init__(self, name: str, opening: Opening, cleans_up: bool) -> None:
        self.name = name
        self.waiting = 0
        self.opened: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(_retrieve_exception)
        self._over = asyncio.Event()
        self._cleans_up = cleans_up
        self.task = asyncio.create_task(self._keep(opening), name=f"the dependency {name!r}")

    async def _keep(self, opening: Opening) -> None:
        try:
            async with opening as value:
                self.opened.set_result(value)
                if self._cleans_up:
                    await self._over.wait()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self.opened.cancel()
                raise
            self._failed(error)  # raised by the function itself: handled like any other error
        except BaseException as error:  # noqa: BLE001 - raised to the callers that wait for the value, or logged
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if self.opened.done():
            log.error("The clean-up of the dependency %r failed.", self.name, exc_info=error)
        else:
            self.opened.set_exception(error)

    async def clean_up(self) -> None:
        """Wait for the task to clean up. After the limit it is cancelled, and abandoned if it does not end."""
        self._over.set()
        await asyncio.wait([self.task], timeout=CLEAN_UP)
        if not self.task.done():
            log.error(
                "The clean-up of the dependency %r took more than %.0f s and was cancelled.",
                self.name,
                CLEAN_UP,
            )
            await end([self])


async def end(values: list[OpenedValue]) -> None:
    """Cancel the tasks of these values. Tasks that swallow the cancellation are abandoned."""
    for each in values:
        each.task.cancel()
    if values:
        _, running = await asyncio.wait([each.task for each in values], timeout=GRACE)
        for task in running:
            abandon(task)


def _retrieve_exception(opened: "asyncio.Future[object]") -> None:
    """Retrieve the exception, so that asyncio does not log it if all callers were cancelled."""
    if not opened.cancelled():
        opened.exception()


class Scope:
    """Values by key, for the lifetime of a run or a call."""

    __slots__ = ("_closed", "_open", "_opening", "_values")

    def __init__(self) -> None:
        self._values: dict[Hashable, OpenedValue] = {}
        self._opening: set[OpenedValue] = set()
        self._open: list[OpenedValue] = []
        self._closed = False

    async def value(
        self, key: Hashable, name: str, opening: Callable[[], Opening], *, cleans_up: bool
    ) -> object:
        """Return the value of a key; open it first if needed.

        An exception of its function is raised to all waiting callers.
        The opening is cancelled once the last waiting caller is cancelled.
        """
        opened = self._values.get(key)
        if opened is None:
            if self._closed:
                raise InvalidRequest(f"The call that needs {name!r} has ended, so no dependency is opened.")
            opened = self._values[key] = OpenedValue(name, opening(), cleans_up)
            self._opening.add(opened)
            opened.opened.add_done_callback(lambda _: self._on_opened(key, opened))
        if opened.opened.done():
            return opened.opened.result()
        opened.waiting += 1
        try:
            return await asyncio.shield(opened.opened)  # a cancelled caller must not cancel it for the others
        finally:
            opened.waiting -= 1
            if not opened.waiting and not opened.opened.done():
                self._forget(key, opened)
                opened.task.cancel()

    def _on_opened(self, key: Hashable, opened: OpenedValue) -> None:
        if opened.opened.cancelled() or opened.opened.exception() is not None:
            self._forget(key, opened)
        else:
            self._open.append(opened)
        self._opening.discard(opened)

    def _forget(self, key: Hashable, opened: OpenedValue) -> None:
        if self._values.get(key) is opened:
            del self._values[key]

    async def close(self) -> None:
        """Clean up, last opened first. Logs errors, and clean-ups that take too long.

        If the caller is cancelled, the clean-ups get little more time; then the cancellation is raised.
        """
        self._closed = True
        if not self._opening and not self._open:
            return
        # In a separate task, so that a cancelled caller can give the clean-ups some more time.
        work = asyncio.create_task(self._clean_up(), name="the clean-up of dependencies")
        cancelled: asyncio.CancelledError | None = None
        loop = asyncio.get_running_loop()
        remaining = None
        ends = float("inf")
        while not work.done() and loop.time() < ends:
            try:
                await asyncio.wait([work], timeout=remaining)
            except asyncio.CancelledError as error:
                ends = loop.time() + HURRY if cancelled is None else ends
                cancelled = error
            remaining = None if cancelled is None else max(0.0, ends - loop.time())
        if not work.done():
            log.error("The clean-up of dependencies took too long and was cancelled.")
            work.cancel()
            for opened in self._open:
                opened.task.cancel()
        if cancelled is not None:
            raise cancelled

    async def _clean_up(self) -> None:
        await end([*self._opening])
        while self._open:
            opened = self._open[-1]
            if not opened.task.done():
                await opened.clean_up()
            self._open.remove(opened)  # only now: `close` cancels the clean-ups that are still listed


@runtime_checkable
class Scoped(Protocol):
    """A state whose run has a scope for values."""

    @property
    def dependencies(self) -> Scope:
        """Return the scope of the current run."""
        ...


InThread: TypeAlias = Callable[[Function, dict[str, object]], Awaitable[tuple[object, BaseException | None]]]
"""Calls a function in a thread and returns its value and its exception."""
Overrides: TypeAlias = Mapping[Function, Dependency]
"""Replacement functions by the functions that they replace, see `App.override`."""

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class ValueScopes:
    """The scopes that a value can belong to: the run's, and that of the call or of the value that requires it."""

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
        """Yield the values of a call's parameters.

        Values with the scope of the call are cleaned up at its end. Outside a run, all values have that scope.
        """
        own = Scope()
        scopes = ValueScopes(state.dependencies if isinstance(state, Scoped) else own, own)
        try:
            yield {name: await self._value(each, state, scopes) for name, each in dependencies.items()}
        finally:
            await own.close()

    async def _value(self, declared: Dependency, state: ThreadState, place: ValueScopes) -> object:
        replacement = self._overrides.get(declared.fn)
        required = declared if replacement is None else changed(replacement, cached=declared.cached)
        if required.cached:
            scope, key, place = (
                place.run,
                cast("Hashable", required.fn),
                ValueScopes(place.run, place.run, required.fn),
            )
        else:
            scope, key = place.own, (place.key, required.fn)
        return await scope.value(
            key, required.name, lambda: self._open(required, state, place), cleans_up=required.cleans_up
        )

    @asynccontextmanager
    async def _open(
        self, dependency: Dependency, state: ThreadState, place: ValueScopes
    ) -> AsyncGenerator[object]:
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
        return cast("object", await value) if isawaitable(value) else value  # the value itself

    @asynccontextmanager
    async def _generator(self, dependency: Dependency, keywords: dict[str, object]) -> AsyncGenerator[object]:
        """Yield the value of a plain generator; each of its steps runs in a thread, in the same context variables."""
        steps, context = _Steps(dependency, keywords), copy_context()
        try:
            value = _or_raise(*await self._in_thread(lambda: context.run(steps.open), {}))
        except BaseException:  # the caller is cancelled: the thread continues, and cleans up after itself
            steps.abandon()
            raise
        try:
            yield value
        except BaseException:
            _or_raise(*await self._in_thread(lambda: context.run(steps.close), {}))
            raise
        _or_raise(*await self._in_thread(lambda: context.run(steps.clean_up), {}))


class _Steps:
    """The steps of a sync generator, executed in threads. A value abandoned while it opens is closed there."""

    def __init__(self, dependency: Dependency, keywords: dict[str, object]) -> None:
        self._name = dependency.name
        function = cast("Callable[..., Generator[object]]", generator_function(dependency.fn))  # by its form
        self._generator = function(**keywords)
        self._lock = threading.Lock()
        self._is_open = self._abandoned = False

    def open(self) -> object:
        """Return the yielded value."""
        value = next(self._generator, _NOTHING)
        with self._lock:  # `abandon` runs in another thread
            self._is_open = True
            is_abandoned = self._abandoned
        if is_abandoned:
            self.close()
        return _checked(self._name, value)

    def abandon(self) -> None:
        """Mark the value as abandoned: a thread that is still opening it closes it then."""
        with self._lock:
            self._abandoned = True

    def clean_up(self) -> None:
        """Run the generator to its end, after its `yield`."""
        if next(self._generator, _NOTHING) is not _NOTHING:
            _log_second(self._name)
            self.close()

    def close(self) -> None:
        """Close the generator at its `yield`."""
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
        raise DefinitionError(f"The dependency {name!r} yielded no value. It must yield exactly once.")
    return value


def _log_second(name: str) -> None:
    log.error("The dependency %r yields twice; only its first value is used. It must yield once.", name)


@contextmanager
def overriding(
    overrides: dict[Function, Dependency], dependency: Function, other: Function
) -> Generator[None]:
    """Replace `dependency` by `other` within the block, then restore the previous replacement.

    Raises `DefinitionError` for a value that is not a function, and if `other` would require its own value.
    """
    for each in (dependency, other):
        if not callable(each):
            raise DefinitionError(f"App.override needs two functions, not {brief_value(each)}.")
    read = DependencyReader("App.override", {}).read(Depends(other))
    _check(read, {**overrides, dependency: read}, [dependency])
    before = overrides.get(dependency)
    overrides[dependency] = read
    try:
        yield
    finally:
        if before is None:
            overrides.pop(dependency, None)
        else:
            overrides[dependency] = before


def _check(node: Dependency, overrides: dict[Function, Dependency], path: list[Function]) -> None:
    """Raise `DefinitionError` for a cycle from a replacement back to the replaced function."""
    for each in node.below.values():
        if each.fn in path:
            names = " → ".join(name_of(fn) for fn in [*path, each.fn])
            raise DefinitionError(f"App.override: {name_of(path[0])!r} would depend on itself: {names}.")
        _check(overrides.get(each.fn, each), overrides, [*path, each.fn])
