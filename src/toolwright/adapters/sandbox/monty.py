"""Python sandbox: one Monty process per execution. Monty is an interpreter without any access to the outside."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Any, Literal

from pydantic_monty import (
    AsyncMonty,
    AsyncMontySession,
    MontyConversionError,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
    ResourceLimits,
)

from toolwright.adapters.sandbox.handle import CodeExecutions, Handle, Log
from toolwright.adapters.sandbox.process import THREADS, HostFunctions, limit
from toolwright.core.concurrency import DaemonThreads
from toolwright.core.errors import InvalidJSON, InvalidRequest
from toolwright.core.json_value import JSON, Path, dumps, plain, spell, surely_longer
from toolwright.core.state.sandbox import (
    CodeError,
    CodeLimits,
    CodeOptions,
    CodeResult,
    Execute,
    admit,
    ended,
)
from toolwright.core.text import brief, quantity

_CYCLES = {"[...]": list, "(...)": list, "{...}": dict}
"""Texts that Monty returns instead of a container that contains itself. The same text inside one is also rejected."""

_UNMADE = "RuntimeError: Internal error in monty: exceptions can only be called with zero or one string"
_EXCEPTION_CALL = re.compile(r"\b([A-Z][A-Za-z]*)\(\s*(-?\d[\d_.]*|None|True|False)\s*\)")
_SLEPT = "TimeoutError: sleep limit exceeded"
MAX_PROCESSES = 256
_SOURCE, _CALL = "<python-input-0>", "__called = {}(*__args)\nawait __called if {} else __called"
_WAITS = "type(__called).__name__ == 'coroutine'"
_FRAMES = 20  # innermost frames of a stack that are shown
_SETTLE = 0.05  # seconds
_MAX_BEGUN = 65_536  # characters of a line without an end
_WRITTEN = (
    4  # multiple of the result limit above which results are not serialized and their length is not reported
)
_TOO_MUCH = (  # Monty's messages about memory: of its interpreter before it allocates, of its process when it could not
    "MemoryError: memory limit exceeded",
    "MemoryError: the worker exceeded its memory limit",
)
_DATA = 256 * 1024 * 1024  # bytes of the interpreter itself, and of a value while it is transferred


def read(value: object) -> JSON:
    """Return the value as JSON. Raises `InvalidJSON` also for a cycle."""
    copy = plain(value)
    path = _cycle(copy, (), ())
    if path is not None:
        raise InvalidJSON(f"{spell(path)} contains itself, which JSON cannot represent.")
    return copy


def raised(message: str, source: str) -> str:
    """Return the message of an exception that the code raised but Monty could not construct."""
    if not message.startswith(_UNMADE):
        return message
    candidates = {f"{name}: {argument}" for name, argument in _EXCEPTION_CALL.findall(source)}
    if len(candidates) == 1:
        return candidates.pop()
    return "RuntimeError: An exception takes at most one argument here, a string, as in `raise ValueError('text')`."


def slept_too_long(message: str) -> bool:
    """Return whether the code tried to sleep beyond its timeout."""
    return message.startswith(_SLEPT)


def _cycle(value: JSON, path: Path, above: tuple[type, ...]) -> Path | None:
    """Return the path of the first cycle, or None."""
    if isinstance(value, str):
        return path if _CYCLES.get(value) in above else None
    if not isinstance(value, dict | list):
        return None
    above = (*above, type(value))
    for step, item in value.items() if isinstance(value, dict) else enumerate(value):
        cycle = _cycle(item, (*path, step), above)
        if cycle is not None:
            return cycle
    return None


_Function = Callable[..., Coroutine[Any, Any, JSON]]


class MontySandbox:
    """The `Sandbox` port for Python. It needs the extra `sandbox`.

    The result is the value of the last expression, or of the function named by `execute`. Host functions are available
    by name and must be awaited.
    """

    def __init__(self, limits: CodeLimits | None = None) -> None:
        self._limits = limits or CodeLimits()
        self._threads = DaemonThreads(THREADS, "toolwright-code")
        self._runs = CodeExecutions()
        self._opening = asyncio.Lock()
        self._open = AsyncExitStack()
        self._pool: AsyncMonty | None = None

    def start(self, source: str, options: CodeOptions) -> Handle:
        """Run the code. Raises `InvalidRequest` if it exceeds the limits."""
        source, options = admit(source, options, self._limits)
        if options.language != "python":
            raise InvalidRequest(f"This sandbox runs Python, not {options.language!r}.")
        log = Log(self._limits.logs, str)
        assert options.timeout is not None
        return self._runs.start(partial(self._run, source, options), log, options.timeout)

    async def close(self) -> None:
        """End all executions and Monty's processes."""
        await self._runs.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        async with self._opening:
            if self._pool is not None:
                self._pool = None
                await self._open.aclose()
                await asyncio.sleep(_SETTLE)  # its threads would abort a process that ends at the same time

    async def _run(self, source: str, options: CodeOptions, log: Log) -> CodeResult:
        hosted = HostFunctions(options.imports, self._threads, self._limits.result, read)
        running, printed = _RunningCalls(), PrintedLines(log)
        functions = {name: _function(hosted, name, running) for name in options.imports}
        pool = await self._processes()
        try:
            async with pool.checkout(script_name=str(options.filename), limits=_bounds(options)) as session:
                _hold(session.worker_pid, options)
                value = await _value(session, source, options, functions, printed.add)
        except (MontyRuntimeError, MontySyntaxError) as error:
            return _failed(error, source, options)
        except (MontyConversionError, ValueError, OverflowError, TypeError) as error:
            return ended(CodeError(code="result", message=f"The result is not JSON: {brief(str(error))}"))
        except MontyError:
            return ended(CodeError(code="exited", message="The process that executed the code crashed."))
        finally:
            running.end()
            printed.end()
        return self._carried(value)

    async def _processes(self) -> AsyncMonty:
        async with self._opening:
            if self._pool is None:
                pool = AsyncMonty(min_processes=0, max_processes=MAX_PROCESSES, max_checkouts_per_worker=1)
                self._pool = await self._open.enter_async_context(pool)
            return self._pool

    def _carried(self, value: object) -> CodeResult:
        if isinstance(value, CodeError):
            return ended(value)
        if surely_longer(value, _WRITTEN * self._limits.result):
            message = f"The result has more than the allowed {quantity(self._limits.result, 'byte')}."
            return ended(CodeError(code="result", message=message))
        try:
            result = read(value)
            size = len(dumps(result))
        except InvalidJSON as error:
            return ended(CodeError(code="result", message=f"The result is not JSON: {error}"))
        if size > self._limits.result:
            message = f"The result has {quantity(size, 'byte')}, and {self._limits.result} are allowed."
            return ended(CodeError(code="result", message=message))
        return CodeResult(status="success", result=result)


async def _value(
    session: AsyncMontySession,
    source: str,
    options: CodeOptions,
    functions: Mapping[str, _Function],
    printed: Callable[[Literal["stdout", "stderr"], str], None],
) -> object:
    """Return the value of the code, or a `CodeError` if the requested function is missing."""
    feed = partial(session.feed_run, external_lookup=dict(functions), print_callback=printed)
    last = await feed(source, inputs=dict(options.globals))
    execute = options.execute or Execute()
    if not await _defines(session, execute.fn):
        if options.execute is None:
            return last
        return CodeError(code="result", message=f"The code defines no {execute.fn!r} at its top level.")
    return await feed(_CALL.format(execute.fn, _WAITS), inputs={"__args": list(execute.args)})


async def _defines(session: AsyncMontySession, name: str) -> bool:
    try:
        await session.feed_run(f"{name}\nNone" if name.isidentifier() else "raise NameError")
    except (MontyRuntimeError, MontySyntaxError):
        return False
    return True


class _RunningCalls:
    """Host function calls in progress in one execution. Monty can lose track of a call when it is cancelled."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any] | None] = set()  # of any type that Monty creates
        self._over = False

    @contextmanager
    def one(self) -> Generator[None]:
        """Yield while a call is in progress. Raises `CancelledError` after the execution has ended."""
        if self._over:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def end(self) -> None:
        """End the execution and all functions that it has called."""
        self._over = True
        for task in self._tasks:
            if task is not None:
                task.cancel()


def _function(hosted: HostFunctions, name: str, running: _RunningCalls) -> _Function:
    async def called(*args: object, **named: object) -> JSON:
        with running.one():
            return await hosted.call(name, args, named)

    return called


def _bounds(options: CodeOptions) -> ResourceLimits:
    return {
        "max_feed_duration_secs": options.timeout,
        "max_total_sleep_secs": options.timeout,
        "max_memory": options.memory_limit_bytes,
        "max_suspensions": 1_000_000,
    }


def _hold(pid: int | None, options: CodeOptions) -> None:
    """Limit the memory of the process with the kernel too, in case Monty's own accounting fails."""
    if pid is not None and options.memory_limit_bytes is not None and options.timeout is not None:
        limit(pid, 2 * options.memory_limit_bytes + _DATA, int(2 * options.timeout) + 5)


class PrintedLines:
    """Adds printed text to a log, one entry per line. Monty passes it in pieces, which end anywhere in a line."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._stream: Literal["stdout", "stderr"] = "stdout"
        self._begun = ""

    def add(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        """Add the lines that have ended. The rest begins the next line, unless it is very long."""
        if stream != self._stream:
            self.end()
            self._stream = stream
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._add(line)
        if len(self._begun) > _MAX_BEGUN:
            self.end()

    def end(self) -> None:
        """Add the line that has begun, if there is one."""
        if self._begun:
            self._add(self._begun)
            self._begun = ""

    def _add(self, line: str) -> None:
        self._log.add("log" if self._stream == "stdout" else "error", line)


def _failed(error: MontyRuntimeError | MontySyntaxError, source: str, options: CodeOptions) -> CodeResult:
    message = raised(brief(error.display("type-msg")).removeprefix("Exception: "), source)
    if message.startswith(_TOO_MUCH):
        explanation = f"The code used more than the allowed {options.memory_limit_bytes} bytes of memory."
        return ended(CodeError(code="memory", message=explanation))
    if message.startswith("TimeoutError: feed time limit exceeded") or slept_too_long(message):
        explanation = f"The code ran for more than {options.timeout:g} s."
        return ended(CodeError(code="timeout", message=explanation))
    return ended(
        CodeError(code="error", message=message, stack=_stack(error, message, str(options.filename)))
    )


def _stack(error: MontyRuntimeError | MontySyntaxError, message: str, filename: str) -> str:
    """Format a stack trace like Python, without the frame of the internal call."""
    lines = ["Traceback (most recent call last):"]
    for frame in error.traceback()[-_FRAMES:]:
        if frame.filename in (_SOURCE, "<string>"):
            called = filename if frame.filename == _SOURCE else frame.filename
            within = f", in {frame.function_name}" if frame.function_name else ""
            lines.append(f'  File "{called}", line {frame.line}{within}')
    return "\n".join([*lines, message])
