"""A loop whose time moves when the test says so."""

import asyncio
from typing import Any


class Ahead(asyncio.SelectorEventLoop):
    """A loop that is so many seconds ahead, and counts its timers."""

    ahead = 0.0
    timers = 0

    def time(self) -> float:
        return super().time() + self.ahead

    def call_at(self, *args: Any, **named: Any) -> asyncio.TimerHandle:  # as the loop takes them
        self.timers += 1
        return super().call_at(*args, **named)
