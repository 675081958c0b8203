"""Event loop of a command, and the end of its process: foreign tasks and threads do not delay it."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from toolwright.cli.output import INTERRUPTED
from toolwright.core.supervision import abandon

T = TypeVar("T")
Work: TypeAlias = Coroutine[Any, Any, T]
Task: TypeAlias = "asyncio.Task[Any] | None"

PATIENCE = 5.0  # seconds for a normal end: the interpreter's own wait for threads has no limit

TIDYING = 20.0  # seconds that a command itself has to end what it has begun

log = logging.getLogger("toolwright.cli")


def force_exit(code: int) -> None:
    """Make sure that the process ends within some seconds with that exit code, even if it does not end by itself.

    A handler can leave a thread behind, for example with `asyncio.to_thread`, for which Python would wait without end.
    """
    last = threading.Timer(PATIENCE, _exit, (code,))
    last.daemon = True
    last.start()


def _exit(code: int) -> None:
    try:
        log.warning("A thread started by the program does not end. The process exits without it.")
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also if the reader has gone
        os._exit(code)


class _Threads(ThreadPoolExecutor):
    """Threads of `asyncio.to_thread` for which the end of the loop does not wait. The end of the process does."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def run(work: Work[T]) -> T:
    """Run a command's coroutine in its own event loop, and return its result.

    Tasks that others have left in the loop are cancelled, and have some seconds to end; their threads are left to
    `force_exit`.
    """
    own: list[Task] = []

    async def main() -> T:
        own.append(asyncio.current_task())
        return await work

    runner = asyncio.Runner()  # not closed: that would wait for whatever does not end
    loop = runner.get_loop()
    loop.set_default_executor(_Threads())
    try:
        return runner.run(main())
    finally:
        _end_tasks(runner, own)
        asyncio.set_event_loop(None)
        loop.close()


def _end_tasks(runner: asyncio.Runner, own: Collection[Task]) -> None:
    try:
        runner.run(_end_all(own))
    except KeyboardInterrupt:  # a handler's own comes out again, of the task that has waited for it
        force_exit(INTERRUPTED)
        raise


async def _end_all(own: Collection[Task]) -> None:
    """End all tasks and open generators: our own task, which tidies up, first; what does not end is left."""
    ours = [task for task in own if task is not None and not task.done()]
    if ours:  # a handler's Ctrl-C has stopped the loop meanwhile
        await _end(ours, TIDYING)
    await _end(_other_tasks(), PATIENCE)
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens(), name="open generators")
    await asyncio.wait([closing], timeout=PATIENCE)
    for task in _other_tasks():  # those that the others have begun meanwhile too
        abandon(task)


async def _end(tasks: Collection["asyncio.Task[Any]"], seconds: float) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        _, deaf = await asyncio.wait(tasks, timeout=seconds)
        for task in deaf:
            abandon(task)


def _other_tasks() -> "set[asyncio.Task[Any]]":
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
