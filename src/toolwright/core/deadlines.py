"""Deadlines of other people's work: thousands of them on one timer of the event loop, and most of them never come."""

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from weakref import WeakKeyDictionary

SPENT = 256  # entries of what has ended, beyond as many as are at work, at which they are taken out


class Deadlines:
    """The deadlines of one event loop, in its own seconds. Nothing is kept of work that has ended in time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rings: dict[int, Callable[[], None]] = {}
        self._times: list[tuple[float, int]] = []  # a heap, with some that are over
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def add(self, when: float, ring: Callable[[], None]) -> int:
        """Call `ring` at that time, unless what this gives is removed before."""
        number = next(self._numbers)
        self._rings[number] = ring
        heappush(self._times, (when, number))
        if when < self._next:
            self._arm(when)
        return number

    def remove(self, number: int) -> None:
        """Removes a deadline, if it is there."""
        self._rings.pop(number, None)
        if len(self._times) > 2 * len(self._rings) + SPENT:
            self._times = [each for each in self._times if each[1] in self._rings]
            heapify(self._times)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = when
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer, self._next = None, float("inf")
        now = self._loop.time()
        while self._times and (self._times[0][0] <= now or self._times[0][1] not in self._rings):
            self._loop.call_soon(self._ring_one, heappop(self._times)[1])
        if self._times:
            self._arm(self._times[0][0])

    def _ring_one(self, number: int) -> None:
        ring = self._rings.pop(number, None)
        if ring is not None:
            ring()


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Deadlines] = WeakKeyDictionary()


def deadlines_of(loop: asyncio.AbstractEventLoop) -> Deadlines:
    """The deadlines of that loop."""
    try:
        return _of_loops[loop]
    except KeyError:
        return _of_loops.setdefault(loop, Deadlines(loop))
