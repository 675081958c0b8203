"""Waiting for a commit's outcome whatever happens to the waiter."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def shielded(outcome: "asyncio.Future[T]") -> T:
    """The future's outcome; a cancellation meanwhile is raised at the caller's next wait, after it.

    A commit under way cannot be taken back: whoever is cancelled during it must still learn what became of it.
    """
    task = asyncio.current_task()
    assert task is not None
    absorbed = 0
    while not outcome.done():
        try:
            await asyncio.shield(outcome)
        except asyncio.CancelledError:
            if outcome.cancelled():
                raise
            absorbed += 1
            task.uncancel()
        except BaseException:  # noqa: BLE001 - the outcome itself failed: raised below, after the bookkeeping
            break
    for _ in range(absorbed):
        task.cancel()
    return outcome.result()
