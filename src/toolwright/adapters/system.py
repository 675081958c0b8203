"""The machine's own clock, and ids that rise with time."""

import asyncio
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


def new_id(prefix: str) -> str:
    """`prefix_` and 27 characters: 11 of time in milliseconds, 16 of chance."""
    return f"{prefix}_{time.time_ns() // 1_000_000:011x}{os.urandom(8).hex()}"
