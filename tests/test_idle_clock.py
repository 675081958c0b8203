"""The loop whose clock jumps when nothing is running: its waits take no time, and end in order."""

import asyncio
import time

import pytest

pytestmark = [pytest.mark.anyio, pytest.mark.idle_clock]
LONG = 3_600.0  # seconds: more than the timeout of a test


async def test_a_wait_ends_at_its_time_by_the_loops_clock_alone() -> None:
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(LONG)
    assert asyncio.get_running_loop().time() - began >= LONG


async def test_waits_end_in_their_order() -> None:
    ended: list[float] = []

    async def wait(seconds: float) -> None:
        await asyncio.sleep(seconds)
        ended.append(seconds)

    await asyncio.gather(wait(LONG), wait(LONG / 3), wait(LONG / 2))
    assert ended == [LONG / 3, LONG / 2, LONG]


async def test_a_deadline_passes_while_nothing_is_running() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(LONG):
            await asyncio.Event().wait()


async def test_a_thread_is_waited_for_where_there_is_no_timer() -> None:
    assert await asyncio.to_thread(lambda: time.sleep(0.05) or "done") == "done"
