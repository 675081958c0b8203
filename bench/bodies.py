"""Large bodies: response time of `/health` while one is read, and the memory growth of the process."""

import asyncio
import base64
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx2

from bench.row import Row

PAUSE = 0.005  # seconds between two requests to `/health`
LINE = "http://"
APP = """
import toolwright as tw
from toolwright.testing import ScriptedModel

model = ScriptedModel([{"text": "x"}])
app = tw.App(agents=[tw.Agent("bench", tw.Prompt("bench", "x", model=model))])
"""


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        server = serve_app(Path(folder))
        try:
            return asyncio.run(_measure(server.pid, url_of(server)))
        finally:
            server.terminate()
            server.wait(20)


def serve_app(folder: Path) -> "subprocess.Popen[str]":
    (folder / "app.py").write_text(APP)
    command = [sys.executable, "-m", "toolwright.cli", "serve", "app:app", "--port", "0"]
    environment = {**os.environ, "TOOLWRIGHT_DATABASE_URL": f"sqlite:///{folder / 'bench.db'}"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _bodies(thread_id: str) -> Mapping[str, tuple[str, bytes]]:
    many = b"[" + b"1," * 4_900_000 + b"1]"
    some = b"[" + b"1," * 90_000 + b"1]"
    file = base64.b64encode(os.urandom(24_000_000))
    messages = f"/api/threads/{thread_id}/messages"
    return {
        "10 MB of wrong tags": ("/api/threads", b'{"agentId":"bench","tags":%s}' % many),
        "90,000 values as arguments": ("/api/threads", b'{"agentId":"bench","arguments":{"a":%s}}' % some),
        "9 MB of text": ("/api/threads", b'{"agentId":"bench","arguments":{"a":"%s"}}' % (b"x" * 9_000_000)),
        "9 MB of letters beyond ASCII": (messages, b'{"content":"%s"}' % ("é" * 4_500_000).encode()),
        "9 MB of escapes": (messages, b'{"content":"%s"}' % (b"\\n" * 4_500_000)),
        "36 MB of wrong files": (messages, b'{"content":"x","attachments":%s%s' % (many * 3, b"1,1")),
        "a file of 24 MB": (
            messages,
            b'{"content":"","attachments":[{"name":"a","mimeType":"a/b","data":"%s"}]}' % file,
        ),
    }


async def _measure(pid: int, url: str) -> list[Row]:
    async with httpx2.AsyncClient(base_url=url, timeout=120) as client:
        thread_id = (await client.post("/api/threads", json={"agentId": "bench"})).json()["threadId"]
        idle = await health_of(url)
        rows: list[Row] = []
        for name, (path, body) in _bodies(thread_id).items():
            before = settle(pid)
            worst = await health_meanwhile(url, partial(_send, client, path, body))
            grown = (resident(pid, "VmHWM") - before) / len(body)
            figure = f"{name}: /health, worst"
            rows.append(Row(figure, worst * 1e3, "ms", idle * 1e3, 200, note=f"+{grown:.1f} bodies"))
        return rows


async def _send(client: httpx2.AsyncClient, path: str, body: bytes) -> None:
    with suppress(httpx2.HTTPError):  # the body was rejected during the upload
        await client.post(path, content=body, headers={"content-type": "application/json"})


def url_of(server: "subprocess.Popen[str]") -> str:
    assert server.stdout is not None, "it is a pipe"
    for line in server.stdout:
        if LINE in line:
            # drain stdout so that the pipe never fills
            threading.Thread(target=server.stdout.read, daemon=True).start()
            return LINE + line.partition(LINE)[2].split()[0].rstrip(".,")
    raise RuntimeError("The server has ended.")


async def health_of(url: str) -> float:
    """Return the median time of `/health` on an idle server."""
    return statistics.median(await _looks(url, lambda: asyncio.sleep(0.3)))


async def health_meanwhile(url: str, work: Callable[[], Awaitable[object]]) -> float:
    """Return the slowest time of `/health` while the work is in progress."""
    return max(await _looks(url, work))


async def _looks(url: str, work: Callable[[], Awaitable[object]]) -> list[float]:
    took, over = list[float](), threading.Event()

    def look() -> None:
        with httpx2.Client(base_url=url, timeout=120) as other:
            while not over.is_set():
                start = time.perf_counter()
                other.get("/health")
                took.append(time.perf_counter() - start)
                time.sleep(PAUSE)

    looking = threading.Thread(target=look)
    looking.start()
    await asyncio.sleep(0.3)
    took.clear()
    await work()
    await asyncio.sleep(0.1)
    over.set()
    await asyncio.to_thread(looking.join)
    return took


def settle(pid: int) -> int:
    """Return the current memory of the process, and reset its recorded peak to that value."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return resident(pid, "VmRSS")


def resident(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise RuntimeError("The server has ended.")
