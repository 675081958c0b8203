"""The event loop of a command, and the end of its process: nobody else's tasks and threads hold it up."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from toolwright.cli.output import INTERRUPTED
from toolwright.core.supervision import leave

PATIENCE = 5.0  # seconds for a normal end: the interpreter's own wait for threads has no limit

log = logging.getLogger("toolwright.cli")


def force_exit(code: int) -> None:
    """From now on the process ends in some seconds, with that exit code, if it does not end by itself.

    A handler may have left a thread behind, by `asyncio.to_thread` for example, for which Python waits for ever.
    """
    last = threading.Timer(PATIENCE, _end, (code,))
    last.daemon = True
    last.start()


def _end(code: int) -> None:
    try:
        log.warning("A thread that somebody has left at work does not end: the process ends without it.")
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also where nobody reads any more
        os._exit(code)


T = TypeVar("T")
Work: TypeAlias = Coroutine[Any, Any, T]
Task: TypeAlias = "asyncio.Task[Any] | None"


class _Threads(ThreadPoolExecutor):
    """Threads of `asyncio.to_thread` that the end of the loop does not wait for: that of the process does."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def run(work: Work[T]) -> T:
    """Carry a command's work out on a loop of its own; what it returns, or raises.

    Tasks that others have left in the loop are cancelled, and have some seconds to end; their threads are left to
    `force_exit`.
    """
    own: list[Task] = []

    async def main() -> T:
        own.append(asyncio.current_task())
        return await work

    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(_Threads())
        try:
            return runner.run(main())
        finally:
            _end_tasks(runner, own)


def _end_tasks(runner: asyncio.Runner, own: Collection[Task]) -> None:
    try:
        runner.run(_cancel_all(own))
    except KeyboardInterrupt:  # a handler's own comes out once more, of the task that has waited for it
        force_exit(INTERRUPTED)
        raise


async def _cancel_all(own: Collection[Task]) -> None:
    """End all tasks: our own, which tidies up, is waited for; of the others those that do not end are left."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    ours = [task for task in tasks if task in own]
    if ours:  # a handler's Ctrl-C has stopped the loop meanwhile
        await asyncio.wait(ours)
    others = tasks.difference(ours)
    if others:
        _, deaf = await asyncio.wait(others, timeout=PATIENCE)
        for task in deaf:
            leave(task)
