"""Services of the runtime, commits of effects outside runs, and deletion of the remaining rows of deleted objects."""

import logging

from toolwright.core.errors import StoreError
from toolwright.core.journal.effects import Effect, traced
from toolwright.core.journal.retention import SweepThreads
from toolwright.core.journal.store import Store
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.journal.units import Apply, Committed, Conflict
from toolwright.core.ports import Bus, Clock, Motor, NewId
from toolwright.core.value import value

log = logging.getLogger("toolwright.runtime")


@value
class Services:
    """The services that most classes of the runtime share: the journal, the motor that executes runs, clock and ids."""

    store: Store
    motor: Motor
    bus: Bus
    clock: Clock
    new_id: NewId
    telemetry: Telemetry | None = None


class EffectCommits:
    """Commits effects from outside any run, and wakes the threads that they address."""

    def __init__(self, services: Services) -> None:
        self._telemetry = services.telemetry
        self._store = services.store
        self._motor = services.motor
        self._clock = services.clock
        self._new_id = services.new_id

    async def commit(self, *effects: Effect) -> Committed | Conflict:
        """Commit all of the effects or none."""
        if self._telemetry is not None:
            effects = tuple(traced(effects, self._telemetry.current()))
        unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=effects)
        answer = await self._store.commit(unit)
        if isinstance(answer, Committed):
            for thread_id, _ in answer.runs:
                self._motor.wake(thread_id)
        return answer


async def sweep_rows(store: Store, clock: Clock, new_id: NewId) -> int:
    """Delete the remaining rows of deleted threads, spaces and agents, in batches. Return their number."""
    total = 0
    while await store.retention.has_rows_left():
        answer = await store.commit(SweepThreads(token=new_id("unit"), at=clock.now()))
        if not isinstance(answer, Committed) or not answer.count:
            break
        total += answer.count
    return total


async def sweep_after(deleted: str, store: Store, clock: Clock, new_id: NewId) -> None:
    """Delete the remaining rows of a deleted object. If that fails, housekeeping deletes them."""
    try:
        await sweep_rows(store, clock, new_id)
    except StoreError as error:
        log.warning("%s is deleted, but some of its rows are not: %s", deleted, error)
