"""Timers: wake-ups that are not threads, by the kind that their name starts with.

A timer is a wake-up with the name `kind:key`, so that it is found, retried and released to another process like every
other wake-up.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Leave, Leaving
from toolwright.core.ports import Clock, Drain, NewId, Verdict

BEHIND = 0.25  # seconds that a node's clock can be behind that of the database, which leased the timer

Fire: TypeAlias = Callable[[str], Awaitable[None]]
"""Executes a timer; `what` is its name after the kind. Does nothing if the timer is not due any more."""

CALL, PLAN, AFTER_RUN = "call", "plan", "after_run"


class Timers:
    """Fires timers, and passes all other wake-ups to `threads`."""

    def __init__(
        self, store: Store, threads: Drain, kinds: Mapping[str, Fire], clock: Clock, new_id: NewId
    ) -> None:
        self._store = store
        self._threads = threads
        self._kinds = kinds
        self._clock = clock
        self._new_id = new_id

    async def __call__(
        self, thread_id: str, *, alone: bool = False, suspects: int = 1, node: str | None = None
    ) -> Verdict:
        name = thread_id  # or the name of a timer
        kind, _, key = name.partition(":")
        if not key:
            return await self._threads(name, alone=alone, suspects=suspects, node=node)
        if kind not in self._kinds and node is not None:
            return "elsewhere"  # of a newer version
        wake = await self._store.wake(name)
        seconds = 0.0 if wake is None else (wake.due - self._clock.now()).total_seconds()
        if wake is None or seconds > (0.0 if node is None else BEHIND):
            return "done"
        if seconds > 0.0:
            await self._clock.sleep(seconds)
        await self._kinds[kind](key)
        leaving = Leaving(gen=wake.gen)  # no effect if the timer was set or dropped by what it executed
        unit = Leave(token=self._new_id("unit"), at=self._clock.now(), thread_id=name, leaving=leaving)
        answer = await self._store.commit(unit)
        return "done" if isinstance(answer, Committed) and answer.left else "again"
