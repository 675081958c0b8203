"""A scope of open values: each is opened once, whoever asks, and cleaned up at the end, the last one first."""

import asyncio
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias, runtime_checkable

from toolwright.core.env.logs import logger
from toolwright.core.errors import InvalidRequest
from toolwright.core.supervision import GRACE, leave

Opening: TypeAlias = AbstractAsyncContextManager[Any]
"""Opens a value when it is entered, and cleans up when it is left; one task does both."""

CLEAN_UP = 10.0  # seconds that a clean-up may take
HURRY = 2.0  # seconds that all of them may take together once who waits is cancelled: less than `GRACE`

log = logger("toolwright.dependencies")


class Kept:
    """A value, and the task that opens it, keeps it and cleans it up; `waiting` are those who ask while it opens."""

    def __init__(self, name: str, opening: Opening, cleans_up: bool) -> None:
        self.name = name
        self.waiting = 0
        self.opened: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(_look)
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
            self._failed(error)
        except BaseException as error:  # noqa: BLE001 - it is raised where the value is asked for, or logged
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if self.opened.done():
            log.error("The clean-up of the dependency %r failed.", self.name, exc_info=error)
        else:
            self.opened.set_exception(error)

    async def clean_up(self) -> None:
        """Let the task clean up, for as long as that may take; then it is cancelled, and left behind at last."""
        self._over.set()
        await asyncio.wait([self.task], timeout=CLEAN_UP)
        if not self.task.done():
            log.error(
                "The clean-up of the dependency %r takes more than %.0f s: it is cancelled.",
                self.name,
                CLEAN_UP,
            )
            await end([self])


async def end(kept: list[Kept]) -> None:
    """Cancel the tasks of these values, and leave those behind that swallow it."""
    for each in kept:
        each.task.cancel()
    if kept:
        _, left = await asyncio.wait([each.task for each in kept], timeout=GRACE)
        for task in left:
            leave(task)


def _look(opened: "asyncio.Future[object]") -> None:
    """The error is looked at, so that asyncio does not log it where everybody who asked has gone."""
    if not opened.cancelled():
        opened.exception()


class Scope:
    """Values by their keys, for as long as a run is in hand, or a call."""

    __slots__ = ("_closed", "_kept", "_open", "_opening")

    def __init__(self) -> None:
        self._kept: dict[Hashable, Kept] = {}
        self._opening: set[Kept] = set()
        self._open: list[Kept] = []
        self._closed = False

    async def value(
        self, key: Hashable, name: str, opening: Callable[[], Opening], *, cleans_up: bool
    ) -> object:
        """The value of that key, opened if it is not there; raises what its function raises, to all who ask now.

        The last one who asks and is cancelled cancels the opening.
        """
        kept = self._kept.get(key)
        if kept is None:
            if self._closed:
                raise InvalidRequest(f"What needs {name!r} is over: no dependency is opened any more.")
            kept = self._kept[key] = Kept(name, opening(), cleans_up)
            self._opening.add(kept)
            kept.opened.add_done_callback(lambda _: self._on_opened(key, kept))
        if kept.opened.done():
            return kept.opened.result()
        kept.waiting += 1
        try:
            return await asyncio.shield(kept.opened)
        finally:
            kept.waiting -= 1
            if not kept.waiting and not kept.opened.done():
                self._forget(key, kept)
                kept.task.cancel()

    def _on_opened(self, key: Hashable, kept: Kept) -> None:
        if kept.opened.cancelled() or kept.opened.exception() is not None:
            self._forget(key, kept)
        else:
            self._open.append(kept)
        self._opening.discard(kept)

    def _forget(self, key: Hashable, kept: Kept) -> None:
        if self._kept.get(key) is kept:
            del self._kept[key]

    async def close(self) -> None:
        """Clean up, the value that was opened last first. A failure is logged; so is a clean-up that takes too long.

        If whoever waits is cancelled, the clean-ups have little time left, and the cancellation is raised then.
        """
        self._closed = True
        if not self._opening and not self._open:
            return
        work = asyncio.create_task(self._clean_up(), name="the clean-up of dependencies")
        cancelled: asyncio.CancelledError | None = None
        loop = asyncio.get_running_loop()
        left = None
        ends = float("inf")
        while not work.done() and loop.time() < ends:
            try:
                await asyncio.wait([work], timeout=left)
            except asyncio.CancelledError as error:
                ends = loop.time() + HURRY if cancelled is None else ends
                cancelled = error
            left = None if cancelled is None else max(0.0, ends - loop.time())
        if not work.done():
            log.error("There is no more time for the clean-up of dependencies: it is cancelled.")
            work.cancel()
            for kept in self._open:
                kept.task.cancel()
        if cancelled is not None:
            raise cancelled

    async def _clean_up(self) -> None:
        await end([*self._opening])
        while self._open:
            kept = self._open[-1]
            if not kept.task.done():
                await kept.clean_up()
            self._open.remove(kept)


@runtime_checkable
class Scoped(Protocol):
    """A state whose run has a scope for values."""

    @property
    def dependencies(self) -> Scope:
        """The scope of the run in hand."""
        ...
