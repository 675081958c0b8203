"""Process of one code execution: its own session and folder, limits, and guaranteed termination."""

import asyncio
import contextlib
import fcntl
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

_PREFIX = "toolwright-code-"
_OTHERS = {"RLIMIT_FSIZE": 16 * 1024 * 1024, "RLIMIT_NOFILE": 64, "RLIMIT_CORE": 0}
_STALE_AFTER = 3600.0  # seconds after which a folder is certainly unused
_CHECK_INTERVAL = 0.02  # seconds between two memory checks
_SLACK = 96 * 1024 * 1024  # bytes that the program itself can use later, in addition to the code's limit
_PAGE = resource.getpagesize()


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


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the process, and wait until it is reaped and its pipes are closed."""
    if process.returncode is None:
        kill(process.pid)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.close()
    for pipe in (process.stdout, process.stderr):
        while await pipe.read(65536):
            pass
    with contextlib.suppress(ConnectionError):
        await process.stdin.wait_closed()
    await process.wait()
