"""Daemon threads, which do not delay the exit, and cancellation of the current task."""

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeAlias, TypeVar

from toolwright.core.json_value import is_large

P = ParamSpec("P")
T = TypeVar("T")
_Work: TypeAlias = tuple["Future[object]", Callable[[], object]]


async def in_thread_if_large(measured: object, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `call` and return its result. If `measured`, the value to process, has many parts, call it in a thread."""
    if is_large(measured):
        return await asyncio.to_thread(call, *args, **kwargs)
    return call(*args, **kwargs)


class DaemonThreads(Executor):
    """Pool of at most `most` daemon threads, created on demand. `ThreadPoolExecutor` would wait for each at exit.

    The threads end after `shutdown`, or when the pool is garbage-collected.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._end = weakref.finalize(self, _dismiss, self._queue, self._threads)
        self._end.atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call `fn` in a thread, as soon as one is available. A future cancelled before that is not executed."""
        future: Future[T] = Future()
        with self._lock:  # together with `shutdown`: a call is either in the queue or rejected
            if self._closed:
                raise RuntimeError("These threads are shut down.")
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
                self._start()
            self._queue.put((future, lambda: fn(*args, **kwargs)))  # type: ignore[arg-type]  # a T is an object
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. The threads end after the accepted ones."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                _cancel(self._queue)
            self._end()
        if wait:
            for thread in self._threads:
                thread.join()

    def _start(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=_serve, args=(self._queue, self._idle), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)


def _serve(queue: "SimpleQueue[_Work | None]", idle: threading.Semaphore) -> None:
    """Main loop of a thread. It references only the queue, so that an unused pool can be collected."""
    while (work := queue.get()) is not None:
        _carry_out(*work)
        del work  # an idle thread must not keep the last call's arguments alive
        idle.release()


def _carry_out(future: "Future[object]", call: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = call()
    except BaseException as error:  # noqa: BLE001 - raised to the caller that awaits the future
        future.set_exception(error)
    else:
        future.set_result(value)


def _cancel(queue: "SimpleQueue[_Work | None]") -> None:
    with contextlib.suppress(Empty):
        while True:
            work = queue.get_nowait()
            if work is not None:
                work[0].cancel()
                work[0].set_running_or_notify_cancel()


def _dismiss(queue: "SimpleQueue[_Work | None]", threads: list[threading.Thread]) -> None:
    for _ in threads:
        queue.put(None)


def is_cancelled() -> bool:
    """Return whether the current task is being cancelled. A `CancelledError` is then its own and must be raised."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def cancellations() -> int:
    """Return the number of pending cancellations of the current task.

    Excludes withdrawn cancellations: `asyncio.timeout` withdraws its own.
    """
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def check_cancelled(before: int) -> None:
    """Raise `CancelledError` if the current task was cancelled since it had `before` cancellations."""
    if cancellations() > before:
        # An anyio scope cancels again here, with an error that it recognizes as its own.
        await asyncio.sleep(0)
        raise asyncio.CancelledError
