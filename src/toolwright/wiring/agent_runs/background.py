"""An event loop in a thread of its own, for code that is not async."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextvars import Context, copy_context
from typing import TypeVar

from toolwright.core.errors import InvalidRequest

T = TypeVar("T")
CANCEL_PATIENCE = 15.0  # seconds; a cancelled run is over within ten
WATCHED = 0.1  # seconds between looks at whether the task that waits has been cancelled
_END = object()


class BackgroundLoop:
    """An event loop in a thread of its own, begun when it is first needed."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def wait(self, make: Callable[[], Awaitable[T]], context: Context | None = None) -> T:
        """What the coroutine comes to; Ctrl-C cancels it, and is raised once it has ended."""
        loop = self._running()
        over, tasks = threading.Event(), list[asyncio.Task[T]]()
        context = copy_context() if context is None else context

        def begin() -> None:
            task = loop.create_task(_awaited(make), context=context)
            tasks.append(task)
            task.add_done_callback(lambda _: over.set())

        loop.call_soon_threadsafe(begin)
        try:
            _wait_for(over)
        except BaseException:  # Ctrl-C
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            over.wait(CANCEL_PATIENCE)
            raise
        return tasks[0].result()

    def iterate(self, items: AsyncGenerator[T]) -> Generator[T]:
        """What the generator yields, one by one; it is closed with the iteration."""
        context = copy_context()  # one for all, in which the generator may keep its own
        try:
            while (item := self.wait(lambda: anext(items, _END), context)) is not _END:
                yield item  # type: ignore[misc]  # not the end
        finally:
            self.wait(items.aclose, context)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._thread is threading.current_thread():
            raise InvalidRequest(
                "run_sync was called by async code of a run of run_sync: await tw.run(…) there."
            )
        with self._starting:
            if (
                self._loop is None or self._thread is None or not self._thread.is_alive()
            ):  # none yet, or a fork's
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="toolwright-run-sync", daemon=True
                )
                self._thread.start()
            return self._loop


def _wait_for(over: threading.Event) -> None:
    """Wait; in a task of a running loop too, which `asyncio.run` cancels at Ctrl-C instead of raising it there."""
    try:
        waiting = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        waiting = None
    if waiting is None:
        over.wait()
        return
    before = waiting.cancelling()
    while not over.wait(WATCHED):
        if waiting.cancelling() > before:
            raise asyncio.CancelledError


async def _awaited(make: Callable[[], Awaitable[T]]) -> T:
    return await make()
