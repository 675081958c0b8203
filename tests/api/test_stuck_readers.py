"""Readers that never read, or read slowly: healthy readers are not affected, and memory stays bounded."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

import toolwright as tw
from tests.api.rig import Api, serving
from toolwright.adapters.bus.memory import ENVELOPE, MAX_BYTES, MemoryBus, QueueFollower
from toolwright.adapters.store.engine.outcome import Publish
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.event import Event, Topic
from toolwright.testing import MemoryStore

pytestmark = pytest.mark.anyio

# of 7 KiB each: some 8 MiB in total, more than sockets buffer and more than can be queued
STEPS, EMITTED = 45, 25
READERS = 20


@tw.tool(description="Say a lot.")
async def shout(state: tw.ThreadState) -> str:
    for n in range(EMITTED):
        state.emit("shout", {"n": n, "text": "x" * 7_000})
    await asyncio.sleep(0)
    return "done"


class Loud:
    """A model that calls the tool repeatedly once `may` is set."""

    name = "loud"

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.read = Counter[int]()
        self.moved = asyncio.Condition()

    async def has_read(self, step: int) -> None:
        """Record that a healthy reader has read that step."""
        self.read[step] += 1
        async with self.moved:
            self.moved.notify_all()

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        await self.may.wait()
        async with self.moved:  # no active reader can fall behind
            await self.moved.wait_for(lambda: request.step == 1 or self.read[request.step - 1] == READERS)
        if request.step > STEPS:
            yield ModelResponse(text="Done.")
        else:
            yield ModelResponse(calls=(ModelCall(id=f"c{request.step}", name="shout", arguments="{}"),))


class Telling(MemoryStore):
    """A journal that notifies when a reader of a stream has connected."""

    def __init__(self, publish: Publish, came: asyncio.Event) -> None:
        super().__init__(publish)
        self._came = came

    async def bounds(self, topic: Topic) -> tuple[int, int]:
        self._came.set()
        return await super().bounds(topic)


async def stuck(api: Api, path: str) -> socket.socket:
    """Open a reader with a small window that sends its request and reads nothing."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    reader.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(reader, ("127.0.0.1", api.port))
    await loop.sock_sendall(reader, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return reader


async def healthy_numbers(api: Api, path: str, ready: asyncio.Semaphore, model: Loud) -> list[int]:
    """Return the numbers of the recorded events up to the run's end, read over one connection."""
    seen: list[int] = []
    async with api.stream(f"{path}?after=0") as stream:
        await stream.event()
        ready.release()
        while True:
            event = await stream.event()
            if "id" in event:
                seen.append(int(event["id"]))
            if event["type"] == "step.done":
                await model.has_read(event["data"]["stepNumber"])
            if event["type"] == "run.completed":
                return seen


async def numbers(api: Api, path: str, ready: asyncio.Semaphore, pause: float) -> list[int]:
    """Return the numbers of the recorded events up to the run's end, resuming where the stream broke off."""
    seen: list[int] = []
    while True:
        try:
            async with api.stream(f"{path}?after={seen[-1] if seen else 0}") as stream:
                assert (await stream.event())["type"] == "connected"
                ready.release()
                while True:
                    event = await stream.event()
                    await asyncio.sleep(pause)
                    if "id" in event:
                        seen.append(int(event["id"]))
                    if event["type"] == "run.completed":
                        return seen
        except (asyncio.IncompleteReadError, ConnectionResetError):
            continue


async def test_a_stuck_reader_is_cut_off_and_no_other_is_affected() -> None:
    came = asyncio.Event()

    async def memory(bus: MemoryBus) -> Store:
        return Telling(bus.publish, came)

    model = Loud()
    async with serving(model, [shout], store=memory) as api:
        thread_id = await api.thread()
        run_id = await api.run(thread_id)
        path = f"/api/threads/{thread_id}/stream"
        ready = asyncio.Semaphore(0)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            healthy = [tasks.create_task(healthy_numbers(api, path, ready, model)) for _ in range(READERS)]
            slow = tasks.create_task(numbers(api, path, ready, 0.001))
            for _ in range(READERS + 1):
                await ready.acquire()
            before = {*api.server.server_state.tasks}
            came.clear()
            never = await stuck(api, path)
            await came.wait()
            [lost] = {*api.server.server_state.tasks} - before
            model.may.set()
            await asyncio.wait([lost])  # the stuck request ends while the others still read
            assert (await api.rig.rt.runs.wait(run_id, 30)).status == "completed"
        last = (await api.rig.rt.threads.get(thread_id)).ev
        for reader in [*healthy, slow]:
            assert reader.result() == list(range(1, last + 1))
        with pytest.raises(ConnectionResetError):
            await drained(never)
        never.close()


async def drained(reader: socket.socket) -> None:
    """Read everything that the kernel still buffers; a connection that was cut off ends with a reset."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        while await loop.sock_recv(reader, 65_536):
            pass


def event(n: int | None, text: str, stream: str = "s") -> Event:
    return Event(
        thread_id="t",
        run_id="r",
        agent="a",
        type="x",
        payload={"streamId": stream, "delta": text, "n": n},
        at=None,  # type: ignore[arg-type]  # not read by the test
        n=n,
    )


async def test_what_waits_for_a_follower_is_bounded_in_bytes() -> None:
    bus = MemoryBus()
    with bus.subscribe(Topic(kind="thread", id="t")) as follower:
        overrun = asyncio.create_task(follower.overrun())
        text = "x" * 8_000
        fits = MAX_BYTES // (len(json.dumps(text)) + ENVELOPE + 100)
        bus.publish([event(n, text) for n in range(fits)])
        await asyncio.sleep(0)
        assert not overrun.done()
        assert len(await follower.next(0)) == fits
        assert follower.took_all()
        bus.publish([event(n, text) for n in range(2 * fits)])
        await asyncio.wait([overrun], timeout=60)
        assert overrun.done()
        assert not follower.took_all()
        assert len(await follower.next(0)) < fits + 2


async def test_live_events_count_too() -> None:
    follower = QueueFollower()
    for n in range(200):
        follower.put(event(None, "x" * 10_000, f"s{n}"), 10_300)
    assert not follower.took_all()
    async with asyncio.timeout(30):
        await follower.overrun()


async def test_deltas_that_were_joined_do_not_cut_a_reader_off() -> None:
    bus = MemoryBus()
    with bus.subscribe(Topic(kind="thread", id="t")) as follower:
        # each draft contains the whole text so far, which alone is more than half of the queue limit
        for n in range(50):
            payload: JSONObject = {"streamId": "s", "delta": str(n % 10), "text": "x" * (MAX_BYTES * 2 // 3)}
            bus.publish([replace(event(None, ""), payload=payload)])
        assert follower.took_all()
        [only] = await follower.next(0)
        assert only.payload["delta"] == "0123456789" * 5


async def test_joined_deltas_count_with_all_that_they_hold() -> None:
    bus = MemoryBus()
    with bus.subscribe(Topic(kind="thread", id="t")) as follower:
        bus.publish([event(None, "x" * 10_000) for _ in range(MAX_BYTES // 10_000 - 1)])
        assert follower.took_all()
        bus.publish([event(None, "x" * 10_000) for _ in range(2)])
        async with asyncio.timeout(30):
            await follower.overrun()


async def test_a_follower_of_some_types_hears_of_nothing_else() -> None:
    bus = MemoryBus()
    with bus.subscribe(Topic(kind="thread", id="t"), {"y"}) as follower:
        bus.publish([event(1, "a"), replace(event(2, "b"), type="y"), replace(event(None, "c"), type="y")])
        assert [each.n for each in await follower.next(0)] == [2]
        assert not bus.wanted("t", "r")  # live events have no reader
