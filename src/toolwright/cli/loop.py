"""Event loop of a command and exit of its process: tasks and threads of the app cannot delay the exit."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from toolwright.cli.output import INTERRUPTED
from toolwright.core.concurrency import abandon

T = TypeVar("T")
Work: TypeAlias = Coroutine[Any, Any, T]
Task: TypeAlias = "asyncio.Task[Any] | None"

PATIENCE = 5.0  # seconds for a normal exit: the interpreter itself waits for threads without a limit

TIDYING = 20.0  # seconds that the command's own task has to clean up

log = logging.getLogger("toolwright.cli")


def force_exit(code: int) -> None:
    """Exit with that code after a few seconds if the process has not ended by itself.

    A handler can leave a thread running, for example with `asyncio.to_thread`. Python would wait for it without end.
    """
    timer = threading.Timer(PATIENCE, _exit, (code,))
    timer.daemon = True
    timer.start()


def _exit(code: int) -> None:
    try:
        log.warning("A thread started by the program does not end. The process exits without it.")
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also if stdout or stderr is closed
        os._exit(code)


class _Threads(ThreadPoolExecutor):
    """Threads of `asyncio.to_thread`. Closing the loop does not wait for them, only the exit of the process does."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def run(work: Work[T]) -> T:
    """Run a command's coroutine in its own event loop and return its result.

    Tasks that the app has left in the loop are cancelled and get a few seconds to end. Its threads are left to
    `force_exit`.
    """
    own: list[Task] = []

    async def main() -> T:
        own.append(asyncio.current_task())
        return await work

    runner = asyncio.Runner()  # not closed: closing waits without a limit for tasks that do not end
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
    except KeyboardInterrupt:  # one raised by a handler is raised again by the task that awaited it
        force_exit(INTERRUPTED)
        raise


async def _end_all(own: Collection[Task]) -> None:
    """End the command's own task first, because it cleans up, then all other tasks and async generators.

    Tasks that do not end in time are abandoned.
    """
    ours = [task for task in own if task is not None and not task.done()]
    if ours:  # a handler's Ctrl-C stopped the loop before they ended
        await _end(ours, TIDYING)
    await _end(_other_tasks(), PATIENCE)
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens(), name="open generators")
    await asyncio.wait([closing], timeout=PATIENCE)
    for task in _other_tasks():  # including those that the ended tasks have started
        abandon(task)


async def _end(tasks: Collection["asyncio.Task[Any]"], seconds: float) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        _, running = await asyncio.wait(tasks, timeout=seconds)
        for task in running:
            abandon(task)


def _other_tasks() -> "set[asyncio.Task[Any]]":
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
