"""Operations of a runtime that other event loops await: they are carried to the loop in which the runtime is open."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import wraps
from typing import Any, TypeVar

from toolwright.core.errors import InvalidRequest

T = TypeVar("T")
_END = object()
CLOSED = (
    "The runtime was opened in an event loop that does not run any more. Open it with `async with app.runtime()` in "
    "the event loop that uses it, or keep that loop running in a thread."
)


class Carried:
    """A class whose public coroutines and async generators are executed in the event loop `loop`, if it is set.

    Another loop, such as that of a thread which calls `asyncio.run`, can await them as well. They have the context
    variables of their caller. Raises `InvalidRequest` if `loop` does not run any more.
    """

    __slots__ = ()
    loop: asyncio.AbstractEventLoop | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if inspect.iscoroutinefunction(method):
                setattr(cls, name, carried_operation(method))
            elif inspect.isasyncgenfunction(method):
                setattr(cls, name, _carried_items(method))


def carried_operation(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    """Return the method of a `Carried` class, executed in the loop of its object."""

    @wraps(method)
    async def carried(self: Carried, *args: Any, **kwargs: Any) -> T:
        if self.loop is None or self.loop is asyncio.get_running_loop():
            return await method(self, *args, **kwargs)
        return await _carry(self.loop, lambda: method(self, *args, **kwargs))

    return carried


def _carried_items(method: Callable[..., AsyncGenerator[T]]) -> Callable[..., AsyncGenerator[T]]:
    @wraps(method)
    async def carried(self: Carried, *args: Any, **kwargs: Any) -> AsyncGenerator[T]:
        items, loop = method(self, *args, **kwargs), self.loop
        if loop is None or loop is asyncio.get_running_loop():
            async with aclosing(items):
                async for item in items:
                    yield item
            return
        lock = asyncio.Lock()  # a cancelled caller goes on before the generator has ended in its loop

        async def next_item() -> object:
            async with lock:
                return await anext(items, _END)

        async def close() -> None:
            async with lock:
                await items.aclose()

        try:
            while (each := await _carry(loop, next_item)) is not _END:
                yield each  # type: ignore[misc]  # not the end
        finally:
            await _carry(loop, close)

    return carried


async def _carry(loop: asyncio.AbstractEventLoop, begin: Callable[[], Awaitable[T]]) -> T:
    """Return the result of what `begin` starts in that loop. If the caller is cancelled, that is cancelled too."""

    async def work() -> T:
        return await begin()

    if not loop.is_running():
        raise InvalidRequest(CLOSED)
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))
