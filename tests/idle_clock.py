"""An event loop whose clock jumps to the next timer when nothing is running: waits take no time.

It is for tests whose waits are all on the loop (in memory, no other process): `@pytest.mark.idle_clock`. The loop waits
briefly for work in threads; longer work there would be overtaken by the next timer.
"""

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

A_LITTLE = 0.002  # seconds


class _Selector(selectors.DefaultSelector):  # type: ignore[valid-type, misc]  # the base class depends on the system
    """Waits only briefly: the seconds that were not waited for are `skipped`."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= A_LITTLE:
            return super().select(timeout)
        events = super().select(A_LITTLE)
        if not events:
            self.skipped += timeout - A_LITTLE
        return events


class IdleClockLoop(asyncio.SelectorEventLoop):
    """An event loop that uses the selector below its clock."""

    def __init__(self) -> None:
        self._idle = _Selector()
        super().__init__(self._idle)

    def time(self) -> float:
        """Return seconds, including those that were not waited for."""
        return super().time() + self._idle.skipped


BACKEND: tuple[str, Mapping[str, Any]] = ("asyncio", {"loop_factory": IdleClockLoop})
"""The backend of anyio with such a loop."""
