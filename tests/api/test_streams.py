"""Live streams: their bytes, their resumption, their end."""

import asyncio
import json
import socket
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

import toolwright as tw
from tests.api.rig import Api, at_work, read, serving
from tests.databases import sqlite_journal
from tests.kit import call
from toolwright.adapters.system import SystemClock
from toolwright.core.journal.retention import Prune
from toolwright.core.journal.store import Store
from toolwright.testing import ManualClock, MemoryBus, MemoryStore, ScriptedModel
from toolwright.web.gateway import create_gateway
from toolwright.web.options import GatewayOptions

pytestmark = pytest.mark.anyio

LONG = "A long answer that comes in several pieces: ümlaut, \u2028 and an emoji \U0001f642."


def streams(thread_id: str, run_id: str) -> tuple[str, str]:
    return f"/api/threads/{thread_id}/stream", f"/api/runs/{run_id}/stream"


async def test_a_stream_says_that_it_is_connected_and_then_what_happens() -> None:
    async with serving(ScriptedModel([{"text": LONG}])) as api:
        thread_id = await api.thread()
        async with api.stream(f"/api/threads/{thread_id}/stream") as stream:
            assert stream.status == 200
            head = stream.head.lower()
            assert "content-type: text/event-stream; charset=utf-8\r\n" in head
            assert "cache-control: no-cache\r\n" in head
            assert "x-accel-buffering: no\r\n" in head
            connected = await stream.event()
            entity_id = api.rig.rt.agents.declared[0].entity_id
            assert set(connected) == {"type", "ts", "threadId", "agentEntityId", "data"}
            assert (connected["type"], connected["agentEntityId"]) == ("connected", entity_id)
            run_id = await api.run(thread_id)
            events = await stream.until("run.completed")
        recorded = [event for event in events if "id" in event]
        assert recorded == (await api.get(f"/api/runs/{run_id}/events"))["events"]
        assert [event["seq"] for event in recorded] == list(range(1, len(recorded) + 1))
        assert {event["agentEntityId"] for event in events} == {entity_id}
        deltas = [event["data"]["delta"] for event in events if event["type"] == "message.delta"]
        assert "".join(deltas) == LONG


async def test_frames_are_ascii_with_line_feeds_only() -> None:
    async with serving(ScriptedModel([{"text": LONG}])) as api:
        thread_id, run_id = await api.finished()
        for path in streams(thread_id, run_id):
            async with api.stream(f"{path}?after=0") as stream:
                connected = await stream.chunk()
                assert connected.startswith(b'data: {"type":"connected",')
                chunk = b""
                while b'"run.completed"' not in chunk:
                    chunk = await stream.chunk()
                    assert chunk.isascii()
                    assert b"\r" not in chunk
                    *frames, end = chunk.split(b"\n\n")
                    assert end == b""
                    for frame in frames:
                        identity, text = frame.split(b"\n")
                        shown = json.loads(text.removeprefix(b"data: "))
                        assert identity == f"id: {shown['id']}".encode()


async def test_a_stream_resumes_after_every_event_without_a_gap() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}])) as api:
        thread_id, run_id = await api.finished()
        whole = (await api.get(f"/api/runs/{run_id}/events"))["events"]
        for path in streams(thread_id, run_id):
            for place in range(len(whole)):
                last = whole[place - 1]["id"] if place else "0"
                async with api.stream(f"{path}?after={last}") as stream:
                    assert (await stream.until("run.completed"))[1:] == whole[place:]
                async with api.stream(f"{path}?after=0", Last_Event_ID=last) as stream:
                    assert (await stream.until("run.completed"))[1:] == whole[place:]


async def test_a_resumed_stream_goes_on_live() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}])) as api:
        thread_id, run_id = await api.finished()
        last = (await api.get(f"/api/runs/{run_id}/events"))["events"][-1]["id"]
        async with api.stream(f"/api/threads/{thread_id}/stream?after={last}") as stream:
            assert (await stream.event())["type"] == "connected"
            again = await api.run(thread_id)
            events = [event for event in await stream.until("run.completed") if "id" in event]
            assert {event["runId"] for event in events} == {again}
            assert events[0]["id"] == str(int(last) + 1)


async def test_without_a_place_a_stream_begins_now_and_outlives_the_run() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}]), keep_alive=0.01) as api:
        _, run_id = await api.finished()
        async with api.stream(f"/api/runs/{run_id}/stream") as stream:
            connected = await stream.event()
            assert connected["runId"] == run_id
            assert [await stream.chunk() for _ in range(3)] == [b": keep-alive\n\n"] * 3


async def test_a_place_that_never_was_or_is_gone_is_a_reset_and_the_stream_goes_on() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}])) as api:
        thread_id, _ = await api.finished()
        clock_now = (await api.rig.rt.threads.get(thread_id)).created_at + timedelta(days=1)
        for place in ("99", "9" * 30):
            async with api.stream(f"/api/threads/{thread_id}/stream?after={place}") as stream:
                first = [await stream.event(), await stream.event()]
                assert [event["type"] for event in first] == ["connected", "reset"]
                assert "id" not in first[1]
                await api.run(thread_id)
                assert (await stream.event())["type"] == "run.queued"
                await stream.until("run.completed")
        await api.rig.store.commit(Prune(token="p", at=clock_now, before=clock_now, limit=3))
        async with api.stream(f"/api/threads/{thread_id}/stream?after=1") as stream:
            assert [(await stream.event())["type"] for _ in range(2)] == ["connected", "reset"]
        async with api.stream(f"/api/threads/{thread_id}/stream?after=0") as stream:
            assert [(await stream.event()).get("id") for _ in range(2)] == [None, "4"]


async def test_a_malformed_place_is_refused() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}])) as api:
        thread_id, run_id = await api.finished()
        for path in streams(thread_id, run_id):
            for place in ("-1", "x", "1.5", "", "%C2%B2"):
                faulty = read(await api.client.get(f"{path}?after={place}"), 400)
                assert faulty["details"][0]["path"] == "after"
            read(await api.client.get(path, headers={"Last-Event-ID": "abc"}), 400)


async def test_two_readers_see_the_same_bytes() -> None:
    async with serving(ScriptedModel([{"text": LONG}])) as api:
        thread_id = await api.thread()
        path = f"/api/threads/{thread_id}/stream"

        async def recorded(api: Api) -> list[bytes]:
            async with api.stream(path) as stream:
                await stream.event()
                ready.release()
                chunks = [await stream.chunk()]
                while b'"run.completed"' not in chunks[-1]:
                    chunks.append(await stream.chunk())
                return [chunk for chunk in chunks if chunk.startswith(b"id: ")]

        ready = asyncio.Semaphore(0)
        async with asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(recorded(api)) for _ in range(2)]
            for _ in readers:
                await ready.acquire()
            await api.run(thread_id)
        assert readers[0].result() == readers[1].result() != []


async def test_deltas_arrive_while_the_run_is_in_progress() -> None:
    release = asyncio.Event()

    @tw.tool(description="Wait.")
    async def wait(state: tw.ThreadState) -> str:
        state.progress(1, 2, "half")
        await release.wait()
        return "done"

    model = ScriptedModel([{"text": LONG, **call("wait")}, {"text": "Done."}])
    async with serving(model, [wait]) as api:
        thread_id = await api.thread()
        async with api.stream(f"/api/threads/{thread_id}/stream") as stream:
            await stream.event()
            await api.run(thread_id)
            events = await stream.until("tool.progress")
            assert "message.delta" in {event["type"] for event in events}
            assert "id" not in events[-1]
            release.set()
            await stream.until("run.completed")


@pytest.mark.one_journal
async def test_the_journal_on_disk_streams_alike(tmp_path: Path) -> None:
    async def sqlite(bus: MemoryBus) -> Store:
        return await sqlite_journal(tmp_path / "t.db", bus.publish)

    async with serving(store=sqlite) as api:
        run_id, call_id = await api.waiting()
        async with api.stream(f"/api/runs/{run_id}/stream?after=0") as stream:
            await stream.until("run.waiting")
            await api.post(f"/api/runs/{run_id}/tool-results", {"callId": call_id, "result": None})
            events = await stream.until("run.completed")
            assert "tool.done" in {event["type"] for event in events}
        assert (await api.get("/health"))["status"] == "ok"


async def test_a_stream_token_opens_one_stream() -> None:
    clock = ManualClock()
    async with serving(ScriptedModel([{"text": "Hi."}]), secret_keys=("k",), clock=clock) as api:
        api.client.headers["x-secret-key"] = "k"
        thread_id, run_id = await api.finished()
        del api.client.headers["x-secret-key"]
        for path in streams(thread_id, run_id):
            made = read(await api.client.post("/api/stream-tokens", headers={"x-secret-key": "k"}), 200)
            assert set(made) == {"token", "expiresAt"}
            opening = f"{path}?after=0&token={made['token']}"
            async with api.stream(opening) as stream:
                await stream.until("run.completed")
            assert "used or expired" in read(await api.client.get(opening), 401)["error"]
            read(await api.client.get(path), 401)
            read(await api.client.get(f"{path}?token=wrong"), 401)
        made = read(await api.client.post("/api/stream-tokens", headers={"x-secret-key": "k"}), 200)
        read(await api.client.get("/api/threads", params={"token": made["token"]}), 401)
        clock.advance(61)
        read(await api.client.get(f"/api/runs/{run_id}/stream?token={made['token']}"), 401)
        read(await api.client.post("/api/stream-tokens"), 401)


async def test_a_stream_token_opens_one_stream_at_any_process() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}]), secret_keys=("k",)) as api:
        api.client.headers["x-secret-key"] = "k"
        _, run_id = await api.finished()
        token = read(await api.client.post("/api/stream-tokens"), 200)["token"]
        del api.client.headers["x-secret-key"]
        path = f"/api/runs/{run_id}/stream?after=0&token={token}"
        with socket.create_server(("127.0.0.1", 0)) as listener:
            options = GatewayOptions(secret_keys=("k",), clock=SystemClock())
            async with (
                at_work(create_gateway(api.rig.rt, options), options, listener) as (_, url),
                httpx2.AsyncClient(base_url=url) as other,
                other.stream("GET", path) as stream,
            ):
                assert stream.status_code == 200
        assert "used or expired" in read(await api.client.get(path), 401)["error"]
        parts = token.split(".")
        for forged in (
            f"{parts[0]}.{'0' * len(parts[1])}",
            f"{parts[0]}x.{parts[1]}",
            ".",
            "é.é",
            "x" * 9_000,
        ):
            read(await api.client.get("/api/runs/x/stream", params={"token": forged}), 401)


async def test_a_stopping_server_ends_open_streams_at_once() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}])) as api:
        thread_id, _ = await api.finished()
        async with api.stream(f"/api/threads/{thread_id}/stream") as stream:
            await stream.event()
            api.server.end()
            async with asyncio.timeout(30):
                assert await stream.chunk() == b""


async def test_a_reader_that_goes_is_forgotten() -> None:
    buses: list[MemoryBus] = []

    async def memory(bus: MemoryBus) -> Store:
        buses.append(bus)
        return MemoryStore(bus.publish)

    async with serving(ScriptedModel([{"text": "Hi."}]), store=memory) as api:
        thread_id, run_id = await api.finished()
        async with api.stream(f"/api/threads/{thread_id}/stream") as stream:
            await stream.event()
            assert buses[0].wanted(thread_id, run_id)
            [task] = api.server.server_state.tasks
        await asyncio.wait([task], timeout=60)
        assert not buses[0].wanted(thread_id, run_id)
