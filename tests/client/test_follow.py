"""Followers: no event is skipped or repeated, even if the connection breaks."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

import toolwright as tw
from tests.api.rig import asking, serving
from tests.client.rig import (
    TICKS,
    Cutter,
    Pauses,
    Stub,
    answer,
    client_of,
    numbers,
    served,
    stream,
    tick,
    ticking,
    until,
)
from tests.databases import sqlite_journal
from tests.kit import call
from tests.runtime.rig import running
from toolwright.client import Client, Event, Run
from toolwright.client.follow import signals
from toolwright.client.http import CallerHeaders, Http
from toolwright.core.errors import InvalidRequest, NotFound, Reset, StoreError, Unauthorized, Unreachable
from toolwright.core.journal.retention import Prune
from toolwright.core.journal.store import Store
from toolwright.core.threads.event import Topic
from toolwright.testing import MemoryBus, MemoryStore, ScriptedModel

pytestmark = pytest.mark.anyio


def ending(run_id: str) -> Callable[[Event], bool]:
    return lambda event: event.type == "run.completed" and event.run_id == run_id


async def connected(bus: MemoryBus, thread_id: str, run_id: str = "") -> None:
    """Wait until there is a follower."""
    async with asyncio.timeout(10):
        while not bus.wanted(thread_id, run_id):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


class Memory:
    """A store in memory whose bus is visible to the test."""

    async def __call__(self, bus: MemoryBus) -> Store:
        self.bus = bus
        return MemoryStore(bus.publish)


async def test_live_and_recorded_events_come_as_they_happen() -> None:
    memory, model = Memory(), ScriptedModel([{"text": "A long answer. " * 20}])
    async with serving(model, store=memory) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester")
        following = asyncio.create_task(
            until(client.threads.follow(thread.id), lambda event: event.type == "run.completed")
        )
        await connected(memory.bus, thread.id)
        sent = await client.threads.send(thread.id, "Hi")
        events = await following
        recorded = [event for event in events if event.n is not None]
        assert recorded == await client.runs.events(sent.run_id)
        live = [event for event in events if event.n is None]
        assert {event.type for event in live} == {"message.delta"}
        assert await until(client.runs.follow(sent.run_id, after=0), ending(sent.run_id)) == recorded
        place = recorded[2].n or 0
        later = await until(client.runs.follow(sent.run_id, after=place), ending(sent.run_id))
        assert later == recorded[3:]


@pytest.mark.parametrize("after", [None, 0])
async def test_a_server_on_sqlite_restarts_while_a_client_follows(tmp_path: Path, after: int | None) -> None:
    up, down = asyncio.Event(), asyncio.Event()

    async def pause(_: float) -> None:
        down.set()
        await up.wait()
        await asyncio.sleep(0)

    async def sqlite(bus: MemoryBus) -> Store:
        buses.append(bus)
        return await sqlite_journal(tmp_path / "t.db", bus.publish)

    buses: list[MemoryBus] = []
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        rig = await first.enter_async_context(running(ticking(), [tick], store=sqlite))
        port = await first.enter_async_context(served(rig.rt))
        client = await stack.enter_async_context(client_of(port, pause=pause))
        thread = await client.threads.create("tester")
        found: list[Event] = []
        last = asyncio.get_running_loop().create_future()

        async def read() -> None:
            async for event in client.threads.follow(thread.id, after):
                found.append(event)
                if event.run_id == (last.result() if last.done() else None) and event.type == "run.completed":
                    return

        reader = asyncio.create_task(read())
        await connected(buses[0], thread.id)
        one = await client.threads.send(thread.id, "One")
        await client.runs.wait(one.run_id, 20)
        await first.aclose()
        async with asyncio.timeout(20):
            await down.wait()
        second = await stack.enter_async_context(running(ticking(), [tick], store=sqlite))
        two = await second.rt.threads.send(thread.id, "Two")  # while no notification can be sent
        await second.rt.runs.wait(two.id, 20)
        await stack.enter_async_context(served(second.rt, port))
        up.set()
        three = await client.threads.send(thread.id, "Three")
        last.set_result(three.run_id)
        async with asyncio.timeout(30):
            await reader
        written = [
            each for run in (one.run_id, two.id, three.run_id) for each in await client.runs.events(run)
        ]
    assert numbers(found) == [event.n for event in written] == list(range(1, len(written) + 1))
    assert len(written) >= 200
    assert [event for event in found if event.n is not None] == written
    assert sum(event.type == "tick" for event in found) == 3 * TICKS


@pytest.mark.parametrize("seed", range(6))
async def test_connections_cut_at_any_byte_skip_and_repeat_nothing(seed: int) -> None:
    memory = Memory()
    async with AsyncExitStack() as stack:
        rig = await stack.enter_async_context(running(ticking(), [tick], store=memory))
        port = await stack.enter_async_context(served(rig.rt))
        thread = await rig.rt.threads.create("tester")
        cutter = await stack.enter_async_context(Cutter(port, seed, least=200))
        client = await stack.enter_async_context(client_of(port))
        cut = await stack.enter_async_context(client_of(cutter.port))
        runs = [(await rig.rt.threads.send(thread.id, "One")).id]
        await rig.rt.runs.wait(runs[0], 20)
        last = asyncio.get_running_loop().create_future()
        reader = asyncio.create_task(
            until(
                cut.threads.follow(thread.id, after=0),
                lambda event: last.done() and event.n == last.result(),
            )
        )
        for text in ("Two", "Three"):
            runs.append((await rig.rt.threads.send(thread.id, text)).id)
            await rig.rt.runs.wait(runs[-1], 20)
        written = [event for run_id in runs for event in await client.runs.events(run_id)]
        last.set_result(written[-1].n)
        await connected(memory.bus, thread.id)
        found = await reader if not reader.done() else reader.result()
    assert [event for event in found if event.n is not None] == written
    assert numbers(found) == list(range(1, len(written) + 1))
    assert cutter.cut >= 10


@pytest.mark.parametrize("seed", range(3))
async def test_waiting_survives_cut_connections(seed: int) -> None:
    memory = Memory()
    async with serving(asking(), store=memory) as api, Cutter(api.port, seed, 1_500, 2_500) as cutter:
        run_id, call_id = await api.waiting()
        thread_id = (await api.rig.rt.runs.get(run_id)).thread_id
        async with client_of(cutter.port) as cut:
            waiting = asyncio.create_task(cut.runs.wait(run_id, 20))
            await connected(memory.bus, thread_id, run_id)
            await api.rig.rt.calls.submit(run_id, call_id, 1)
            run = await waiting
    assert (run.status, run.output) == ("completed", "Thanks.")


async def test_waiting_survives_a_server_that_stops_and_comes_back() -> None:
    up, down = asyncio.Event(), asyncio.Event()

    async def pause(_: float) -> None:
        down.set()
        await up.wait()
        await asyncio.sleep(0)

    memory = Memory()
    async with AsyncExitStack() as stack:
        rig = await stack.enter_async_context(running(ticking(), [tick], store=memory))
        first = await stack.enter_async_context(AsyncExitStack())
        port = await first.enter_async_context(served(rig.rt))
        client = await stack.enter_async_context(client_of(port, pause=pause))
        thread = await client.threads.create("tester")
        release = asyncio.Event()

        async def hold(_: int, unit: object) -> None:
            if type(unit).__name__ == "Claim":
                await release.wait()

        rig.store.before = hold
        sent = await client.threads.send(thread.id, "Go")
        waiting = asyncio.create_task(client.runs.wait(sent.run_id, 30))
        await connected(memory.bus, thread.id, sent.run_id)
        await first.aclose()
        await down.wait()
        release.set()
        await rig.rt.runs.wait(sent.run_id, 20)  # its end is not notified
        await stack.enter_async_context(served(rig.rt, port))
        up.set()
        run: Run = await waiting
    assert run.status == "completed"


async def test_waiting_has_an_end() -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        run_id, _ = await api.waiting()
        with pytest.raises(TimeoutError, match=rf"The run '{run_id}' did not finish within 0\.05 seconds\."):
            await client.runs.wait(run_id, 0.05)
        with pytest.raises(InvalidRequest, match="timeout must be a number of seconds, not '5'"):
            await client.runs.wait(run_id, "5")  # type: ignore[arg-type]  # a user's mistake
        with pytest.raises(NotFound):
            await client.runs.wait("run_x")


async def test_waiting_reads_a_run_twice_and_no_more() -> None:
    asked: list[str] = []
    read = asyncio.Event()

    async def note(response: httpx2.Response) -> None:
        asked.append(response.request.url.path.rpartition("/")[2])
        if asked[-1] != "stream":
            read.set()

    hooks = {"response": [note]}
    async with serving(asking()) as api, httpx2.AsyncClient(event_hooks=hooks) as http:
        run_id, call_id = await api.waiting()
        async with client_of(api.port, http=http) as client:
            waiting = asyncio.create_task(client.runs.wait(run_id, 10))
            async with asyncio.timeout(10):
                await read.wait()
            await api.rig.rt.calls.submit(run_id, call_id, 1)
            assert (await waiting).over
    assert asked == ["stream", run_id, run_id]


async def test_a_silence_that_is_too_long_is_a_lost_connection() -> None:
    memory = Memory()
    async with serving(ScriptedModel([{"text": "Hi."}]), store=memory) as api:
        async with Cutter(api.port, 0, 10**9, 10**9) as proxy:
            pauses = Pauses()
            async with client_of(proxy.port, silence=0.2, pause=pauses) as client:
                thread = await client.threads.create("tester")
                reader = asyncio.create_task(
                    until(
                        client.threads.follow(thread.id, after=0), lambda event: event.type == "run.completed"
                    )
                )
                await connected(memory.bus, thread.id)
                before = proxy.links
                proxy.freeze()
                run_id = await api.run(thread.id)
                events = await reader
                assert proxy.links > before
                assert pauses.asked
        written = (await api.get(f"/api/runs/{run_id}/events"))["events"]
        assert numbers(events) == [each["seq"] for each in written]


async def test_keep_alives_are_signs_of_life() -> None:
    async with serving(asking(), keep_alive=0.02) as api:
        pauses = Pauses()
        async with client_of(api.port, silence=0.5, pause=pauses) as client:
            run_id, _ = await api.waiting()
            with pytest.raises(TimeoutError):
                await client.runs.wait(run_id, 1.0)
            assert pauses.asked == []


async def test_a_place_that_is_gone_is_a_reset_that_says_where_to_go_on() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}])) as api, client_of(api.port) as client:
        thread_id, _ = await api.finished()
        later = (await api.rig.rt.threads.get(thread_id)).created_at + timedelta(days=1)
        await api.rig.store.commit(Prune(token="p", at=later, before=later, limit=3))
        newest = (await client.runs.list())[0]
        head = (await client.runs.events(newest.id))[-1].n
        for place in (1, 99):
            with pytest.raises(Reset) as caught:
                await anext(client.threads.follow(thread_id, after=place))
            assert caught.value.after == head
        again = await api.run(thread_id)
        found = await until(client.threads.follow(thread_id, after=head), ending(again))
        assert numbers(found)[0] == (head or 0) + 1


async def test_a_reset_after_a_lost_connection_ends_the_stream_too() -> None:
    event = b'id: 5\ndata: {"id":"5","type":"tick","ts":"2026-01-01T00:00:00Z","data":{}}\n\n'
    gone = (
        b'data: {"type":"connected","ts":"2026-01-01T00:00:00Z","data":{"after":"9"}}\n\n'
        b'data: {"type":"reset","ts":"2026-01-01T00:00:00Z","data":{}}\n\n'
    )
    async with Stub(stream(event), stream(gone)) as stub, client_of(stub.port) as client:
        events = client.threads.follow("t", after=4)
        assert (await anext(events)).n == 5
        with pytest.raises(Reset) as caught:
            await anext(events)
        assert caught.value.after == 9
        assert b"?after=4 " in stub.asked[0]
        assert b"last-event-id: 5\r\n" in stub.asked[1].lower()
        assert b"?after" not in stub.asked[1]


async def test_a_stream_that_begins_now_resumes_from_there_though_it_saw_no_event() -> None:
    head = b'data: {"type":"connected","ts":"2026-01-01T00:00:00Z","data":{"after":"17"}}\n\n'
    event = b'data: {"id":"18","type":"tick","ts":"2026-01-01T00:00:00Z","data":{}}\n\n'
    async with Stub(stream(head), stream(head + event)) as stub, client_of(stub.port) as client:
        events = client.threads.follow("t")
        assert (await anext(events)).n == 18
        await events.aclose()
        assert b"last-event-id: 17\r\n" in stub.asked[1].lower()


async def test_what_happens_between_the_first_connection_and_the_second_is_not_missed() -> None:
    up = asyncio.Event()

    async def pause(_: float) -> None:
        await up.wait()
        await asyncio.sleep(0)

    async with AsyncExitStack() as stack:
        rig = await stack.enter_async_context(running(ScriptedModel([{"text": "Hi."}])))
        first = await stack.enter_async_context(AsyncExitStack())
        port = await first.enter_async_context(served(rig.rt))
        http = await stack.enter_async_context(httpx2.AsyncClient())
        before = await rig.send("One")
        await rig.rt.runs.wait(before.id, 10)
        server = Http(
            f"http://127.0.0.1:{port}",
            CallerHeaders(None, None, None),
            http,
            timeout=5,
            silence=5,
            pause=pause,
        )
        events = signals(server, f"/api/threads/{before.thread_id}/stream")
        assert (await anext(events)).type == "connected"
        await first.aclose()
        meanwhile = await rig.rt.threads.send(before.thread_id, "Two")
        await rig.rt.runs.wait(meanwhile.id, 10)
        await stack.enter_async_context(served(rig.rt, port))
        up.set()
        found = await until(events, ending(meanwhile.id))
        written = await rig.rt.events.list(Topic(kind="run", id=meanwhile.id))
    assert numbers(found) == [event.n for event in written]


async def test_events_that_come_again_are_dropped() -> None:
    def event(n: int) -> bytes:
        return b'id: %d\ndata: {"id":"%d","type":"x","ts":"2026-01-01T00:00:00Z","data":{}}\n\n' % (n, n)

    live = b'data: {"type":"message.delta","ts":"2026-01-01T00:00:00Z","data":{}}\n\n'
    first, second = event(1) + live + event(2), event(1) + event(2) + live + event(2) + event(3)
    async with Stub(stream(first), stream(second)) as stub, client_of(stub.port) as client:
        found = await until(client.threads.follow("t", after=0), lambda event: event.n == 3)
        assert [each.n for each in found] == [1, None, 2, None, 3]


async def test_what_ends_a_stream_permanently_is_raised() -> None:
    head = b'data: {"type":"connected","ts":"2026-01-01T00:00:00Z","data":{"after":"17"}}\n\n'
    for status, code, kind in ((401, "unauthorized", Unauthorized), (404, "not_found", NotFound)):
        refusal = answer(status, f'{{"error": "No.", "code": "{code}"}}')
        async with Stub(stream(head), refusal) as stub, client_of(stub.port) as client:
            with pytest.raises(kind, match="No"):
                await anext(client.threads.follow("t"))
            assert len(stub.asked) == 2


async def test_a_first_connection_is_tried_four_times_and_later_ones_for_ever() -> None:
    busy = answer(503, '{"error": "Not now.", "code": "store_unavailable"}', retry_after="20")
    head = b'data: {"type":"connected","ts":"2026-01-01T00:00:00Z","data":{"after":"17"}}\n\n'
    event = b'data: {"id":"18","type":"tick","ts":"2026-01-01T00:00:00Z","data":{}}\n\n'
    pauses = Pauses()
    async with Stub(busy) as stub, client_of(stub.port, pause=pauses) as client:
        with pytest.raises(StoreError):
            await anext(client.threads.follow("t"))
    assert (len(stub.asked), pauses.asked) == (4, [20.0] * 3)
    pauses = Pauses()
    losses = [None] * 9
    async with (
        Stub(stream(head), *losses, stream(event)) as stub,
        client_of(stub.port, pause=pauses) as client,
    ):
        assert (await anext(client.threads.follow("t"))).n == 18
    assert pauses.asked == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0, 30.0]


async def test_a_stream_that_made_progress_is_taken_up_at_once() -> None:
    def event(n: int) -> bytes:
        return b'data: {"id":"%d","type":"x","ts":"2026-01-01T00:00:00Z","data":{}}\n\n' % n

    pauses = Pauses()
    answers = [stream(event(1)), stream(event(2)), stream(event(2)), stream(event(3))]
    async with Stub(*answers) as stub, client_of(stub.port, pause=pauses) as client:
        await until(client.threads.follow("t", after=0), lambda event: event.n == 3)
    assert pauses.asked == [0.0, 0.0, 1.0]  # the third try delivered nothing new


async def test_closing_the_iterator_closes_the_connection() -> None:
    memory = Memory()
    async with serving(ScriptedModel([{"text": "Hi."}]), store=memory) as api, client_of(api.port) as client:
        thread_id, run_id = await api.finished()
        events = client.threads.follow(thread_id, after=0)
        assert (await anext(events)).n == 1
        [task] = [each for each in api.server.server_state.tasks if memory.bus.wanted(thread_id, run_id)]
        await events.aclose()
        await asyncio.wait([task], timeout=60)
        assert not memory.bus.wanted(thread_id, run_id)


async def test_a_cancelled_follower_closes_its_connection() -> None:
    memory = Memory()
    async with serving(ScriptedModel([{"text": "Hi."}]), store=memory) as api, client_of(api.port) as client:
        thread_id = await api.thread()
        reader = asyncio.create_task(until(client.threads.follow(thread_id), lambda _: True))
        await connected(memory.bus, thread_id)
        [task] = api.server.server_state.tasks
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await asyncio.wait([task], timeout=60)
        assert not memory.bus.wanted(thread_id, "")
        assert (await client.threads.get(thread_id)).id == thread_id


async def test_many_followers_leave_room_for_requests() -> None:
    memory = Memory()
    async with serving(ScriptedModel([{"text": "Hi."}]), store=memory) as api, client_of(api.port) as client:
        thread_id, run_id = await api.finished()
        streams = [client.threads.follow(thread_id, after=0) for _ in range(120)]
        assert [(await anext(each)).n for each in streams] == [1] * 120
        assert (await client.runs.get(run_id)).over
        for each in streams:
            await each.aclose()


async def test_progress_of_a_tool_comes_live() -> None:
    @tw.tool(description="Work.")
    async def work(state: tw.ThreadState) -> str:
        state.progress(1, 2, "half")
        return "done"

    memory = Memory()
    model = ScriptedModel([call("work"), {"text": "Done."}])
    async with serving(model, [work], store=memory) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester")
        reader = asyncio.create_task(
            until(client.threads.follow(thread.id), lambda event: event.type == "tool.progress")
        )
        await connected(memory.bus, thread.id)
        await client.threads.send(thread.id, "Go")
        assert (await reader)[-1].n is None


async def test_a_server_that_was_never_there_is_unreachable() -> None:
    async with Stub(None) as stub:
        port = stub.port
    async with Client(f"http://127.0.0.1:{port}", pause=Pauses()) as client:
        with pytest.raises(Unreachable, match="cannot be reached"):
            await anext(client.threads.follow("t"))
        with pytest.raises(Unreachable):
            await client.runs.wait("run_x", 10)
