"""Scheduler of a cluster node: processes the threads that this node has leased from the shared journal."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol

from toolwright.adapters.motor.embedded import MAX_QUEUED, EmbeddedMotor
from toolwright.core.concurrency import start_task
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError, StoreError
from toolwright.core.journal.store import Outage, Store
from toolwright.core.ports import Clock, Drain, JournalLock, Verdict
from toolwright.core.threads.thread import Wake

log = logger("toolwright.motor")

CHECK_INTERVAL = 0.1  # seconds between two checks that the leases are still held
OTHERS = 60.0  # seconds for which a thread is left to other nodes because this one does not know its agent
MAX_OTHERS = 5_000  # maximum number of such threads excluded from claims
MAX_AT_ONCE = 50  # threads leased by one statement
NO_HEARTBEAT = "This node of the cluster cannot send a heartbeat at the moment."
REFUSED = 5.0  # seconds before a rejected process tries to join again
DUE = 5  # one free slot in this many is reserved for due wake-ups in the journal


class Leases(JournalLock, Protocol):
    """Thread leases: each thread is processed only by the node that has leased it.

    `held` is true if no other node can have leased this node's threads. Raises `StoreError`.
    """

    @property
    def node(self) -> str:
        """The id of this node, which changes each time it joins."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Return whether a process outside the cluster prevents this node from joining."""
        ...

    def turned(self, busy: int) -> None:
        """Record that the event loop runs, and the number of running threads."""
        ...

    async def claim(
        self, named: Sequence[str], most: int, others: Sequence[str] = ()
    ) -> tuple[list[Wake], list[str]]:
        """Lease the `named` threads that are free or leased by this node, and up to `most` more, longest due first.

        The additional threads exclude the `others`, which are left to other nodes. Also returns the `named` threads
        that could not be leased now because their rows are locked.
        """
        ...

    async def leased(self) -> list[Wake]:
        """Return the wake-ups of all threads that this node has leased."""
        ...

    async def free(self, thread_ids: Collection[str], delay: float = 0.0) -> bool:
        """Release these threads if this node still has them. Threads whose rows are locked remain leased.

        The released threads are due in `delay` seconds at the earliest. Returns whether one of them is due again.
        """
        ...

    async def on_duty(self, name: str, seconds: float) -> bool:
        """Return whether this node holds the named duty. One node at a time holds it, for `seconds`."""
        ...


class LeaseMotor(EmbeddedMotor):
    """The `Motor` port for a cluster node: the embedded scheduler, which leases each thread before it is processed.

    A thread that failed, or whose run is a suspect, remains leased until it is retried. Equal shares of owners
    apply only within a node.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        leases: Leases,
        *,
        concurrency: int = 1_000,
        sweep: float = 0.25,
        outage: Outage | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(store, clock, leases, concurrency=concurrency, sweep=sweep, outage=outage, tell=tell)
        self._leases = leases
        self._reserved = 0
        self._watch: asyncio.Task[None] | None = None
        self._requested: dict[str, None] = {}
        self._offered = 0  # free slots since the last one reserved for due wake-ups
        self._has_more = True  # the journal can have more due wake-ups than the last claim had room for
        self._released: set[str] = set()
        self._from_elsewhere: set[str] = set()  # requested threads that another process asked for
        self._others: dict[
            str, float
        ] = {}  # threads that only other nodes can process, with the expiry of the entry
        self._excess: set[str] = set()  # threads that do not fit into `_others`: released with a delay
        self._joined_as = ""  # node id of this process's last join
        self._refused = ""  # why this process was not allowed to join again
        self._join_at = 0.0  # time of the next attempt after a rejection

    @property
    def is_only_driver(self) -> bool:
        return False

    @property
    def unready(self) -> str | None:
        """Return why this process executes no runs now, or None if it does."""
        if self.driving:
            return None
        if self._stopping:
            return "This node of the cluster is stopping."
        if self._refused:
            return self._refused
        if self._leases.is_waiting:
            return (
                "This node waits: a process without TOOLWRIGHT_CLUSTER executes the runs of this database. Stop that "
                "process, or set the variable there too."
            )
        return NO_HEARTBEAT

    async def on_duty(self, name: str, seconds: float) -> bool:
        try:
            return self.driving and await self._leases.on_duty(name, seconds)
        except StoreError as error:
            self._fails(error)
            return False

    async def start(self, drain: Drain, nudge: Callable[[str], None]) -> None:
        async def leased(
            name: str, /, *, alone: bool = False, suspects: int = 1, node: str | None = None
        ) -> Verdict:
            return await drain(name, alone=alone, suspects=suspects, node=node or self._leases.node)

        await super().start(leased, nudge)
        self._watch = start_task(self._watch_leases(), "toolwright-leases")

    async def _end_drains(self, grace: float) -> None:
        giving_back = asyncio.create_task(self._give_back(), name="toolwright-give-back")
        await super()._end_drains(grace)
        await self._end([each for each in (giving_back, self._watch) if each is not None])

    async def _give_back(self) -> None:
        """While stopping, release threads without a worker immediately, and the others when their worker ends."""
        while True:
            try:
                await self._compare()
                await self._free_released()
            except StoreError as error:
                self._fails(error)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._sweep):
                    await self._stirred.wait()
            self._stirred.clear()

    async def _try_lock(self) -> None:
        if self._refused and self._clock.monotonic() < self._join_at:
            return  # the cause is a setting, so the node does not retry at every turn
        try:
            await super()._try_lock()
        except DefinitionError as error:
            if not self._joined_as:
                raise  # before the first join this is a startup error; later the process keeps serving
            if error.message != self._refused:
                log.warning("This process cannot join the cluster again: %s", error.message)
            self._refused, self._join_at = error.message, self._clock.monotonic() + REFUSED
            return
        self._refused = ""
        node = self._leases.node
        if not self._leases.held or node == self._joined_as:
            return
        if self._joined_as:
            log.warning(
                "The node %s has lost its leases. This process continues as the node %s.",
                self._joined_as,
                node,
            )
        self._joined_as = node

    async def _watch_leases(self) -> None:
        """Record that the event loop runs, and stop all workers as soon as the leases are lost.

        It is a separate task, because a slow database can delay the scheduler's turn for a long time.
        """
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            self._leases.turned(len(self._running))
            if self._running and not self._leases.held:
                await self._yield_drains()

    def woken_elsewhere(self, thread_id: str, asked: bool) -> None:
        """Wake a thread that was woken in another process, if it is leased here or if this node is `asked` to."""
        if self.driving and (asked or self._has(thread_id)):
            self.wake(thread_id)
            if thread_id in self._requested:
                self._from_elsewhere.add(thread_id)

    def _enqueue(self, thread_id: str) -> None:
        """Request a lease of the thread, to process it afterwards."""
        if thread_id in self._queued or thread_id in self._suspects or self._rests(thread_id):
            return
        self._others.pop(thread_id, None)  # woken again, possibly by a cancellation
        if len(self._requested) < MAX_QUEUED:  # others remain in the journal
            self._requested[thread_id] = None
            self._stirred.set()

    def _leave_to_others(self, thread_id: str, seconds: float = OTHERS) -> None:
        if thread_id in self._others or len(self._others) < MAX_OTHERS:
            self._others[thread_id] = self._clock.monotonic() + seconds
        else:
            self._excess.add(thread_id)

    def _failed(self, thread_id: str) -> float:
        """Pause the thread. After a second failure here, leave it to other nodes for the same time."""
        is_known = thread_id in self._delays
        delay = super()._failed(thread_id)
        if is_known:
            del self._not_before[thread_id]
            self._leave_to_others(thread_id, delay)
        return delay

    def _skipped_threads(self) -> list[str]:
        """Return the threads to leave to other nodes. Each entry expires after a while."""
        now = self._clock.monotonic()
        self._others = {thread_id: until for thread_id, until in self._others.items() if until > now}
        return [*self._others]

    def _has(self, thread_id: str) -> bool:
        """Return whether the thread is processed here, now or later. While stopping, only threads in progress count."""
        if self._stopping:
            return thread_id in self._running
        places = (self._running, self._queued, self._requested, self._suspects, self._not_before)
        return any(thread_id in each for each in places)

    def _rests(self, thread_id: str) -> bool:
        return self._not_before.get(thread_id, 0.0) > self._clock.monotonic()

    def _ended(self, thread_id: str) -> None:
        super()._ended(thread_id)
        if not self._has(thread_id):
            self._released.add(thread_id)

    async def _claim_due(self) -> float:
        for thread_id in [*self._not_before]:
            if thread_id not in self._running:
                self._enqueue(thread_id)
        now = self._clock.now()
        try:
            # first, so that other nodes get these threads without waiting for the claim
            await self._free_released()
            await self._claim()
            await self._compare()
            coming = await self._store.next_due(now)
        except StoreError as error:
            self._fails(error)
            return self._sweep
        self._answers()
        return self._pause_until(coming, now)

    async def _compare(self) -> None:
        """Compare the leased threads with the threads being processed, because the answer of a claim can be lost."""
        for wake in await self._leases.leased():
            if wake.thread_id in self._running:
                self._note(wake)
            elif not self._has(wake.thread_id):
                self._released.add(wake.thread_id)

    async def _start_drains(self) -> None:
        if self._requested or self._released:
            try:
                await self._free_released()
                if self._requested or self._has_more:  # otherwise the next sweep finds due wake-ups
                    await self._claim()
            except StoreError as error:
                self._fails(error)
        await super()._start_drains()

    async def _claim(self) -> None:
        """Lease requested threads and due ones."""
        locked = dict[str, None]()  # requested again in the next turn
        while True:
            room = min(self._concurrency - len(self._running) - len(self._queued), MAX_AT_ONCE)
            if room <= 0:
                self._has_more = True
                self._refuse()
                break
            self._offered += room
            offered, self._offered = divmod(self._offered, DUE)
            names = [*islice(self._requested, max(room - offered, 0))]
            wakes, skipped = await self._leases.claim(names, room - len(names), self._skipped_threads())
            locked |= dict.fromkeys(skipped)
            self._drop(names, {wake.thread_id for wake in wakes}.union(skipped))
            for wake in wakes:
                self._claim_thread(wake)
            self._has_more = len(wakes) >= room
            if not self._has_more and not self._requested:
                break
        self._requested |= locked

    def _refuse(self) -> None:
        """Leave requested threads to other nodes. They remain in the journal; a queue here would be unbounded."""
        for thread_id in self._requested:
            if thread_id not in self._not_before and thread_id not in self._from_elsewhere:
                self._tell(thread_id)
        self._requested.clear()
        self._from_elsewhere.clear()

    async def _free_released(self) -> None:
        released, self._released = {each for each in self._released if not self._has(each)}, set()
        if released:
            excess = released & self._excess
            try:
                if excess:
                    await self._leases.free(excess, OTHERS)
                if released - excess:
                    self._has_more |= await self._leases.free(released - excess)
            except StoreError:
                self._released |= released  # for the next attempt
                raise
            self._excess -= excess

    def _drop(self, names: Collection[str], leased: Collection[str]) -> None:
        """Remove requested threads, and the failure records of threads not `leased` here, which another node has."""
        for thread_id in names:
            self._requested.pop(thread_id, None)
            if thread_id not in leased:
                self._not_before.pop(thread_id, None)
                self._delays.pop(thread_id, None)
                if thread_id not in self._from_elsewhere:
                    self._tell(thread_id)
        self._from_elsewhere.difference_update(names)

    def _claim_thread(self, wake: Wake) -> None:
        self._requested.pop(wake.thread_id, None)
        self._from_elsewhere.discard(wake.thread_id)
        if wake.thread_id in self._running:
            self._again.add(wake.thread_id)
        else:
            self._generations[wake.thread_id] = wake.gen
            super()._enqueue(wake.thread_id)

    async def _yield_drains(self) -> None:
        await super()._yield_drains()
        self._requested.clear()
        self._released.clear()
        self._excess.clear()
        self._from_elsewhere.clear()
