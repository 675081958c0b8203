"""Cancelling a run: the signal that handlers see, and the scopes that it ends."""

import asyncio
from typing import Protocol


class Scope(Protocol):
    """What an abort can end: it is ended at the time of the loop that it is rescheduled to."""

    def expired(self) -> bool: ...

    def reschedule(self, when: float) -> None: ...


class Abort:
    """Raised once when the run is being cancelled."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._scopes: dict[Scope, float] = {}

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
            for scope, grace in self._scopes.items():
                _interrupt(scope, grace)

    def within(self, scope: Scope, grace: float = 0.0) -> None:
        """From now on an abort ends this scope, `grace` seconds later; those around it are ended as before."""
        self._scopes[scope] = grace
        if self._event.is_set():
            _interrupt(scope, grace)

    def left(self, scope: Scope) -> None:
        """The scope has been left: an abort leaves it alone."""
        self._scopes.pop(scope, None)


def _interrupt(scope: Scope, grace: float) -> None:
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time() + grace)
