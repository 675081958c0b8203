"""Whose cancellation it is: that of the task which calls other people's code, or one that such code has raised."""

import asyncio


def is_cancelled() -> bool:
    """Whether the task at work is being cancelled: a `CancelledError` is its own then, and passes."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def cancellations() -> int:
    """How often the task at work has been cancelled, beside those that were taken back, as `asyncio.timeout` does."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def check_cancelled(before: int) -> None:
    """Raise `CancelledError` if the task at work was cancelled since it had so many cancellations."""
    if cancellations() > before:
        await asyncio.sleep(0)  # a scope of anyio's cancels once more here, by an error that it knows again
        raise asyncio.CancelledError
