"""Streams: 500 readers, 20 events a second, on the gateway of another process; missing events and latency.

Latency is the time from the timestamp of the event (its commit) until the reader receives it. The floor is the same
number of readers of bare sockets, to which another process writes a frame of the same size 20 times a second.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import httpx2
import psutil

import toolwright as tw
from bench.row import Row
from bench.shop import SYSTEM, TOOLS
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.wiring.gateway import serve
from toolwright.wiring.settings import Settings

READERS, SECONDS, TARGET = 500, 10.0, 1000.0  # ms
IN_SPACE = -1
SPEAKERS = 5
FRAME = 420  # bytes, the average frame of such a run
URL = re.compile(r"http://127\.0\.0\.1:(\d+)")


class Ticking:
    """A model that calls `tick` forever."""

    name = "bench:ticking"

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ModelResponse(calls=(ModelCall(id=f"c{request.step}", name="tick", arguments="{}"),))


@tw.tool(description="Wait a moment.")
async def tick(state: tw.ThreadState) -> str:
    """Wait 0.2 s: a step has four or five events, so this makes 20 events a second or more."""
    await asyncio.sleep(0.2)
    return "tick"


async def _serve(folder: str) -> None:
    prompt = tw.Prompt("ticker", SYSTEM, model=Ticking(), tools=[tick, *TOOLS])
    agent = tw.Agent("ticker", tw.Side(prompt, max_steps=10**6))
    settings = Settings(database_url=f"sqlite:///{Path(folder) / 'journal.db'}")
    await serve(tw.App(agents=[agent]), settings, port=0, ready=lambda url: print(url, flush=True), grace=0.1)


async def _serve_floor() -> None:
    """Write a frame with the current time to every socket, 20 times a second."""
    writers: list[asyncio.StreamWriter] = []

    async def joined(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(joined, "127.0.0.1", 0, backlog=2048)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    while True:
        await asyncio.sleep(0.05)
        frame = f"{time.time()!r}\n".encode().rjust(FRAME, b" ")
        for writer in writers:
            writer.write(frame)


class Reader:
    """Counts the events of one reader, and their latency."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.last: int | None = None
        self.gaps = 0

    async def stream(self, port: int, path: str) -> None:
        """Read a stream of the gateway."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            while True:
                line = await reader.readline()
                if line.startswith(b"data: "):
                    self._take(json.loads(line[6:]))
        finally:
            writer.close()

    def _take(self, event: dict[str, str]) -> None:
        if "id" not in event:
            return
        number = int(event["id"])
        self.gaps += self.last is not None and number != self.last + 1
        self.last = number
        self.late.append(time.time() - datetime.fromisoformat(event["ts"]).timestamp())

    async def bare(self, port: int) -> None:
        """Read a bare socket."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        try:
            while line := await reader.readline():
                self.late.append(time.time() - float(line))
        finally:
            writer.close()


async def _measure(port: int, threads: int, process: psutil.Process) -> tuple[list[Reader], float]:
    """Measure readers of that number of threads, each with a run in progress (0: the floor), or of one space (-1).

    Also measures the server's share of a core.
    """
    readers = [Reader() for _ in range(READERS)]
    talking: asyncio.Task[None] | None = None
    if threads == IN_SPACE:
        work = [each.stream(port, "/api/spaces/tea/stream") for each in readers]
        talking = asyncio.create_task(_talk(port))
        await asyncio.sleep(0.5)  # until the space has been created
    elif threads:
        ids = await _runs(port, threads)
        work = [
            each.stream(port, f"/api/threads/{ids[n % threads]}/stream") for n, each in enumerate(readers)
        ]
    else:
        work = [each.bare(port) for each in readers]
    tasks = [asyncio.create_task(each) for each in work]
    await asyncio.sleep(2.0)  # until all readers are connected
    for each in readers:
        each.late.clear()
    process.cpu_percent()
    await asyncio.sleep(SECONDS)
    cpu = process.cpu_percent()
    for task in [*tasks, *([talking] if talking else [])]:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    return readers, cpu


async def _talk(port: int) -> None:
    """Post 20 messages a second in one space."""
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        ann = (await client.post("/api/entities", json={"type": "human", "externalId": "ann"})).json()
        who = ann["entity"]["id"]
        (await client.post("/api/spaces", json={"id": "tea"})).raise_for_status()
        (await client.post("/api/spaces/tea/members", json={"entityId": who})).raise_for_status()
        said = {"entityId": who, "content": "Hello " * 10}

        async def speak() -> None:
            due = time.monotonic()
            while True:
                (await client.post("/api/spaces/tea/messages", json=said)).raise_for_status()
                due += SPEAKERS * 0.05
                await asyncio.sleep(max(0.0, due - time.monotonic()))

        # the writers share a process with the readers
        await asyncio.gather(*(speak() for _ in range(SPEAKERS)))


async def _runs(port: int, threads: int) -> list[str]:
    ids: list[str] = []
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        for _ in range(threads):
            made = await client.post("/api/threads", json={"agentId": "ticker"})
            ids.append(made.json()["threadId"])
            (await client.post(f"/api/threads/{ids[-1]}/messages", json={"content": "Go"})).raise_for_status()
    return ids


def _with(role: str, threads: int) -> tuple[float, float, float, int, float]:
    """Return p50 and p99 in ms, events per second of each reader, gaps, and the server's CPU in percent."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.fanout", role, folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as server:
            try:
                assert server.stdout is not None
                found = URL.search(server.stdout.readline().decode())
                assert found is not None, "the server says where it listens"
                process = psutil.Process(server.pid)
                readers, cpu = asyncio.run(_measure(int(found[1]), threads, process))
            finally:
                server.terminate()
    late = sorted(each for reader in readers for each in reader.late)
    least = min(len(reader.late) for reader in readers)
    gaps = sum(reader.gaps for reader in readers)
    return late[len(late) // 2] * 1e3, late[int(len(late) * 0.99)] * 1e3, least / SECONDS, gaps, cpu


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    floor = _with("floor", 0)[1]
    rows: list[Row] = []
    for threads in (1, 50):
        p50, p99, rate, gaps, cpu = _with("serve", threads)
        note = f"p50 {p50:.1f} ms, {rate:.0f} events/s a reader, {gaps} gaps, server at {cpu:.0f} % of a core"
        name = f"{READERS} readers of {threads} thread{'s' if threads > 1 else ''}, p99"
        rows.append(Row(name, p99, "ms", floor, TARGET, note=note))
    p50, p99, rate, gaps, cpu = _with("serve", IN_SPACE)
    note = f"p50 {p50:.1f} ms, {rate:.0f} messages/s, {gaps} gaps, server at {cpu:.0f} % of a core"
    return [*rows, Row(f"{READERS} readers of one space, p99", p99, "ms", floor, TARGET, note=note)]


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[2]) if sys.argv[1] == "serve" else _serve_floor())
