"""Many deadlines on one timer of a loop, whose time the test controls."""

import asyncio
import gc
import sys
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.ahead import Ahead

from toolwright.core.concurrency import SPENT, Deadlines, Supervision, deadlines_of


def on_the_loop(body: Callable[[Ahead, Deadlines, list[str]], Awaitable[None]]) -> None:
    loop = Ahead()
    try:
        loop.run_until_complete(body(loop, Deadlines(loop), []))
    finally:
        loop.close()


async def _turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_they_ring_in_order_and_once_each() -> None:
    async def body(loop: Ahead, deadlines: Deadlines, rung: list[str]) -> None:
        now = loop.time()
        for seconds in (3, 1, 2, 1):
            deadlines.add(now + seconds, lambda seconds=seconds: rung.append(str(seconds)))
        loop.ahead += 1.5
        await _turns()
        assert rung == ["1", "1"]
        loop.ahead += 5
        await _turns()
        assert rung == ["1", "1", "2", "3"]

    on_the_loop(body)


def test_what_is_removed_does_not_ring_also_by_another_that_rings_before_it() -> None:
    async def body(loop: Ahead, deadlines: Deadlines, rung: list[str]) -> None:
        now = loop.time()
        second = deadlines.add(now + 2, lambda: rung.append("second"))
        deadlines.add(now + 1, lambda: deadlines.remove(second))
        deadlines.remove(deadlines.add(now + 1, lambda: rung.append("removed")))
        deadlines.remove(4711)
        loop.ahead += 3
        await _turns()
        assert rung == []

    on_the_loop(body)


def test_one_that_is_added_while_another_rings_is_heard() -> None:
    async def body(loop: Ahead, deadlines: Deadlines, rung: list[str]) -> None:
        now = loop.time()

        def add_another() -> None:
            deadlines.add(now + 1.5, lambda: rung.append("later"))

        deadlines.add(now + 1, add_another)
        deadlines.add(now + 9, lambda: rung.append("last"))
        loop.ahead += 1.2
        await _turns()
        assert rung == []
        loop.ahead += 1
        await _turns()
        assert rung == ["later"]

    on_the_loop(body)


def test_thousands_that_end_in_time_take_one_timer_and_drop_stale_wake() -> None:
    async def body(loop: Ahead, deadlines: Deadlines, rung: list[str]) -> None:
        kept: list[weakref.ref[Any]] = []
        timers = loop.timers
        for _ in range(5_000):
            whom = asyncio.Event()
            kept.append(weakref.ref(whom))
            deadlines.remove(deadlines.add(loop.time() + 60, whom.set))
            del whom
        gc.collect()
        assert [each for each in kept if each() is not None] == []
        assert loop.timers == timers + 1
        assert len(deadlines._times) <= SPENT + 1  # pyright: ignore[reportPrivateUsage]  # expired deadlines take no memory

    on_the_loop(body)


def test_an_error_of_one_does_not_silence_the_others() -> None:
    async def body(loop: Ahead, deadlines: Deadlines, rung: list[str]) -> None:
        told: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: told.append(context))

        def fail() -> None:
            raise ZeroDivisionError

        now = loop.time()
        deadlines.add(now + 1, fail)
        deadlines.add(now + 1, lambda: rung.append("other"))
        loop.ahead += 2
        await _turns()
        assert rung == ["other"]
        assert isinstance(told[0]["exception"], ZeroDivisionError)

    on_the_loop(body)


def test_every_loop_has_its_own() -> None:
    loops = [Ahead(), Ahead()]
    try:
        first, second = [deadlines_of(loop) for loop in loops]
        assert first is not second
        assert deadlines_of(loops[1]) is second
    finally:
        for loop in loops:
            loop.close()


def test_loops_of_many_threads_do_not_disturb_each_other() -> None:
    async def seven() -> int:
        return 7

    async def work() -> int:
        supervised = Supervision(seven(), "seven", 30.0)
        assert await supervised.end()
        return supervised.result()

    def run(_: int) -> int:
        return sum(asyncio.run(work()) for _ in range(20))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(16) as threads:
            assert sum(threads.map(run, range(16))) == 16 * 20 * 7
    finally:
        sys.setswitchinterval(interval)


def test_loops_that_are_left_are_let_go() -> None:
    kept: list[weakref.ref[Ahead]] = []

    def use() -> None:
        loops = [Ahead() for _ in range(10)]
        for loop in loops:
            kept.append(weakref.ref(loop))
            deadlines_of(loop).add(loop.time() + 600, list[str]().clear)
        for loop in loops:
            loop.close()

    use()
    gc.collect()
    # only the last user is kept, until there is another one
    assert sum(each() is not None for each in kept) <= 1
