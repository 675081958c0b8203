"""Embedded scheduler: processes threads in this process's event loop while it holds the journal's lock."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from toolwright.core.concurrency import start_task
from toolwright.core.errors import StoreError
from toolwright.core.journal.store import Outage, Store
from toolwright.core.limits import FIRST_DELAY, longer_delay
from toolwright.core.ports import Clock, Drain, JournalLock, RetryInIsolation
from toolwright.core.text import quantity
from toolwright.core.threads.thread import Wake

log = logging.getLogger("toolwright.motor")

RESERVED = 5  # one slot in this many is reserved for owners with less than an equal share
MAX_QUEUED = 10_000  # queued threads; with more, only the oldest wake-ups are read from the journal
PATIENCE = 5  # seconds for a cancelled worker to end; it is cancelled again every second
SUSPECTED_AT = 3  # processes that have ended while a run was executed, at which it is a suspect
TURN, MAX_TURN = 10.0, 300.0
"""Seconds after which the next suspects are executed beside those that still are; doubled with each further life."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A suspect that waits: from when it can be executed, and how many processes have ended while it was."""

    at: float
    lives: int


class EmbeddedMotor:
    """The scheduler over asyncio (`Motor` port).

    `concurrency` limits the runs in progress, `sweep` is the interval in seconds at which the journal is searched for
    wake-ups without a notification: timers, wake-ups by other processes, wake-ups by a process that died before it
    notified.

    When slots are scarce, the owner with the fewest runs in progress goes first. A fifth of the slots is reserved for
    owners with less than an equal share: the threads of one owner cannot occupy all of them.

    A thread whose run is suspected of ending its process (`RetryInIsolation`) waits in the queue of suspects. Half of
    those with the most lives are executed together, until a process ends again or they are cleared. All other threads
    are processed as usual.

    `tell` is called with a thread that was woken here and whose run another process must execute.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        lock: JournalLock,
        *,
        concurrency: int = 1_000,
        sweep: float = 0.25,
        outage: Outage | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._outage, self._away = outage or Outage(clock), False
        self._tell = tell or _nobody
        self._store = store
        self._clock = clock
        self._lock = lock
        self._concurrency = concurrency
        self._sweep = sweep
        self._reserved = concurrency // RESERVED
        self._ready: deque[str] = deque()
        self._waiting: dict[str, deque[str]] = {}  # by owner, while slots are scarce
        self._owners: dict[str, str] = {}
        self._queued: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._generations: dict[str, int] = {}
        self._delays: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._suspects: dict[str, _Suspect] = {}
        self._group: set[str] = set()  # suspects in progress
        self._turn_ends = 0.0
        self._stubborn: set[asyncio.Task[None]] = set()
        self._stirred = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._drain: Drain | None = None
        self._nudge: Callable[[str], None] = _nobody
        self._stopping = False

    @property
    def driving(self) -> bool:
        return self._lock.held and not self._stopping

    @property
    def is_only_driver(self) -> bool:
        return self.driving

    async def on_duty(self, name: str, seconds: float) -> bool:
        return self.driving

    async def start(self, drain: Drain, nudge: Callable[[str], None]) -> None:
        self._drain, self._nudge = drain, nudge
        await self._try_lock()
        self._main = start_task(self._run(), "toolwright-motor")

    def wake(self, thread_id: str) -> None:
        if not self.driving:
            self._tell(thread_id)
            return
        if thread_id in self._running:
            self._again.add(thread_id)
            self._nudge(thread_id)
        else:
            self._enqueue(thread_id)

    async def stop(self, grace: float) -> None:
        self._stopping = True
        if self._main is not None:
            await self._end([self._main])
        await self._end_drains(grace)
        await self._lock.release()

    async def _end_drains(self, grace: float) -> None:
        """Wait up to `grace` seconds for workers to end, then cancel them."""
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=grace)
        await self._end(self._running.values())

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except Exception:  # entry point of the scheduler: otherwise its end would go unnoticed
                log.exception("The motor failed and continues in %.0f s.", FIRST_DELAY)
                await asyncio.sleep(FIRST_DELAY)

    async def _turn(self) -> None:
        if not self._lock.held:
            await self._yield_drains()
            await self._try_lock()
        pause = self._sweep
        if self._lock.held:
            pause = await self._claim_due()
            await self._start_drains()
        # The sweep also finds wake-ups of other processes and lost notifications.
        await self._pause(pause)

    async def _try_lock(self) -> None:
        try:
            await self._lock.acquire()
        except StoreError as error:
            self._fails(error)
        else:
            self._answers()

    async def _pause(self, seconds: float) -> None:
        """Start queued workers for the given number of seconds. Statements in progress are not interrupted."""
        now = asyncio.get_running_loop().time
        until = now() + seconds
        while True:
            try:
                async with asyncio.timeout_at(until):
                    await self._stirred.wait()
            except TimeoutError:
                return
            self._stirred.clear()
            if self._lock.held:
                await self._start_drains()
            if now() >= until:
                return

    async def _yield_drains(self) -> None:
        """Stop all runs here after the lock is lost. The process that has it now recovers them."""
        await self._end(task for task in self._running.values() if task not in self._stubborn)
        self._ready.clear()
        self._waiting.clear()
        self._queued.clear()
        self._owners.clear()

    async def _end(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Cancel tasks, repeatedly every second if they swallow it, and abandon them after `PATIENCE`."""
        remaining = set(tasks)
        for _ in range(PATIENCE):
            for task in remaining:
                task.cancel()  # repeatedly, since user code can swallow a cancellation
            if remaining:
                _, remaining = await asyncio.wait(remaining, timeout=1.0)
        for task in remaining - self._stubborn:  # workers can be ended from two places, each of which waits
            if self._outage.lasts:  # a commit in progress cannot be undone
                log.info("The task %r ends once the journal is available.", task.get_name())
            else:
                log.error("The task %r ignores its cancellation and is abandoned.", task.get_name())
            self._stubborn.add(task)
            task.add_done_callback(self._stubborn.discard)

    async def _claim_due(self) -> float:
        """Queue due wake-ups. Returns the seconds until the next search.

        Each search looks beyond the queued wake-ups, so that a backlog of one owner does not hide others' wake-ups.
        """
        now = self._clock.now()
        try:
            held_back = len(self._running) + len(self._not_before) + len(self._suspects)
            held_back += min(len(self._queued), MAX_QUEUED)
            due = await self._store.due(now, self._concurrency + held_back)
            coming = await self._store.next_due(now)
        except StoreError as error:
            self._fails(error)
            return self._sweep
        self._answers()
        for wake in due:
            if wake.thread_id in self._running:
                self._note(wake)
            else:
                self._enqueue(wake.thread_id)
        return self._pause_until(coming, now)

    def _pause_until(self, coming: datetime | None, now: datetime) -> float:
        """Return the seconds until the next search: at most until the next wake-up is due."""
        return self._sweep if coming is None else min(self._sweep, max(0.0, (coming - now).total_seconds()))

    def _note(self, wake: Wake) -> None:
        """Notify the worker of a thread in progress, once for each generation of its wake-up."""
        if self._generations.get(wake.thread_id) != wake.gen:
            self._generations[wake.thread_id] = wake.gen
            self._nudge(wake.thread_id)

    def _enqueue(self, thread_id: str) -> None:
        if thread_id in self._queued or thread_id in self._suspects:
            return
        if self._not_before.get(thread_id, 0.0) > self._clock.monotonic():
            return  # its wake-up remains in the journal, where a later search finds it
        self._queued.add(thread_id)
        self._ready.append(thread_id)
        self._stirred.set()

    async def _start_drains(self) -> None:
        self._start_suspects()
        total = len(self._running) + len(self._ready)
        if self._waiting or total > self._concurrency - self._reserved:
            await self._sort_by_owner()
            self._start_fairly()
            return
        while self._ready:
            self._start_queued(self._ready.popleft())

    def _start_queued(self, thread_id: str) -> None:
        self._queued.discard(thread_id)
        if thread_id not in self._running:
            self._start(thread_id)

    async def _sort_by_owner(self) -> None:
        """Move the queued threads to their owners' queues."""
        ready = [*self._ready]
        unknown = [each for each in (*self._running, *ready) if each not in self._owners]
        if unknown:
            try:
                self._owners |= await self._store.owners(unknown)
            except (
                StoreError
            ) as error:  # they then share one queue: less fair, but nothing waits for the database
                self._fails(error)
        for _ in ready:  # others can have been appended in the meantime
            thread_id = self._ready.popleft()
            self._waiting.setdefault(self._owners.get(thread_id, ""), deque()).append(thread_id)

    def _start_fairly(self) -> None:
        """Start queued threads while slots are free, starting with the owner with the fewest runs in progress."""
        running = Counter(self._owners.get(each, "") for each in self._running)
        owners = len(running.keys() | self._waiting.keys())
        share = max(1, self._concurrency // (owners + 1))  # as if there were one more owner
        while self._waiting and len(self._running) < self._concurrency:
            owner = self._next_owner(running)
            free = self._concurrency - len(self._running)
            if free <= self._reserved and running[owner] >= share:
                return
            queue = self._waiting.pop(owner)
            self._start_queued(queue.popleft())
            running[owner] += 1
            if queue:
                self._waiting[owner] = queue  # moved to the end, so that owners of equal rank take turns

    def _next_owner(self, running: Counter[str]) -> str:
        """Return the queued owner with the fewest runs in progress. Of several owners, the longest waiting one."""
        fewest = next(iter(self._waiting))
        for owner in self._waiting:
            if not running[owner]:
                return owner
            if running[owner] < running[fewest]:
                fewest = owner
        return fewest

    def _start_suspects(self) -> None:
        """Start half of the suspects that have the most lives, unless the turn of others has not ended.

        If the process ends, the half that was executed has one life more than the other, so the next process halves it.
        """
        now = self._clock.monotonic()
        if self._group and now < self._turn_ends:
            return
        # the task that has found that a run is a suspect can still be about to free its slot
        ripe = [
            name
            for name, suspect in self._suspects.items()
            if suspect.at <= now and name not in self._running
        ]
        if not ripe:
            return
        lives = max(self._suspects[name].lives for name in ripe)
        most = [name for name in ripe if self._suspects[name].lives == lives]
        half = most[: (len(most) + 1) // 2]
        log.warning(
            "Executing %s apart from %s: the process has ended %s while calls of the app's code were in progress.",
            quantity(len(half), "suspected run"), quantity(len(self._suspects) - len(half), "other"),
            quantity(lives, "time"),
        )  # fmt: skip
        self._turn_ends = now + min(TURN * 2.0 ** max(lives - SUSPECTED_AT, 0), MAX_TURN)
        self._group = {*half}
        for name in half:
            del self._suspects[name]
            self._start(name, len(half))

    def _start(self, thread_id: str, suspects: int = 0) -> None:
        task = asyncio.create_task(self._drain_one(thread_id, suspects), name=f"drain {thread_id}")
        self._running[thread_id] = task
        # Not in the worker itself: a task that is cancelled before its first step would never free its slot.
        task.add_done_callback(lambda _: self._ended(thread_id))

    async def _drain_one(self, thread_id: str, suspects: int) -> None:
        assert self._drain is not None
        try:
            verdict = await self._drain(thread_id, alone=suspects > 0, suspects=max(suspects, 1))
            if self._delays.pop(thread_id, None) is not None:
                self._outage.over()
            self._not_before.pop(thread_id, None)
            if isinstance(verdict, RetryInIsolation):
                self._suspects[thread_id] = _Suspect(self._clock.monotonic() + verdict.after, verdict.lives)
            if verdict == "elsewhere":
                self._leave_to_others(thread_id)
            if verdict == "again":
                self._again.add(thread_id)
        except StoreError as error:
            self._outage.failed(error)  # logged once for all threads, not once per thread
            self._back_off(thread_id)
        except Exception:  # entry point of a worker: one thread's failure must not end the others
            delay = self._failed(thread_id)
            log.exception("Processing of the thread %s failed. It is retried in %.0f s.", thread_id, delay)

    def _ended(self, thread_id: str) -> None:
        """Free the slot of a worker that has ended, and queue its thread if it was woken in the meantime."""
        del self._running[thread_id]
        self._group.discard(thread_id)
        self._generations.pop(thread_id, None)
        if thread_id in self._again and not self._stopping:
            self._enqueue(thread_id)
        self._again.discard(thread_id)
        if thread_id not in self._queued:
            self._owners.pop(thread_id, None)
        self._stirred.set()

    def _leave_to_others(self, thread_id: str) -> None:
        """Leave the thread to other processes. Does nothing if this process is the only one."""

    def _failed(self, thread_id: str) -> float:
        """Record a failure of the worker. Returns the seconds for which the thread is delayed."""
        return self._back_off(thread_id)

    def _back_off(self, thread_id: str) -> float:
        """Delay the thread after a failure and return the delay in seconds."""
        delay = longer_delay(self._delays.get(thread_id))
        self._delays[thread_id] = delay
        self._not_before[thread_id] = self._clock.monotonic() + delay
        return delay

    def _fails(self, error: StoreError) -> None:
        self._away = True
        self._outage.failed(error)

    def _answers(self) -> None:
        if self._away:
            self._away = False
            self._outage.over()


def _nobody(_: str) -> None:
    """Do nothing. Placeholder for `nudge` before the scheduler has started."""
