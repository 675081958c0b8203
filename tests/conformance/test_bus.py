"""Every bus: followers receive the events of their topic in order, bounded, also across processes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.motor.rig import NatsServer, bus_of
from tests.play import AT
from tests.postgres_server import fresh_database

from toolwright.adapters.bus.memory import BACKLOG, MAX_BYTES, MemoryBus
from toolwright.core.ports import Bus
from toolwright.core.threads.event import GROWN, Event, Topic

pytestmark = pytest.mark.anyio

THREAD, RUN = Topic(kind="thread", id="th_1"), Topic(kind="run", id="run_1")
SPACE, SPACES = Topic(kind="space", id="tea"), Topic(kind="spaces", id="")


@asynccontextmanager
async def opened(kind: str) -> AsyncGenerator[Bus]:
    if kind == "memory":
        yield MemoryBus()
    elif kind == "postgres":
        async with fresh_database() as url, bus_of(url, "postgres", works=True) as bus:
            yield bus
    else:
        server = NatsServer()
        try:
            async with bus_of("", server.url, works=True) as bus:
                yield bus
        finally:
            server.kill()


@pytest.fixture(params=["memory", "postgres", "nats"])
async def bus(request: pytest.FixtureRequest) -> AsyncGenerator[Bus]:
    async with opened(request.param) as made:
        yield made


def of_thread(n: int | None, type_: str = "message", thread: str = "th_1", **payload: Any) -> Event:
    return Event(thread_id=thread, run_id="run_1", agent="a", type=type_, payload=payload, at=AT, n=n)


def of_space(n: int, space: str = "tea") -> Event:
    return Event(
        thread_id=None, run_id=None, agent=None, type="space.message", payload={}, at=AT, space_id=space, n=n
    )


async def came(follower: Any) -> list[Event]:
    """Return the received events, without the marks for possible commits of other processes."""
    return [event for event in await follower.next(0) if event is not GROWN]


async def test_followers_get_the_events_of_their_topic_in_order(bus: Bus) -> None:
    mine = [of_thread(1), of_thread(2, "run.completed")]
    other = of_thread(1, thread="th_2")
    with bus.subscribe(THREAD) as thread, bus.subscribe(RUN) as run:
        bus.publish(mine[:1])
        bus.publish([other])
        bus.publish(mine[1:])
        assert await came(thread) == mine
        assert await came(run) == [mine[0], other, mine[1]]
        assert await came(thread) == []
    bus.publish([of_thread(3)])
    assert await came(thread) == []  # it follows no more


async def test_followers_of_some_types_get_recorded_events_of_these_alone(bus: Bus) -> None:
    with bus.subscribe(THREAD, ["run.completed"]) as follower:
        bus.publish([of_thread(1), of_thread(None, "run.completed"), of_thread(2, "run.completed")])
        assert await came(follower) == [of_thread(2, "run.completed")]
        assert not bus.wanted("th_1", "run_1")  # live events need not be created
    with bus.subscribe(THREAD):
        assert bus.wanted("th_1", "run_1") and not bus.wanted("th_2", "run_2")


async def test_followers_of_a_space_or_of_all_see_what_another_process_has_committed(bus: Bus) -> None:
    with bus.subscribe(SPACE) as space, bus.subscribe(SPACES) as spaces:
        assert bus.wanted_in("tea") and bus.wanted_in("other")
        bus.publish([of_space(1), of_space(2, "other")])
        assert (await came(space), await came(spaces)) == ([of_space(1)], [of_space(1), of_space(2, "other")])
        for each in (space, spaces):
            each.took_all()
        bus.publish([of_space(4)])  # 3 belongs to another process
        assert (space.took_all(), spaces.took_all()) == (False, False)
    assert not bus.wanted_in("tea")


async def test_of_live_events_only_the_newest_of_a_stream_waits_with_its_deltas_joined(bus: Bus) -> None:
    def delta(stream: str, delta: str, text: str) -> Event:
        return of_thread(None, "message.delta", streamId=stream, delta=delta, text=text)

    with bus.subscribe(THREAD) as follower:
        bus.publish([delta("s", "a", "a"), delta("t", "x", "x"), delta("s", "b", "ab")])
        bus.publish([of_thread(1)])
        bus.publish([delta("s", "c", "abc")])
        assert await came(follower) == [
            delta("t", "x", "x"), delta("s", "ab", "ab"), of_thread(1), delta("s", "c", "abc"),
        ]  # fmt: skip


@pytest.mark.parametrize("much", ["events", "bytes"])
async def test_a_follower_that_does_not_read_blocks_no_other_and_knows_that_it_missed_some(
    bus: Bus, much: str
) -> None:
    with bus.subscribe(THREAD) as slow:
        slow.took_all()
        if much == "events":
            for n in range(BACKLOG + 1):
                bus.publish([of_thread(n)])
        else:
            for n in range(20):
                text = "x" * (MAX_BYTES // 10)
                bus.publish([of_thread(None, "message.delta", streamId=f"s{n}", text=text)])
            await asyncio.wait_for(slow.overrun(), 30)
        assert len(await slow.next(0)) <= BACKLOG
        assert not slow.took_all()
        bus.publish([of_thread(9_999)])
        assert (await came(slow))[-1:] == [of_thread(9_999)]


async def test_what_is_alone_here_is_shared_with_nobody(bus: Bus) -> None:
    bus.share("room", {"ada": True})
    bus.announce(THREAD)
    assert list(bus.shared("room")) == []  # the process's own topics are not among the others'
    bus.share("room", None)
    bus.share("room", None)
