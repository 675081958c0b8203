"""Timers: what the motor wakes that is no thread, by the kind that their name begins with.

A timer is a wake under a name of its own, `kind:what`, so that it is found, tried again and left to another process
like every other wake.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Leave, Leaving
from toolwright.core.ports import Clock, Drain, NewId, Verdict

Fire: TypeAlias = Callable[[str], Awaitable[None]]
"""Does what a timer is for; `what` is what its name says behind the kind. Does nothing if it is not due any more."""

CALL, PLAN = "call", "plan"


class Timers:
    """Fires timers, and leaves all other wakes to `threads`."""

    def __init__(
        self, store: Store, threads: Drain, kinds: Mapping[str, Fire], clock: Clock, new_id: NewId
    ) -> None:
        self._store = store
        self._threads = threads
        self._kinds = kinds
        self._clock = clock
        self._new_id = new_id

    async def __call__(self, thread_id: str, *, alone: bool = False) -> Verdict:
        name = thread_id  # or that of a timer
        kind, _, what = name.partition(":")
        if not what:
            return await self._threads(name, alone=alone)
        wake = await self._store.wake(name)
        if wake is None or wake.due > self._clock.now():
            return "done"
        await self._kinds[kind](what)
        leaving = Leaving(gen=wake.gen)  # nothing, where what it did has set or dropped it
        unit = Leave(token=self._new_id("unit"), at=self._clock.now(), thread_id=name, leaving=leaving)
        answer = await self._store.commit(unit)
        return "done" if isinstance(answer, Committed) and answer.left else "again"
