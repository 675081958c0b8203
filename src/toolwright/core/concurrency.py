"""Concurrency: daemon threads; supervision of third-party coroutines, which end in time or are abandoned; deadlines."""

import asyncio
import contextlib
import ctypes
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from functools import wraps
from heapq import heapify, heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Generic, Literal, NoReturn, ParamSpec, TypeAlias, TypeVar

from toolwright.core.checks import brief_value, invalid_value, is_number
from toolwright.core.env.logs import logger
from toolwright.core.json_value import is_large
from toolwright.core.results import ToolResult

P = ParamSpec("P")
T = TypeVar("T")
_Work: TypeAlias = tuple["Future[object]", Callable[[], object]]
GRACE = 2.5
"""Seconds that cancelled work has to clean up, for example to close a connection.

Short, because a stopping process waits for it. Not an integer, because a stopping scheduler cancels its runs once per
second.
"""
SPENT = 256  # ended entries, in addition to as many as are in progress, at which they are removed


async def in_thread_if_large(measured: object, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `call` and return its result. If `measured`, the value to process, has many parts, call it in a thread."""
    if is_large(measured):
        return await asyncio.to_thread(call, *args, **kwargs)
    return call(*args, **kwargs)


@asynccontextmanager
async def within(timeout: float | None, late: str) -> AsyncGenerator[None]:
    """Raise `TimeoutError` with the message `late` if the block takes more than `timeout` seconds (None: no limit)."""
    if timeout is not None and (not is_number(timeout) or timeout != timeout):  # NaN would never be reached
        raise invalid_value("timeout", f"must be a number of seconds, not {brief_value(timeout)}")
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():  # a timeout of the block itself
            raise
        raise TimeoutError(late) from error


class _Unentered(AbstractAsyncContextManager[T]):
    """A context manager that names the missing `async with` when it is used in place of the value it yields."""

    def __init__(self, name: str, inner: AbstractAsyncContextManager[T]) -> None:
        self._name = name
        self._inner = inner

    async def __aenter__(self) -> T:
        return await self._inner.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._inner.__aexit__(*error)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self._name}(…) must be entered with `async with` before {name!r} is read.")


def entered(function: Callable[P, AsyncGenerator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Make a context manager like `asynccontextmanager`, for users who may forget the `async with`."""
    manager = asynccontextmanager(function)

    @wraps(function)
    def opening(*args: P.args, **kwargs: P.kwargs) -> AbstractAsyncContextManager[T]:
        return _Unentered(function.__name__, manager(*args, **kwargs))

    return opening


def start_task(work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
    """Start a task that can outlive its caller, without the caller's context variables."""
    return asyncio.get_running_loop().create_task(work, name=name, context=Context())


class Callers:
    """Contexts of the callers that wait for a run, by thread. The runs of these threads are executed in copies of them.

    All other runs are executed in the context of the scheduler, which has no caller's values: those posted over HTTP,
    and those that outlive their caller.
    """

    def __init__(self) -> None:
        self._contexts: dict[str, Context] = {}

    @contextmanager
    def executing(self, thread_id: str) -> Generator[None]:
        """Execute the runs of the thread and of its children in the current context within the block.

        If another caller waits for the thread, its context is kept: the message joins that caller's run.
        """
        context = self._contexts.setdefault(thread_id, copy_context())
        try:
            yield
        finally:
            for each in [each for each, known in self._contexts.items() if known is context]:
                del self._contexts[each]

    def add_child(self, child_id: str, parent_id: str) -> None:
        """Execute the runs of a child thread in the context of its parent."""
        if (context := self._contexts.get(parent_id)) is not None:
            self._contexts.setdefault(child_id, context)

    def in_context(self, thread_id: str, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return the work of the thread to await, in the context of its caller if one waits."""
        context = self._contexts.get(thread_id)
        if context is None:
            return work
        loop = asyncio.get_running_loop()
        return loop.create_task(work, name=f"run {thread_id}", context=context.copy())


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


CutOff: TypeAlias = Literal["time", "abort"]
"""Reason why work was ended from outside: it timed out, or it was aborted."""


log = logger("toolwright.supervision")


class Deadlines:
    """The deadlines of one event loop, in the loop's own seconds. A removed deadline leaves only a number behind."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._times: list[tuple[float, int]] = []  # a heap, which can still contain removed deadlines
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def add(self, when: float, callback: Callable[[], None]) -> int:
        """Set a deadline at which `callback` is called. Return its number, with which it can be removed."""
        number = next(self._numbers)
        self._callbacks[number] = callback
        heappush(self._times, (when, number))
        if when < self._next:
            self._arm(when)
        return number

    def remove(self, number: int) -> None:
        """Remove a deadline that has not been reached."""
        self._callbacks.pop(number, None)
        if len(self._times) > 2 * len(self._callbacks) + SPENT:
            self._times = [each for each in self._times if each[1] in self._callbacks]
            heapify(self._times)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = when
        self._timer = self.loop.call_at(when, self._call_due)

    def _call_due(self) -> None:
        self._timer, self._next = None, float("inf")
        now = self.loop.time()
        while self._times and (self._times[0][0] <= now or self._times[0][1] not in self._callbacks):
            number = heappop(self._times)[1]
            if number in self._callbacks:
                self.loop.call_soon(self._call, number)  # not here: a callback can add and remove deadlines
        if self._times:
            self._arm(self._times[0][0])

    def _call(self, number: int) -> None:
        callback = self._callbacks.pop(number, None)
        if callback is not None:
            callback()


class _ThreadDeadlines(threading.local):
    """The deadlines of the event loop that this thread ran last."""

    last: Deadlines | None = None


_per_thread = _ThreadDeadlines()


def deadlines_of(loop: asyncio.AbstractEventLoop) -> Deadlines:
    """Return the deadlines of the loop that this thread runs."""
    deadlines = _per_thread.last
    if deadlines is None or deadlines.loop is not loop:
        deadlines = _per_thread.last = Deadlines(loop)
    return deadlines


class Supervision(Generic[T]):
    """A coroutine in a separate task, which can be abandoned if it swallows its cancellation.

    It is cancelled after `seconds`, and when it is aborted. If it has not ended `GRACE` seconds later it is abandoned:
    its result is dropped and its exception logged. `cut_off` is the reason for its end. A cancellation of the caller is
    not lost even if it has not ended the work: see `check_cancelled`.
    """

    __slots__ = (
        "_abort",
        "_began",
        "_cancelled",
        "_deadline",
        "_deadlines",
        "_ends_at",
        "_loop",
        "_overdue",
        "_patience",
        "_started",
        "_task",
        "_waiter",
        "_watched",
        "_work",
        "cut_off",
        "paused_seconds",
    )

    def __init__(self, work: Coroutine[Any, Any, T], what: str, seconds: float | None = None) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._work = work
        self._deadlines = deadlines_of(loop)
        self._deadline: int | None = None
        self._ends_at = 0.0
        self._began = loop.time()
        self._abort: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._overdue = False
        self._waiter: asyncio.Future[None] = loop.create_future()
        self._cancelled: asyncio.CancelledError | None = None
        self.cut_off: CutOff | None = None
        self.paused_seconds = 0.0  # that the time limit was paused
        self._started = self._watched = False
        self._task = loop.create_task(self._run(), name=what)  # last, since an eager task starts at once
        # a task that is cancelled before it starts never enters `_run`, which wakes the waiter
        if not self._started:
            self._task.add_done_callback(self._on_end)
            self._watched = True
        if seconds is not None:
            self.limit(loop.time() + seconds)

    def limit(self, when: float) -> None:
        """Set the time of the event loop at which the work times out."""
        if self._deadline is not None:
            self._deadlines.remove(self._deadline)
        self._ends_at = when
        self._deadline = self._deadlines.add(when, self._cut_by_time)

    def prolong(self, seconds: float, most: float) -> None:
        """Move the time limit to `seconds` from now if it is earlier, but to at most `most` after the start.

        Pauses do not count. While the limit is paused there is nothing to prolong.
        """
        when = min(self._loop.time() + seconds, self._began + self.paused_seconds + most)
        if self._deadline is not None and when > self._ends_at:
            self.limit(when)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause the work's time limit while it waits for a person."""
        if self._deadline is None:
            yield
            return
        began = self._loop.time()
        remaining = self._ends_at - began
        self._deadlines.remove(self._deadline)
        self._deadline = None
        try:
            yield
        finally:
            self.paused_seconds += self._loop.time() - began
            if not self._task.done():
                self.limit(self._loop.time() + remaining)

    def expired(self) -> bool:
        """Return whether the work was cut off."""
        return self.cut_off is not None

    def reschedule(self, when: float) -> None:
        """Set the time of the event loop at which the work is aborted, unless it has ended."""
        if self._abort is not None:
            self._abort.cancel()
        if when <= self._loop.time() and asyncio.current_task() is not self._task:
            # Immediately: work that waited for the abort would otherwise continue in the loop's next iteration.
            self._cut("abort")
        else:
            self._abort = self._loop.call_at(when, self._cut, "abort")

    async def end(self) -> bool:
        """Wait until the work has ended or is abandoned. Returns whether it ended in time and has a result.

        Aborted work can still have a result. So can work that ends normally although the caller is cancelled: the work
        is cancelled with the caller, and `CancelledError` is raised if that ended it.
        """
        try:
            while not self._task.done() and not self._overdue:
                try:
                    await self._waiter
                except asyncio.CancelledError as error:
                    self._cancelled = error
                    self._cancel()
                    if self._waiter.cancelled():  # the cancellation of this task also cancelled its future
                        self._waiter = self._loop.create_future()
        finally:
            if self._deadline is not None:
                self._deadlines.remove(self._deadline)
            if self._abort is not None:
                self._abort.cancel()
            if self._patience is not None:
                self._patience.cancel()
        if not self._task.done():
            abandon(self._task)
        elif self.cut_off != "time" and not (self._task.cancelled() and (self._cancelled or self.cut_off)):
            return True
        else:
            _drop(self._task)
        if self._cancelled is not None:
            raise self._cancelled
        return False

    def check_cancelled(self) -> None:
        """Raise the caller's cancellation, and drop the result, although the work has succeeded.

        For callers that cannot use a result then. A run records it.
        """
        if self._cancelled is not None:
            _drop(self._task)
            raise self._cancelled

    def result(self) -> T:
        """Return the result of finished work, or raise its exception."""
        return self._task.result()

    async def _run(self) -> T:
        """Run the work and return its result.

        Waiting tasks resume in the loop's next iteration, when the task has ended.
        """
        self._started = True
        if self._watched:
            self._task.remove_done_callback(self._on_end)
        try:
            return await self._work
        finally:
            self._wake()

    def _cut_by_time(self) -> None:
        self._cut("time")

    def _cut(self, why: CutOff) -> None:
        if self.cut_off is None and not self._task.done():
            self.cut_off = why
            self._cancel()

    def _cancel(self) -> None:
        if self._patience is None and not self._task.done():
            self._task.cancel()
            self._patience = self._loop.call_later(GRACE, self._abandon)

    def _abandon(self) -> None:
        self._overdue = True
        self._wake()

    def _on_end(self, _: "asyncio.Task[T]") -> None:
        self._work.close()
        self._wake()

    def _wake(self) -> None:
        if not self._waiter.done():
            self._waiter.set_result(None)


async def catch_exit(work: Awaitable[T]) -> tuple[T | None, BaseException | None]:
    """Return the result of the work, or an error that would end the loop or the program if a task raised it."""
    try:
        return await work, None
    except (KeyboardInterrupt, SystemExit) as error:
        return None, error


def abandon(task: "asyncio.Task[Any]") -> None:
    """Abandon the task: neither its event loop nor the interpreter waits for it at exit."""
    log.error("%r ignores its cancellation and is abandoned.", _task_name(task))
    task.add_done_callback(_log_late_end)
    # Documented in asyncio's "Extending asyncio". Otherwise `asyncio.run` would cancel the task again at its end, and
    # wait for it forever.
    asyncio._unregister_task(task)
    # Otherwise the interpreter would close the coroutine at exit, which hangs if a handler swallows that too.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


def _log_late_end(task: "asyncio.Task[Any]") -> None:
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(task))
    log.warning("%r, which was abandoned, has ended. Its result is dropped.", _task_name(task))
    _drop(task)


def _drop(task: "asyncio.Task[Any]") -> None:
    """Log the error of an abandoned task, unless the error ends the event loop."""
    if task.cancelled():
        return
    error = task.exception()
    late = task.result() if error is None else None
    if isinstance(error, Exception):
        log.warning("%r has failed after it was cancelled.", _task_name(task), exc_info=error)
    elif isinstance(late, ToolResult) and late.status == "error":
        log.warning("%r has failed after it was cancelled: %s", _task_name(task), late.stack or late.error)


def _task_name(task: "asyncio.Task[Any]") -> str:
    return task.get_name()
