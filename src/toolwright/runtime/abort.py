"""Cancelling a run: the signal that handlers see, and the scope that it ends."""

import asyncio


class Abort:
    """Raised once when the run is being cancelled."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._scope: asyncio.Timeout | None = None
        self._grace = 0.0

    @property
    def aborted(self) -> bool:
        """Whether the run is being cancelled."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return once the run is being cancelled."""
        await self._event.wait()

    def set(self) -> None:
        """Raise the signal; what is at work is cancelled when its grace is over."""
        if not self._event.is_set():
            self._event.set()
            self._interrupt()

    def within(self, scope: asyncio.Timeout | None, grace: float = 0.0) -> None:
        """From now on an abort ends this scope, `grace` seconds later."""
        self._scope, self._grace = scope, grace
        if self._event.is_set():
            self._interrupt()

    def _interrupt(self) -> None:
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time() + self._grace)
