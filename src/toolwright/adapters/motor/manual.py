"""Scheduler for tests: processes threads on demand, one at a time, always in the same order."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from toolwright.core.journal.store import Store
from toolwright.core.ports import Drain, RetryInIsolation

START = datetime(2030, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that advances only when it is set or when something sleeps."""

    def __init__(self, now: datetime = START) -> None:
        self._start = self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Advance the time."""
        self._now += timedelta(seconds=seconds)

    def set_by(self, seconds: float) -> None:
        """Set the wall-clock time forward or back. The monotonic time is unchanged."""
        self._now += timedelta(seconds=seconds)
        self._start += timedelta(seconds=seconds)


class ManualMotor:
    """The `Motor` port, driven by `run_until_idle`."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self._store = store
        self._clock = clock
        self._drain: Drain | None = None
        self._nudge: Callable[[str], None] = lambda _: None
        self._draining: str | None = None
        self._nudged: dict[str, None] = {}

    @property
    def driving(self) -> bool:
        return self._drain is not None

    @property
    def is_only_driver(self) -> bool:
        return self.driving

    async def on_duty(self, name: str, seconds: float) -> bool:
        return self.driving

    async def start(self, drain: Drain, nudge: Callable[[str], None]) -> None:
        self._drain, self._nudge = drain, nudge

    def wake(self, thread_id: str) -> None:
        self._nudged[thread_id] = None
        if thread_id == self._draining:
            self._nudge(thread_id)

    async def stop(self, grace: float) -> None:
        self._drain = None

    async def run_until_idle(self, limit: int = 100_000) -> int:
        """Process due threads, longest due first, and notified ones, until there are none. Returns their number.

        A notification, or the result `again`, processes a thread that has a wake-up even if that is not due yet.
        """
        count = 0
        while names := await self._next():
            for name in names:
                self._nudged.pop(name, None)
                await self._drain_one(name)
                count += 1
                if count >= limit:
                    raise RuntimeError(f"After {limit} drains, work is still due.")
        return count

    async def _next(self) -> list[str]:
        due = [wake.thread_id for wake in await self._store.due(self._clock.now(), 100)]
        nudged = [name for name in self._nudged if name not in due]
        self._nudged.clear()
        return due + [name for name in nudged if await self._store.wake(name) is not None]

    async def run_timers(self) -> int:
        """Advance the clock to the next wake-up and process threads. Returns 0 if there is no wake-up."""
        coming = await self._store.next_due(self._clock.now())
        if coming is None:
            return 0
        self._clock.advance((coming - self._clock.now()).total_seconds())
        return await self.run_until_idle()

    async def _drain_one(self, thread_id: str) -> None:
        assert self._drain is not None, "the motor has not been started"
        self._draining = thread_id
        try:
            verdict = await self._drain(thread_id)
            if isinstance(verdict, RetryInIsolation):
                self._clock.advance(verdict.after)
                verdict = await self._drain(thread_id, alone=True)
            if verdict == "again":
                self._nudged[thread_id] = None
        finally:
            self._draining = None
