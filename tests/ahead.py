"""A loop whose time the test controls."""

import asyncio
from typing import Any


class Ahead(asyncio.SelectorEventLoop):
    """A loop that is that many seconds ahead, and counts its timers."""

    ahead = 0.0
    timers = 0

    def time(self) -> float:
        return super().time() + self.ahead

    def call_at(self, *args: Any, **named: Any) -> asyncio.TimerHandle:  # as in the loop
        self.timers += 1
        return super().call_at(*args, **named)
