"""Commits of effects from outside any run, each as a unit of its own."""

from toolwright.core.journal.effect_traces import traced
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.store import Store
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.journal.units import Apply, Committed, Conflict
from toolwright.core.ports import Clock, Motor, NewId


class EffectCommits:
    """Commits effects from outside any run, and nudges the threads that they wake."""

    def __init__(
        self, store: Store, motor: Motor, clock: Clock, new_id: NewId, telemetry: Telemetry | None = None
    ) -> None:
        self._telemetry = telemetry
        self._store = store
        self._motor = motor
        self._clock = clock
        self._new_id = new_id

    async def commit(self, *effects: Effect) -> Committed | Conflict:
        """All of them or none."""
        if self._telemetry is not None:
            effects = tuple(traced(effects, self._telemetry.current()))
        unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=effects)
        answer = await self._store.commit(unit)
        if isinstance(answer, Committed):
            for thread_id, _ in answer.runs:
                self._motor.wake(thread_id)
        return answer
