"""Whose cancellation it is: that of the task which calls other people's code, or one that such code has raised."""

import asyncio


def is_cancelled() -> bool:
    """Whether the task at work is being cancelled: a `CancelledError` is its own then, and passes."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
