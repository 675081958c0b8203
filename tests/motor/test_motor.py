"""Every motor: woken threads are drained, soon, one at a time, at least once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from tests.motor.rig import Rig, by_restate, embedded, leased, manual
from tests.postgres_server import fresh_database

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["embedded", "manual", "leased", pytest.param("restate", marks=pytest.mark.peers)])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    if request.param == "leased":
        async with fresh_database() as url, leased(url) as running:
            yield running
        return
    made: dict[str, Callable[[], AbstractAsyncContextManager[Rig]]]
    made = {"embedded": embedded, "manual": manual, "restate": by_restate}
    async with made[request.param]() as running:
        yield running


async def test_a_woken_thread_is_drained_and_its_wake_is_gone(rig: Rig) -> None:
    await rig.thread("a")
    await rig.send("a")
    await rig.until(lambda: rig.drained == ["a"])
    assert await rig.store.wake("a") is None


async def test_a_wake_without_a_nudge_is_found_all_the_same(rig: Rig) -> None:
    await rig.thread("a")
    await rig.post("a")
    await rig.until(lambda: rig.drained == ["a"])


async def test_a_wake_during_a_drain_brings_another_drain(rig: Rig) -> None:
    await rig.thread("a")

    async def wake_once(thread_id: str) -> None:
        if not rig.drained:
            await rig.send(thread_id)

    rig.during = wake_once
    await rig.send("a")
    await rig.until(lambda: rig.drained == ["a", "a"])
    assert rig.nudged[:1] == ["a"]
    await rig.idle()


async def test_a_wake_between_the_last_read_and_the_exit_is_not_lost(rig: Rig) -> None:
    await rig.thread("a")

    async def wake_once_without_a_nudge(thread_id: str) -> None:
        if not rig.drained:
            await rig.post(thread_id)

    rig.before_leaving = wake_once_without_a_nudge
    await rig.send("a")
    await rig.until(lambda: len(rig.drained) == 2)
    await rig.idle()


async def test_a_drain_that_sets_a_later_time_is_called_then(rig: Rig) -> None:
    await rig.thread("a")
    later = rig.clock.now() + timedelta(seconds=0.2)
    rig.due_later["a"] = later
    await rig.send("a")
    await rig.until(lambda: len(rig.drained) == 2)
    assert rig.clock.now() >= later


@pytest.mark.slow
async def test_thousands_of_due_timers_are_all_served_once(rig: Rig) -> None:
    names = [f"t{i}" for i in range(rig.most)]
    for name in names:
        await rig.thread(name)
        await rig.post(name)
    await rig.until(lambda: len(rig.drained) >= len(names))
    assert Counter(rig.drained) == Counter(names)


async def test_no_thread_is_drained_twice_at_the_same_time(rig: Rig) -> None:
    await rig.thread("a")
    inside = 0
    worst = 0

    async def count(_: str) -> None:
        nonlocal inside, worst
        inside += 1
        worst = max(worst, inside)
        await asyncio.sleep(0)
        inside -= 1

    rig.during = count
    for _ in range(50):
        await rig.send("a")
    await rig.idle()
    assert worst == 1


async def test_one_hot_thread_does_not_keep_a_hundred_others_waiting(rig: Rig) -> None:
    await rig.thread("hot")
    others = [f"cool{i}" for i in range(100)]
    for name in others:
        await rig.thread(name)

    async def stay_hot(thread_id: str) -> None:
        if thread_id == "hot" and len(set(rig.drained)) <= 100:
            await rig.send("hot")

    rig.before_leaving = stay_hot
    await rig.send("hot")
    for name in others:
        await rig.send(name)
    await rig.until(lambda: set(others) <= set(rig.drained))
    await rig.idle()
