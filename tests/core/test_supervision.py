"""Supervision of other people's coroutines: whoever waits for one is never kept longer than its grace."""

import asyncio

import pytest

from toolwright.core.supervision import Supervision

pytestmark = pytest.mark.anyio


async def test_a_cancel_at_the_moment_at_which_patience_ends_is_not_waited_for_again() -> None:
    """The waiting task is cancelled in the very turn of the loop in which the work is given up."""
    released = asyncio.Event()

    async def deaf() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    work = Supervision(deaf(), "deaf")
    waiting = asyncio.create_task(work.end())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    waiting.cancel()  # its future is cancelled, and the task not yet awake
    work._give_up()  # pyright: ignore[reportPrivateUsage]  # what the timer of the grace calls, at just this moment
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, 10)
    released.set()
    await asyncio.sleep(0)
