"""Handle of a code execution, common to all sandboxes: timeout, cancellation, logs up to a limit."""

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Coroutine, Generator
from typing import Any, cast, get_args

from toolwright.core.state.sandbox import CodeError, CodeLog, CodeResult, LogLevel, ended
from toolwright.core.text import brief, quantity
from toolwright.core.value import changed

_LEVELS = frozenset(get_args(LogLevel))
_EACH = 16  # bytes that an entry counts in addition to its text
INSIST = 0.5  # seconds between repeated cancellations of work that does not end


class Log:
    """Log that keeps the first `most` bytes. `clean` rewrites texts with the user's names."""

    def __init__(self, most: int, clean: Callable[[str], str]) -> None:
        self._most = most
        self._room = most
        self._clean = clean
        self._entries: list[CodeLog] = []

    @property
    def entries(self) -> tuple[CodeLog, ...]:
        """Log entries in order. If some were dropped, the last entry is a note about it."""
        if self._room >= 0:
            return tuple(self._entries)
        note = f"The code has logged more than {quantity(self._most, 'byte')}; the rest was discarded."
        return (*self._entries, CodeLog(level="warn", text=note))

    def add(self, level: object, text: str) -> None:
        """Append the text, truncated to the remaining space."""
        if self._room < 0:
            return
        written = text.encode(errors="replace")  # an unpaired surrogate cannot be stored
        room, size, text = self._room, len(written) + _EACH, written.decode()
        self._room -= size
        if size > room:
            text = brief(text, max(0, room // 4))
        valid_level = cast("LogLevel", level) if isinstance(level, str) and level in _LEVELS else "log"
        self._entries.append(CodeLog(level=valid_level, text=self._clean(text)))


Work = Callable[[Log], Coroutine[Any, Any, CodeResult]]


class Handle:
    """A code execution. Await it for its outcome. The execution ends when the handle is garbage-collected."""

    def __init__(self, task: "asyncio.Task[CodeResult]", stop: "asyncio.Future[str]") -> None:
        self._task = task
        self._stop = stop
        forgotten = weakref.finalize(self, _forget, task, task.get_loop())
        forgotten.atexit = False

    def __await__(self) -> Generator[Any, None, CodeResult]:
        return self._outcome().__await__()

    def terminate(self, reason: str = "Terminated.") -> None:
        """End the code for the given reason if it has not ended."""
        if not self._stop.done():
            self._stop.set_result(brief(str(reason)))

    async def _outcome(self) -> CodeResult:
        return await self._task


class CodeExecutions:
    """The executions of one sandbox. None of them outlives it."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[CodeResult], asyncio.Future[str]] = {}
        self._closed = False

    def start(self, work: Work, log: Log, timeout: float) -> Handle:
        """Start the work. It is cancelled after its timeout or when it is terminated."""
        stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if self._closed:
            stop.set_result("The sandbox is closed.")
        task = asyncio.create_task(_carry_out(work, log, stop, timeout))
        self._running[task] = stop
        task.add_done_callback(lambda done: self._running.pop(done, None))
        return Handle(task, stop)

    async def close(self) -> None:
        """End all executions and wait until they have ended."""
        self._closed = True
        for stop in self._running.values():
            if not stop.done():
                stop.set_result("The sandbox is closed.")
        if self._running:
            await asyncio.wait(list(self._running))


async def _carry_out(work: Work, log: Log, stop: "asyncio.Future[str]", timeout: float) -> CodeResult:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    if stop.done():
        return _terminated(stop.result())
    job = asyncio.create_task(work(log))
    try:
        await asyncio.wait((job, stop), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        in_time = job.done()
    finally:
        await _end(job)
    if in_time:
        outcome = job.result()
    elif stop.done():
        outcome = _terminated(stop.result())
    else:
        outcome = ended(CodeError(code="timeout", message=f"The code ran for more than {timeout:g} s."))
    return changed(outcome, logs=log.entries, duration_ms=round((loop.time() - begin) * 1000, 3))


async def _end(job: "asyncio.Task[CodeResult]") -> None:
    """Cancel the work repeatedly until it ends, because a library can swallow a cancellation."""
    while not job.done():
        job.cancel()
        await asyncio.wait((job,), timeout=INSIST)


def _terminated(reason: str) -> CodeResult:
    return ended(CodeError(code="terminated", message=reason))


def _forget(task: "asyncio.Task[CodeResult]", loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the task of a collected handle. The garbage collector can run in any thread, at any time."""
    if not task.done():
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing is running
            loop.call_soon_threadsafe(task.cancel)
