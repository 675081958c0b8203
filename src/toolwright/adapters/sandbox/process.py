"""Process of one code execution: its session, folder, limits and termination, and its protocol of JSON lines."""

import asyncio
import contextlib
import fcntl
import inspect
import json
import os
import resource
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NoReturn, cast

from toolwright.adapters.sandbox.handle import Log
from toolwright.core.concurrency import DaemonThreads, Supervision, catch_exit, is_cancelled
from toolwright.core.errors import InvalidJSON
from toolwright.core.forms import exception_text
from toolwright.core.json_value import JSON, JSONObject, dumps, plain, surely_longer
from toolwright.core.state.sandbox import CodeError, CodeOptions, CodeResult, HostFunction, ended
from toolwright.core.text import brief, error_text, quantity

_PREFIX = "toolwright-code-"
_OTHERS = {"RLIMIT_FSIZE": 16 * 1024 * 1024, "RLIMIT_NOFILE": 64, "RLIMIT_CORE": 0}
_STALE_AFTER = 3600.0  # seconds after which a folder is certainly unused
_CHECK_INTERVAL = 0.02  # seconds between two memory checks
_SLACK = 96 * 1024 * 1024  # bytes that the program itself can use later, in addition to the code's limit
_PAGE = resource.getpagesize()
THREADS = 64
CONCURRENT_CALLS = 32
"""Maximum number of calls of host functions whose answers are not written. The process waits before it sends more."""
_LINES_AT_ONCE = 100  # lines of the process that are read before other tasks have a turn
MAX_TEXT = 20_000  # characters of a message or stack
_KINDS = ("log", "call", "result", "error")
_WHAT_ELSE = 65_536  # bytes of a line in addition to its value


class MemoryWatch:
    """Watches the resident memory of a process, because V8's own limit does not count buffers."""

    def __init__(self, pid: int, most: int) -> None:
        self._file = Path(f"/proc/{pid}/statm")
        self._pid = pid
        self._most = self._resident() + most + _SLACK
        self.exceeded = False

    async def watch(self) -> None:
        """Kill the process when it uses too much memory. Returns when the process has ended."""
        while self._resident() <= self._most:  # noqa: ASYNC110 - the kernel sends no notification
            await asyncio.sleep(_CHECK_INTERVAL)
        self.exceeded = True
        kill(self._pid)

    def _resident(self) -> int:
        try:
            return int(self._file.read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError):  # it has ended
            return 0


_VM_STATISTICS = Path("/proc/vmstat")


def out_of_memory_kills(statistics: Path = _VM_STATISTICS) -> int:
    """Return the number of processes that the kernel has killed because memory was short, or 0 if it is unknown."""
    try:
        lines = statistics.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


class LifeLine:
    """A pipe without a writer. The kernel kills the process when this process closes its end or dies.

    The other end is asynchronous: closing it raises a signal, which is set to SIGKILL.
    """

    def __init__(self) -> None:
        self.end, self._ours = os.pipe()

    def tie(self, group: int) -> None:
        """Set up the kernel to kill the process group when this process ends."""
        with contextlib.suppress(OSError):  # not supported: the end of its input and its timeout still end it
            fcntl.fcntl(self.end, fcntl.F_SETOWN, -group)
            fcntl.fcntl(self.end, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(self.end, fcntl.F_SETFL, fcntl.fcntl(self.end, fcntl.F_GETFL) | os.O_ASYNC)

    def close(self) -> None:
        """Close both ends."""
        os.close(self.end)
        os.close(self._ours)


def limit(pid: int, memory: int, processor_seconds: int) -> None:
    """Set kernel limits, in bytes and seconds, which remain in force if this process dies."""
    limits = {"RLIMIT_DATA": memory, "RLIMIT_CPU": processor_seconds, **_OTHERS}
    with contextlib.suppress(ProcessLookupError):  # it has ended
        for name, most in limits.items():
            resource.prlimit(pid, getattr(resource, name), (most, most))


def kill(pid: int) -> None:
    """Kill the process and its group immediately."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def opened(
    command: Callable[[Path], Sequence[str]],
    environment: Callable[[Path], dict[str, str]],
    files: dict[str, str],
    longest_line: int,
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Yield a process in its own session, with a new folder of these files. Both are removed afterwards.

    The folder is created and removed without an await in between, so that a cancellation cannot leave it behind. It is
    small, as its files are limited by `CodeLimits.source`.
    """
    with contextlib.ExitStack() as stack:
        life = LifeLine()
        stack.callback(life.close)
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *command(folder),
            cwd=folder,
            env=environment(folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=(life.end,),
            limit=longest_line,
        )
        try:
            life.tie(process.pid)
            yield process
        finally:
            ending = asyncio.ensure_future(_end(process))
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                # It is killed and soon reaped. Leaving it on a second cancellation would leave its pipes open.
                await ending
                raise


def sweep(age: float = _STALE_AFTER) -> None:
    """Remove folders of at least that age whose owners died without removing them.

    The age is used because an owner can run in another container, whose process ids are unknown here.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            status = folder.stat()
            ours = status.st_uid == os.getuid() and owner.isdecimal()
            if ours and time.time() - status.st_mtime >= age and not Path("/proc", owner).exists():
                shutil.rmtree(folder, ignore_errors=True)


def _kill_running(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        kill(process.pid)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the process, and wait until it is reaped and its pipes are closed."""
    _kill_running(process)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.close()
    for pipe in (process.stdout, process.stderr):
        while await pipe.read(65536):
            pass
    with contextlib.suppress(ConnectionError):
        await process.stdin.wait_closed()
    await process.wait()


class HostError(Exception):
    """Error that the code receives instead of a value."""


class HostFunctions:
    """The host functions of one execution, by name. Others cannot be called. Synchronous ones are called in `threads`.

    `read` converts their arguments to JSON, or raises `InvalidJSON`.
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

    async def call(self, name: str, args: Sequence[object], keyword_arguments: Mapping[str, object]) -> JSON:
        """Call a host function and return its result. Raises `HostError` for all of its errors."""
        function = self._functions.get(name)
        if function is None:
            raise HostError(f"There is no function {brief(name, 100)!r} to call.")
        if surely_longer((args, keyword_arguments), self._most):
            raise HostError(
                f"The arguments of {name!r} have more than the allowed {quantity(self._most, 'byte')}."
            )
        try:
            positional, keywords = self._read(args), self._read(keyword_arguments)
        except InvalidJSON as error:
            raise HostError(f"The arguments of {name!r} must be JSON: {error}") from error
        try:
            returned = await self._returned(
                function, cast("list[JSON]", positional), cast("dict[str, JSON]", keywords)
            )
            return self._carried(name, returned)
        except HostError:
            raise
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise HostError(f"{name!r} was cancelled.") from error
        except BaseException as error:
            # A host function can raise anything, including exceptions that would end the server.
            raise HostError(error_text(error, exception_text)) from error

    async def _returned(
        self, function: HostFunction, args: Sequence[JSON], keywords: Mapping[str, JSON]
    ) -> object:
        if inspect.iscoroutinefunction(function):
            return await _supervised(function(*args, **keywords))
        loop = asyncio.get_running_loop()
        returned, error = await loop.run_in_executor(self._threads, _caught, function, args, keywords)
        if error is not None:
            raise error
        if isinstance(returned, Awaitable):
            return await _supervised(cast("Awaitable[object]", returned))  # of any type
        return returned

    def _carried(self, name: str, returned: object) -> JSON:
        try:
            value = plain(returned)
        except InvalidJSON as error:
            raise HostError(f"The result of {name!r} must be JSON: {error}") from error
        size = len(dumps(value))
        if size > self._most:
            raise HostError(
                f"The result of {name!r} has {quantity(size, 'byte')}, and {self._most} are allowed."
            )
        return value


async def _supervised(returned: Awaitable[object]) -> object:
    """Return the result of an awaitable. A function that swallows its cancellation does not block the code."""
    work = Supervision(catch_exit(returned), "function of the host")
    await work.end()
    value, error = work.result()
    if error is not None:
        raise error
    return value


def _caught(
    function: HostFunction, args: Sequence[JSON], keywords: Mapping[str, JSON]
) -> tuple[object, BaseException | None]:
    """Return the value or the exception of a call. A future cannot hold a `StopIteration` and would never complete."""
    try:
        return function(*args, **keywords), None
    except StopIteration as error:
        return None, RuntimeError(error_text(error))
    except BaseException as error:  # noqa: BLE001 - it becomes an error on the other side
        return None, error


_FIELDS = {
    "level": str,
    "text": str,
    "id": int,
    "name": str,
    "args": list,
    "code": str,
    "message": str,
    "stack": str,
}


def longest_line(most: int) -> int:
    """Return the maximum size of a line, in bytes, for values of at most `most` bytes."""
    return 2 * most + _WHAT_ELSE  # a character of two bytes can be written as six


class Talk:
    """Protocol session of one execution. Only lines with its token are messages; other text was written by the code."""

    def __init__(
        self, process: asyncio.subprocess.Process, hosted: HostFunctions, log: Log, most: int
    ) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._in, self._out = process, process.stdin, process.stdout
        self._hosted = hosted
        self._log = log
        self._most = most
        self._token = secrets.token_hex(16)
        self._room = asyncio.Semaphore(CONCURRENT_CALLS)

    async def begin(self, options: CodeOptions, most_logs: int) -> None:
        """Send the process its task."""
        execute = options.execute
        await self._send(
            {
                "token": self._token,
                "most": {"result": self._most, "logs": most_logs, "calls": CONCURRENT_CALLS},
                "globals": options.globals,
                "execute": None if execute is None else {"fn": execute.fn, "args": list(execute.args)},
            }
        )

    async def outcome(self) -> CodeResult | None:
        """Serve the process until it has an outcome. Returns None if its output ends without one.

        The process is killed before anything else when it has an outcome or this is cancelled, whatever is in progress.
        """
        async with asyncio.TaskGroup() as calls:
            with contextlib.ExitStack() as stack:
                stack.callback(_kill_running, self._process)
                outcome = await self._serve(calls)
                if outcome is None:  # it ends by itself, with a status
                    stack.pop_all()
        return outcome

    async def _serve(self, calls: asyncio.TaskGroup) -> CodeResult | None:
        outcome, under_way = None, set[asyncio.Task[None]]()
        lines = count(1)
        while outcome is None and (line := await self._line()):
            if next(lines) % _LINES_AT_ONCE == 0:  # buffered lines are read without waiting
                await asyncio.sleep(0)
            message = self._understood(line)
            if message is None:
                self._log.add("log", line.decode(errors="replace").rstrip("\n"))
            elif message["kind"] == "call":
                await self._room.acquire()
                task = calls.create_task(self._answer(message))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            else:
                outcome = self._handle(message)
        for task in list(under_way):
            task.cancel()
        return outcome

    async def _line(self) -> bytes:
        try:
            return await self._out.readline()
        except ValueError:  # longer than any line that the runner writes
            return b"\n"

    def _understood(self, line: bytes) -> JSONObject | None:
        """Return the line parsed as a message, or None if it is not one."""
        try:
            parsed = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
        if not isinstance(parsed, dict) or cast("JSONObject", parsed).get("token") != self._token:
            return None
        message = cast("JSONObject", parsed)
        return message if message.get("kind") in _KINDS and _well_formed(message) else None

    def _handle(self, outcome: JSONObject) -> CodeResult | None:
        match outcome["kind"]:
            case "log":
                self._log.add(outcome.get("level"), str(outcome.get("text", "")))
                return None
            case "result":
                return self._result(outcome.get("value"))
            case _:
                code = "result" if outcome.get("code") == "result" else "error"
                message, stack = (_text(outcome.get(name)) for name in ("message", "stack"))
                return ended(CodeError(code=code, message=message, stack=stack))

    def _result(self, value: JSON) -> CodeResult:
        try:
            result = plain(value)
        except InvalidJSON as error:
            return ended(CodeError(code="result", message=f"The result is not JSON: {error}"))
        size = len(json.dumps(result, ensure_ascii=False).encode(errors="replace"))
        if size > 2 * self._most:
            message = f"The result has {quantity(size, 'byte')}, and {self._most} are allowed."
            return ended(CodeError(code="result", message=message))
        return CodeResult(status="success", result=result)

    async def _answer(self, request: JSONObject) -> None:
        name, args = str(request.get("name", "")), cast("list[JSON]", request.get("args", []))
        try:
            try:
                value = await self._hosted.call(name, args, {})
                answer: JSONObject = {"id": request.get("id"), "value": value}
            except HostError as error:
                answer = {"id": request.get("id"), "error": str(error)}
            await self._send(answer)
        finally:
            self._room.release()

    async def _send(self, message: JSONObject) -> None:
        with contextlib.suppress(ConnectionError):  # it has ended, which the reader detects
            self._in.write(dumps(message).encode() + b"\n")
            await self._in.drain()


def _text(value: JSON) -> str:
    return brief(str(value or ""), MAX_TEXT).encode(errors="replace").decode()


def _well_formed(message: JSONObject) -> bool:
    """Return whether all fields except the code's values have the types that the runner writes."""
    return all(type(message[name]) is kind for name, kind in _FIELDS.items() if name in message)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
