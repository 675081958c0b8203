"""Functions of the host that code may call: whatever they do, the code gets JSON or an error with a message."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from toolwright.core.concurrency import DaemonThreads, is_cancelled
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON, dumps
from toolwright.core.plain import plain, surely_longer
from toolwright.core.state.sandbox import HostFunction
from toolwright.core.supervision import Supervision, catch_exit
from toolwright.core.text import brief, quantity, words

THREADS = 64


class HostError(Exception):
    """Error that code sees instead of a value."""


class HostFunctions:
    """The functions of one run, by name; nothing else can be called. Plain ones are called in `threads`.

    `read` makes JSON of what they are called with, or raises `InvalidJSON`.
    """

    def __init__(
        self,
        functions: Mapping[str, HostFunction],
        threads: DaemonThreads,
        most: int,
        read: Callable[[object], JSON] = plain,
    ) -> None:
        self._read = read
        self._functions = functions
        self._threads = threads
        self._most = most

    async def call(self, name: str, args: Sequence[object], named: Mapping[str, object]) -> JSON:
        """Calls the host's function and returns its result. Raises `HostError`, and nothing else for what it does."""
        function = self._functions.get(name)
        if function is None:
            raise HostError(f"There is no function {brief(name, 100)!r} to be called.")
        if surely_longer((args, named), self._most):
            raise HostError(
                f"The arguments of {name!r} have more than the {quantity(self._most, 'byte')} that are allowed."
            )
        try:
            given, keywords = self._read(args), self._read(named)
        except InvalidJSON as error:
            raise HostError(f"The arguments of {name!r} are JSON: {error}") from error
        try:
            returned = await self._returned(
                function, cast("list[JSON]", given), cast("dict[str, JSON]", keywords)
            )
            return self._carried(name, returned)
        except HostError:
            raise
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise HostError(f"{name!r} was cancelled.") from error
        except BaseException as error:
            # A function of the host may raise anything, also what would end the server.
            raise HostError(words(error)) from error

    async def _returned(
        self, function: HostFunction, args: Sequence[JSON], named: Mapping[str, JSON]
    ) -> object:
        if inspect.iscoroutinefunction(function):
            return await _supervised(function(*args, **named))
        loop = asyncio.get_running_loop()
        returned, error = await loop.run_in_executor(self._threads, _caught, function, args, named)
        if error is not None:
            raise error
        if isinstance(returned, Awaitable):
            return await _supervised(cast("Awaitable[object]", returned))  # whatever it yields
        return returned

    def _carried(self, name: str, returned: object) -> JSON:
        try:
            value = plain(returned)
        except InvalidJSON as error:
            raise HostError(f"What {name!r} returns is JSON: {error}") from error
        size = len(dumps(value))
        if size > self._most:
            raise HostError(
                f"What {name!r} returns has {quantity(size, 'byte')}, and {self._most} are allowed."
            )
        return value


async def _supervised(returned: Awaitable[object]) -> object:
    """Result of an awaitable; a function that swallows its cancellation does not hold the code up."""
    work = Supervision(catch_exit(returned), "function of the host")
    await work.end()
    value, error = work.result()
    if error is not None:
        raise error
    return value


def _caught(
    function: HostFunction, args: Sequence[JSON], named: Mapping[str, JSON]
) -> tuple[object, BaseException | None]:
    """A future cannot carry a `StopIteration`: whoever waited for it would wait forever."""
    try:
        return function(*args, **named), None
    except StopIteration as error:
        return None, RuntimeError(words(error))
    except BaseException as error:  # noqa: BLE001 - it becomes an error on the other side
        return None, error
