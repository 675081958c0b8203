"""The machine's own clock, and ids that rise with time."""

import asyncio
import itertools
import os
import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ClusterClock(SystemClock):
    """The machine's clock, set by what it differs from that of the cluster's database."""

    ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def moved(self, ahead: timedelta) -> None:
        """The database's clock is so far ahead of the machine's."""
        self.ahead = ahead


_number = itertools.count(int.from_bytes(os.urandom(3)))
# The random parts of the next ids: to ask the system for one takes longer than all the rest.
_randoms: list[str] = []
os.register_at_fork(after_in_child=_randoms.clear)


def new_id(prefix: str) -> str:
    """`prefix_` and 27 characters: 11 of time in milliseconds, 6 of a number that rises by one, 10 of chance.

    Ids that a process makes rise, also within a millisecond, but once in 16 million.
    """
    try:
        random = _randoms.pop()
    except IndexError:
        random = _draw()
    return f"{prefix}_{time.time_ns() // 1_000_000:011x}{next(_number) & 0xFFFFFF:06x}{random}"


def _draw() -> str:
    drawn = os.urandom(5 * 200).hex()
    first, *others = map("".join, zip(*[iter(drawn)] * 10, strict=True))  # ten characters each
    _randoms.extend(others)  # for whoever comes next, of whichever thread
    return first
