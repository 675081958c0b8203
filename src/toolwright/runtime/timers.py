"""Timers: wake-ups that are not threads, by the kind that their name starts with.

A timer is a wake-up with the name `kind:key`, so that it is found, retried and released to another process like every
other wake-up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TypeAlias

from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError
from toolwright.core.journal.effects import MovePlans
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Committed, Leave, Leaving
from toolwright.core.ports import Clock, Drain, Motor, NewId, Verdict

log = logger("toolwright.runtime")

LOOK_EVERY = 1.0  # seconds
DUTY = 60.0  # seconds for which one process of a cluster moves plans
LEAST = 1.0  # minimum seconds of a clock change; smaller differences are drift
BEHIND = 0.25  # seconds that a node's clock can be behind that of the database, which leased the timer

Fire: TypeAlias = Callable[[str], Awaitable[None]]
"""Executes a timer; `what` is its name after the kind. Does nothing if the timer is not due any more."""

CALL, PLAN = "call", "plan"


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


class ClockWatch:
    """Detects that the clock was set back, and moves relative plans by the same time, so that they are not late.

    A clock that is set forward afterwards undoes this. A clock that is set forward first delays nothing, because that
    is indistinguishable from a machine that has slept.
    """

    def __init__(self, store: Store, motor: Motor, clock: Clock, new_id: NewId) -> None:
        self._store = store
        self._motor = motor
        self._clock = clock
        self._new_id = new_id
        self._moved = 0.0  # seconds that plans were moved to earlier times
        self._offset = self._read()

    async def run(self) -> None:
        """Check the clock each second, without end."""
        while True:
            try:
                await self.check()
            except StoreError as error:
                log.warning("The clock was set, but plans could not be rescheduled yet: %s", error)
            await asyncio.sleep(LOOK_EVERY)  # real time, independent of a test's clock

    async def check(self) -> None:
        """Compare the clock with the monotonic one, and move the plans if it was set back. Raises `StoreError`."""
        offset = self._read()
        change = min(offset - self._offset, self._moved)
        if abs(change) >= LEAST and await self._motor.on_duty("clock", DUTY):
            effect = MovePlans(by=timedelta(seconds=change))
            unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=(effect,))
            await self._store.commit(unit)
            log.warning("The clock was set by %.0f s. Plans set with runAfter keep their delay.", change)
            self._moved -= change
        self._offset = offset

    def _read(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()
