"""Waiting for a commit's outcome whatever happens to the waiter."""

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
            # A cancellation that was already on its way when we came is counted in `requests`: take it out.
            requests = min(requests, task.cancelling() - 1)
    if absorbed:
        asyncio.get_running_loop().call_soon(_cancel_again, task, requests)
    return outcome.result()


def _cancel_again(task: "asyncio.Task[Any]", requests: int) -> None:  # whatever the task returns
    """Raise the cancellation, unless its owner (a timeout that has been left) has taken it back meanwhile."""
    if task.cancelling() > requests:
        task.cancel()
        task.uncancel()  # `cancel` counted a request again; the first one is still pending
