"""Features of the embedded motor alone: tasks, sweeps, a lock, errors, a clean stop."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import pytest

from tests.motor.rig import Rig, embedded
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.system import SystemClock
from toolwright.core.errors import StoreError
from toolwright.core.journal.store import Outage
from toolwright.core.ports import RetryInIsolation, Verdict
from toolwright.core.threads.thread import Wake
from toolwright.testing import MemoryStore

pytestmark = pytest.mark.anyio


class SharedLock:
    """A lock that one of several can own, and that can be lost."""

    holder: "SharedLock | None" = None

    def __init__(self, board: dict[str, "SharedLock"]) -> None:
        self._board = board

    @property
    def held(self) -> bool:
        return self._board.get("owner") is self

    async def acquire(self) -> bool:
        self._board.setdefault("owner", self)
        return self.held

    async def release(self) -> None:
        if self.held:
            del self._board["owner"]


async def test_a_drain_longer_than_many_sweeps_is_not_begun_again() -> None:
    async with embedded(sweep=0.005) as rig:
        release = asyncio.Event()
        began = 0

        async def long(_: str) -> None:
            nonlocal began
            began += 1
            await release.wait()

        rig.during = long
        await rig.thread("slow")
        await rig.thread("quick")
        await rig.send("slow")
        await rig.until(lambda: "slow" in rig.nudged)  # a sweep has seen the wake-up of the running thread
        rig.during = _nothing
        await rig.post("quick")
        await rig.until(lambda: "quick" in rig.drained)
        release.set()
        await rig.until(lambda: "slow" in rig.drained)
        assert began == 1


async def test_only_so_many_drains_run_at_once() -> None:
    async with embedded(concurrency=3) as rig:
        inside = 0
        worst = 0

        async def count(_: str) -> None:
            nonlocal inside, worst
            inside += 1
            worst = max(worst, inside)
            for _turn in range(5):
                await asyncio.sleep(0)
            inside -= 1

        rig.during = count
        for i in range(20):
            await rig.thread(f"t{i}")
            await rig.send(f"t{i}")
        await rig.until(lambda: len(rig.drained) == 20)
        assert worst == 3


async def test_one_owners_slow_drains_leave_slots_for_others() -> None:
    async with embedded(concurrency=20) as rig:
        at_work: list[str] = []
        release = {owner: asyncio.Event() for owner in ("ann", "bob", "cat")}

        async def slow(thread_id: str) -> None:
            at_work.append(thread_id)
            rig.changed.set()
            await release[thread_id[:3]].wait()

        async def flood(owner: str, count: int) -> None:
            for i in range(count):
                await rig.send(await rig.thread(f"{owner}{i}", user_id=owner))

        def of(owner: str) -> int:
            return sum(each.startswith(owner) for each in at_work)

        rig.during = slow
        await flood("ann", 60)
        await rig.until(lambda: of("ann") == 16)
        await flood("bob", 60)
        await rig.until(lambda: of("bob") == 4)
        assert of("ann") == 16  # a fifth was reserved, and the other threads still wait
        release["ann"].set()  # each free slot goes to the owner with fewer
        await rig.until(lambda: of("ann") == 60)
        assert of("bob") <= 16
        await flood("cat", 1)
        await rig.until(lambda: of("cat") == 1)
        for each in release.values():
            each.set()
        await rig.until(lambda: len(rig.drained) == 121)


async def test_a_backlog_without_notifications_hides_no_other_owner() -> None:
    """After a restart, and from other processes, wake-ups are only in the journal: the oldest are of one owner."""
    async with embedded(concurrency=10) as rig:
        at_work: list[str] = []
        release = asyncio.Event()

        async def slow(thread_id: str) -> None:
            at_work.append(thread_id)
            rig.changed.set()
            await release.wait()

        rig.during = slow
        for i in range(100):
            await rig.post(await rig.thread(f"ann{i}", user_id="ann"))
        await rig.post(await rig.thread("bob", user_id="bob"))
        await rig.until(lambda: "bob" in at_work)
        assert len(at_work) <= 10
        release.set()
        await rig.until(lambda: len(rig.drained) == 101)


async def test_owners_take_turns_when_slots_are_scarce() -> None:
    async with embedded(concurrency=1) as rig:
        began: list[str] = []
        gate = asyncio.Event()

        async def hold(thread_id: str) -> None:
            began.append(thread_id)
            rig.changed.set()
            await gate.wait()

        rig.during = hold
        await rig.send(await rig.thread("first", user_id="ann"))
        await rig.until(lambda: began == ["first"])
        for name, owner in (("a1", "ann"), ("a2", "ann"), ("a3", "ann"), ("b1", "bob"), ("agent", None)):
            await rig.send(await rig.thread(name, user_id=owner))
        gate.set()
        await rig.until(lambda: len(rig.drained) == 6)
        assert began == ["first", "a1", "b1", "agent", "a2", "a3"]


async def test_a_drain_that_fails_is_tried_again_and_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with embedded() as rig:
        failed = asyncio.Event()

        async def fail(thread_id: str) -> None:
            if thread_id == "bad" and not failed.is_set():
                failed.set()
                raise RuntimeError("boom")

        rig.during = fail
        await rig.thread("bad")
        await rig.thread("good")
        await rig.send("bad")
        await rig.send("good")
        await rig.until(lambda: {"bad", "good"} <= set(rig.drained))
        assert rig.drained.index("good") < rig.drained.index("bad")
        assert "boom" in caplog.text


async def test_a_second_motor_waits_for_the_lock_and_then_takes_over() -> None:
    board: dict[str, SharedLock] = {}
    store = MemoryStore(lambda _: None)
    clock = SystemClock()
    first = EmbeddedMotor(store, clock, SharedLock(board), sweep=0.01)
    second = EmbeddedMotor(store, clock, SharedLock(board), sweep=0.01)
    one, two = Rig(store, first, clock), Rig(store, second, clock)
    await first.start(one.drain, one.nudge)
    await second.start(two.drain, two.nudge)
    assert first.driving
    assert not second.driving
    await two.thread("a")
    await two.send("a")  # written by the process that does not drive
    await one.until(lambda: one.drained == ["a"])
    assert two.drained == []
    await first.stop(1.0)
    await two.post("a")
    await two.until(lambda: two.drained == ["a"])
    await second.stop(1.0)


async def test_a_lost_lock_stops_the_running_drains() -> None:
    board: dict[str, SharedLock] = {}
    store = MemoryStore(lambda _: None)
    clock = SystemClock()
    motor = EmbeddedMotor(store, clock, SharedLock(board), sweep=0.01)
    rig = Rig(store, motor, clock)
    stopped = asyncio.Event()
    began = asyncio.Event()

    async def work(_: str) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    rig.during = work
    await motor.start(rig.drain, rig.nudge)
    await rig.thread("a")
    await rig.send("a")
    async with asyncio.timeout(10):
        await began.wait()
        board["owner"] = SharedLock(board)  # another process owns it now
        await stopped.wait()
    assert not motor.driving
    await motor.stop(0.0)


async def test_a_drain_that_is_cancelled_before_it_begins_does_not_keep_its_thread() -> None:
    board: dict[str, SharedLock] = {}

    class Losing(MemoryStore):
        """Loses the lock once, between the check for due threads and the first step of the drain."""

        losses = 1

        async def due(self, now: datetime, limit: int) -> Sequence[Wake]:
            wakes = await super().due(now, limit)
            if wakes and self.losses:
                self.losses = 0
                board.clear()
            return wakes

    store, clock = Losing(lambda _: None), SystemClock()
    motor = EmbeddedMotor(store, clock, SharedLock(board), sweep=0.0)
    rig = Rig(store, motor, clock)
    await motor.start(rig.drain, rig.nudge)
    await rig.thread("a")
    await rig.post("a")
    await rig.until(lambda: rig.drained == ["a"])
    assert store.losses == 0
    await motor.stop(1.0)


async def test_a_clean_stop_lets_a_running_drain_end() -> None:
    began, release = asyncio.Event(), asyncio.Event()
    async with embedded() as rig:

        async def work(_: str) -> None:
            began.set()
            await release.wait()

        rig.during = work
        await rig.thread("a")
        await rig.send("a")
        async with asyncio.timeout(10):
            await began.wait()
            stopping = asyncio.create_task(rig.motor.stop(10.0))
            await asyncio.sleep(0)
            release.set()
            await stopping
        assert rig.drained == ["a"]


class Suspecting:
    """A drain of threads some of which are suspects, with as many lives as given. Each waits until it is released."""

    def __init__(self, rig: Rig, lives: dict[str, int]) -> None:
        self._rig = rig
        self.lives = lives
        self.sizes: set[tuple[str, int]] = set()
        self.released = asyncio.Event()
        self.wakes: str | None = None  # the thread that is woken before a verdict is returned
        self._drains, self.most = Counter[str](), 0  # drains of a suspect at the same time

    async def __call__(
        self, thread_id: str, *, alone: bool = False, suspects: int = 1, node: str | None = None
    ) -> Verdict:
        if thread_id not in self.lives:
            return await self._rig.drain(thread_id)
        self._drains[thread_id] += 1
        self.most = max(self.most, self._drains[thread_id])
        try:
            return await self._suspect(thread_id, alone, suspects)
        finally:
            self._drains[thread_id] -= 1

    async def _suspect(self, thread_id: str, alone: bool, suspects: int) -> Verdict:
        if not alone:
            if self.wakes is not None:
                self._rig.motor.wake(self.wakes)
            return RetryInIsolation(0.0, self.lives[thread_id])
        self.sizes.add((thread_id, suspects))
        await self.released.wait()
        return await self._rig.drain(thread_id)


@asynccontextmanager
async def suspecting(lives: dict[str, int]) -> AsyncGenerator[tuple[Rig, "Suspecting", "_Jumping"]]:
    """Run a motor on threads with these lives, all of which are woken before it starts."""
    clock, store = _Jumping(), MemoryStore(lambda _: None)
    rig = Rig(store, motor := EmbeddedMotor(store, clock, _Always(), sweep=0.01), clock)
    drain = Suspecting(rig, lives)
    for name in lives:
        await rig.thread(name)
        await rig.post(name)
    await motor.start(drain, rig.nudge)
    try:
        yield rig, drain, clock
    finally:
        drain.released.set()
        await motor.stop(1.0)


async def test_half_of_the_suspects_are_executed_together_while_all_others_go_on() -> None:
    names = [f"suspect-{number}" for number in range(7)]
    async with suspecting(dict.fromkeys(names, 3)) as (rig, drain, _):
        await rig.until(lambda: len(drain.sizes) > 0)
        first = {*drain.sizes}
        await rig.thread("new")
        await rig.send("new")
        await rig.until(lambda: rig.drained == ["new"])
        assert drain.sizes == first, "the others wait for their turn"
        drain.released.set()
        await rig.until(lambda: {*rig.drained} == {"new", *names})
    assert max(size for _, size in drain.sizes) <= 4


async def test_the_suspects_that_were_executed_when_the_process_ended_are_the_first_to_be_halved() -> None:
    lives = {"a": 3, "b": 3, "c": 4, "d": 4}
    async with suspecting(lives) as (rig, drain, _):
        await rig.until(lambda: len(drain.sizes) > 0)
        assert {name for name, _ in drain.sizes} <= {"c", "d"}
        drain.released.set()
        await rig.until(lambda: {*rig.drained} == {*lives})


async def test_suspects_that_take_long_hold_off_the_next_ones_for_a_turn_only() -> None:
    async with suspecting({"slow": 4, "waiting": 3}) as (rig, drain, clock):
        await rig.until(lambda: ("slow", 1) in drain.sizes)
        clock.ahead += 11.0
        await some_turns()
        assert drain.sizes == {("slow", 1)}, "a turn is doubled with each life"
        clock.ahead += 11.0
        await rig.until(lambda: ("waiting", 1) in drain.sizes)


async def test_a_thread_that_has_become_a_suspect_is_executed_once_at_a_time() -> None:
    """The scheduler's turn comes between the verdict and the end of the task that returned it."""
    async with suspecting({"suspect": 3}) as (rig, drain, _):
        drain.wakes = "new"
        await rig.thread("new")
        await rig.until(lambda: len(drain.sizes) > 0)
        for _ in range(3):  # each turn of the scheduler searches for due threads
            await rig.post("new")
            await rig.until_more_than(len(rig.drained))
        assert drain.most == 1


class _Always:
    held = True

    async def acquire(self) -> bool:
        return True

    async def release(self) -> None:
        """Do nothing."""


async def _nothing(_: str) -> None:
    """Do no work."""


class _Jumping(SystemClock):
    """A clock that a test advances."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


@pytest.mark.idle_clock
async def test_the_motor_goes_on_after_an_error_of_its_journal(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(MemoryStore):
        faults = 1

        async def next_due(self, after: datetime) -> datetime | None:
            if self.faults:
                self.faults -= 1
                raise RuntimeError("a bug of the store")
            return await super().next_due(after)

    async with embedded(Faulty(lambda _: None)) as rig:
        await rig.thread("a")
        await rig.post("a")  # without a notification: only the main task finds it
        await rig.until(lambda: rig.drained == ["a"])
    assert "a bug of the store" in caplog.text


@pytest.mark.idle_clock
async def test_a_stop_cancels_again_what_swallows_it_and_gives_up_in_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with embedded() as rig:
        swallowed = {"polite": 0, "deaf": 0}
        release = asyncio.Event()

        began: set[str] = set()

        async def swallow(thread_id: str) -> None:
            began.add(thread_id)
            rig.changed.set()
            while not release.is_set() and (thread_id == "deaf" or swallowed[thread_id] < 2):
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    swallowed[thread_id] += 1
            if not release.is_set():
                await asyncio.Event().wait()

        rig.during = swallow
        for name in swallowed:
            await rig.thread(name)
            await rig.send(name)
        await rig.until(lambda: began == set(swallowed))
        async with asyncio.timeout(8):
            await rig.motor.stop(0.0)
        assert swallowed == {"polite": 2, "deaf": 5}
        assert "'drain deaf' ignores its cancellation" in caplog.text
        assert "'drain polite'" not in caplog.text
        release.set()
        await rig.until(lambda: rig.drained == ["deaf"])


@pytest.mark.idle_clock
@pytest.mark.parametrize("lasts", [False, True])
async def test_a_drain_that_waits_for_the_journal_is_no_error_and_each_is_logged_once(
    caplog: pytest.LogCaptureFixture, lasts: bool
) -> None:
    caplog.set_level("INFO", "toolwright.motor")
    outage, release = Outage(SystemClock()), asyncio.Event()
    async with embedded(outage=outage) as rig:

        async def commit(_: str) -> None:
            rig.changed.set()
            while not release.is_set():
                with suppress(asyncio.CancelledError):
                    await release.wait()

        rig.during = commit
        await rig.thread("t")
        await rig.send("t")
        await rig.changed.wait()
        if lasts:
            outage.failed(StoreError("away"))
        await asyncio.gather(rig.motor.stop(0.0), rig.motor.stop(0.0))
        release.set()
        await rig.until(lambda: rig.drained == ["t"])
    told = [
        (each.levelname, each.getMessage()) for each in caplog.records if "'drain t'" in each.getMessage()
    ]
    if lasts:
        assert told == [("INFO", "The task 'drain t' ends once the journal is available.")]
    else:
        assert told == [("ERROR", "The task 'drain t' ignores its cancellation and is abandoned.")]


@pytest.mark.idle_clock
async def test_a_lost_lock_is_taken_back_though_a_drain_does_not_end() -> None:
    board: dict[str, SharedLock] = {}
    store, clock = MemoryStore(lambda _: None), SystemClock()
    motor = EmbeddedMotor(store, clock, SharedLock(board), sweep=0.01)
    rig = Rig(store, motor, clock)
    began, release = asyncio.Event(), asyncio.Event()

    async def deaf(thread_id: str) -> None:
        began.set()
        while thread_id == "deaf" and not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    rig.during = deaf
    await motor.start(rig.drain, rig.nudge)
    await rig.thread("deaf")
    await rig.thread("other")
    await rig.send("deaf")
    async with asyncio.timeout(15):
        await began.wait()
        board.clear()
        await rig.post("other")
        await rig.until(lambda: "other" in rig.drained)
    release.set()
    await motor.stop(1.0)


async def some_turns() -> None:
    """Let all ready tasks run: a drain that can start has started afterwards."""
    for _ in range(100):
        await asyncio.sleep(0)
