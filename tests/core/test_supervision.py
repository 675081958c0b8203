"""Supervision of foreign coroutines: a waiting task never waits longer than the grace period."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from toolwright.core.concurrency import Supervision
from toolwright.runtime.context.execution import Cancellation

pytestmark = pytest.mark.anyio


async def test_a_cancel_at_the_moment_at_which_patience_ends_is_not_waited_for_again() -> None:
    """The waiting task is cancelled in the same iteration of the loop in which the work is abandoned."""
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
    waiting.cancel()  # its future is cancelled, but the task has not resumed yet
    work._abandon()  # pyright: ignore[reportPrivateUsage]  # called by the timer of the grace period, exactly now
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, 10)
    released.set()
    await asyncio.sleep(0)


class Finished(asyncio.Future[Any]):
    """A task that has finished at creation, as an eager one can."""

    def get_name(self) -> str:
        return "finished"

    def set_name(self, name: str) -> None:
        assert name


def eager(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **_: object) -> Finished:
    task = Finished(loop=loop)
    try:
        work.send(None)
    except StopIteration as end:
        task.set_result(end.value)
    return task


async def seven() -> int:
    return 7


async def test_work_that_is_over_as_soon_as_its_task_is_made_has_its_result() -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(eager)  # type: ignore[arg-type]  # implements only the required part of a task
    try:
        work = Supervision(seven(), "seven", 30.0)
    finally:
        loop.set_task_factory(None)
    assert await work.end()
    assert work.result() == 7


async def test_work_that_someone_else_cancels_before_it_begins_is_not_waited_for() -> None:
    work = Supervision(seven(), "seven")
    [task] = [each for each in asyncio.all_tasks() if each.get_name() == "seven"]
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            assert await work.end()
            work.result()


async def test_aborted_work_goes_no_step_further_though_it_was_about_to() -> None:
    steps, go_on = list[str](), asyncio.Event()

    async def wait() -> None:
        steps.append("began")
        await go_on.wait()
        steps.append("went on")

    work, abort = Supervision(wait(), "wait"), Cancellation()
    abort.within(work)
    await asyncio.sleep(0)
    go_on.set()  # like the notification of a cancellation
    abort.set()
    assert not await work.end()
    assert steps == ["began"] and work.cut_off == "abort"
