"""The machine's own clock, and ids that rise with time."""

import asyncio
import itertools
import os
import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_number = itertools.count(int.from_bytes(os.urandom(3)))


def new_id(prefix: str) -> str:
    """`prefix_` and 27 characters: 11 of time in milliseconds, 6 of a number that rises by one, 10 of chance.

    Ids that a process makes rise, also within a millisecond, but once in 16 million.
    """
    milliseconds, number = time.time_ns() // 1_000_000, next(_number) & 0xFFFFFF
    return f"{prefix}_{milliseconds:011x}{number:06x}{os.urandom(5).hex()}"
