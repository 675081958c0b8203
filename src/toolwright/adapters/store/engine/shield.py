"""Cancellation shield: waits for a commit's outcome even if the waiter is cancelled."""

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


async def shielded(outcome: "asyncio.Future[T]") -> T:
    """Return the future's outcome. A cancellation in the meantime is raised at the caller's next wait.

    A commit in progress cannot be undone: a caller cancelled during it must still learn its outcome.
    """
    task = asyncio.current_task()
    assert task is not None
    requests = task.cancelling()
    absorbed = False
    while not outcome.done():
        try:
            await asyncio.wait([outcome])
        except asyncio.CancelledError:
            absorbed = True
            # A cancellation requested before this function was called is counted in `requests`: subtract it.
            requests = min(requests, task.cancelling() - 1)
    if absorbed:
        asyncio.get_running_loop().call_soon(_cancel_again, task, requests)
    return outcome.result()


def _cancel_again(task: "asyncio.Task[Any]", requests: int) -> None:  # any result type
    """Raise the cancellation, unless its owner (such as an exited timeout) has withdrawn it in the meantime."""
    if task.cancelling() > requests:
        task.cancel()
        task.uncancel()  # `cancel` counted the request a second time
