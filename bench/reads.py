"""Large reads: eight concurrent readers of 9 MB messages, and 25 that never read."""

import asyncio
import socket
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from bench.bodies import health_meanwhile, health_of, resident, serve_app, settle, url_of
from bench.row import Row

MESSAGES = 16
LETTERS = 9_000_000
READERS = 8
STUCK = 25


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        server = serve_app(Path(folder))
        try:
            return asyncio.run(_measure(server.pid, url_of(server)))
        finally:
            server.terminate()
            server.wait(60)


async def _measure(pid: int, url: str) -> list[Row]:
    async with httpx2.AsyncClient(base_url=url, timeout=300) as client:
        path = await _filled(client)
        idle = await health_of(url)
        before = settle(pid)

        sockets = [_ask(url, path) for _ in range(STUCK)]
        stuck = await health_meanwhile(url, lambda: asyncio.sleep(5))
        held = (resident(pid, "VmHWM") - before) / 1e6
        for each in sockets:
            each.close()
        before = settle(pid)

        async def read() -> int:
            return len((await client.get(path)).content)

        async def read_at_once() -> None:
            await asyncio.gather(*[read() for _ in range(READERS)])

        worst = await health_meanwhile(url, read_at_once)
        grown = (resident(pid, "VmHWM") - before) / 1e6
        large = f"a page of {MESSAGES * LETTERS / 1e6:.0f} MB"
        return [
            _row(f"{STUCK} that ask for {large} and never read", stuck, idle, held),
            _row(f"{READERS} readers of {large} at once", worst, idle, grown),
        ]


def _row(name: str, worst: float, idle: float, grown: float) -> Row:
    return Row(f"{name}: /health, worst", worst * 1e3, "ms", idle * 1e3, 200, note=f"+{grown:.0f} MB")


async def _filled(client: httpx2.AsyncClient) -> str:
    """Create a thread with many large messages, and return its path."""
    thread_id = (await client.post("/api/threads", json={"agentId": "bench"})).json()["threadId"]
    path = f"/api/threads/{thread_id}/messages"
    for number in range(MESSAGES):
        text = str(number % 10) * LETTERS
        run_id = (await client.post(path, json={"content": text})).json()["runId"]
        async with client.stream("GET", f"/api/runs/{run_id}/stream?after=0") as events:
            async for line in events.aiter_lines():
                if "run.completed" in line:
                    break
    return path


def _ask(url: str, path: str) -> socket.socket:
    """Open a connection that requests the messages and reads nothing."""
    parts = urlsplit(url)
    made = socket.create_connection((parts.hostname or "", parts.port or 0))
    made.sendall(f"GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n".encode())
    return made
