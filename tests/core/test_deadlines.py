"""Many deadlines on one timer of a loop, whose time moves when the test says so."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolwright.core.supervision import SPENT, Deadlines, deadlines_of


class Ahead(asyncio.SelectorEventLoop):
    """A loop that is so many seconds ahead, and counts its timers."""

    ahead = 0.0
    timers = 0

    def time(self) -> float:
        return super().time() + self.ahead

    def call_at(self, *args: Any, **named: Any) -> asyncio.TimerHandle:  # as the loop takes them
        self.timers += 1
        return super().call_at(*args, **named)


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


def test_thousands_that_end_in_time_take_one_timer_and_leave_nothing() -> None:
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
        assert len(deadlines._times) <= SPENT + 1  # pyright: ignore[reportPrivateUsage]  # what ended takes no room

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


@pytest.mark.parametrize("count", [1, 2])
def test_every_loop_has_its_own(count: int) -> None:
    loops = [Ahead() for _ in range(count)]
    try:
        assert len({id(deadlines_of(loop)) for loop in loops}) == count
        assert all(deadlines_of(loop) is deadlines_of(loop) for loop in loops)
    finally:
        for loop in loops:
            loop.close()


def test_loops_that_are_closed_are_let_go() -> None:
    kept: list[weakref.ref[Ahead]] = []
    for _ in range(10):
        loop = Ahead()
        kept.append(weakref.ref(loop))
        deadlines_of(loop).add(loop.time() + 600, list[str]().clear)
        loop.close()
        del loop
    gc.collect()
    assert sum(each() is not None for each in kept) <= 1  # the last, until there is another
