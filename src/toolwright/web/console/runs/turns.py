"""Turns of others while much is drawn: the event loop is let go often, but not so often that drawing is slow."""

import asyncio
import time
from typing import Final

LONGEST: Final = 0.02  # seconds


class Turns:
    """One piece of work that takes long; asked between its parts."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def give(self) -> None:
        """Others get their turn, if this work had the loop for long enough."""
        if time.perf_counter() - self._since > LONGEST:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
