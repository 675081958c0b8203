"""Requests over HTTP, one after another on one kept-alive connection, as most programs make them.

The floor is a bare ASGI application in the same server on the same kind of socket, called in the same way.
"""

import asyncio
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

import toolwright as tw
from bench.many_threads import address
from bench.row import Row
from toolwright.adapters.system import SystemClock
from toolwright.testing import ScriptedModel
from toolwright.web.options import GatewayOptions
from toolwright.wiring.gateway import Server, listen

TIMES, WARM = 300, 30
TARGET = 10.0  # ms; an answer whose last part waits for an acknowledgement takes 40 or more
HEADERS = {"content-type": "application/json"}
MESSAGE = json.dumps({"content": "What is it like?"})

app = tw.App(agents=[tw.Agent("bench", tw.Prompt("bench", model=ScriptedModel([{"text": "Sunny."}])))])
_ANSWER = json.dumps({"message": {"id": "m" * 30, "content": "What is it like?"}, "runId": "r" * 30}).encode()


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    with _started("-c", "from bench.http import serve_bare; serve_bare()") as connection:
        floor_get = _took(connection, "GET", "/health")
        floor_post = _took(connection, "POST", "/", MESSAGE)
    with _started("-m", "toolwright.cli", "serve", "bench.http:app", "--port", "0") as connection:
        thread_id = _thread(connection)
        get = _took(connection, "GET", f"/api/threads/{thread_id}")
        post = _took(connection, "POST", f"/api/threads/{thread_id}/messages", MESSAGE)
    return [
        _row("a thread read", get, floor_get),
        _row("a message sent", post, floor_post),
    ]


def _row(what: str, took: float, floor: float) -> Row:
    name = f"kept-alive connection, SQLite: {what}, p50"
    return Row(name, took, "ms", floor, TARGET, note=f"{1_000 / took:,.0f} a second")


@contextmanager
def _started(*command: str) -> Generator[http.client.HTTPConnection]:
    """Yield a connection to a server in a separate process, with an empty journal and default settings."""
    root = str(Path(__file__).resolve().parent.parent)
    kept = {name: each for name, each in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env={**kept, "PYTHONPATH": os.pathsep.join([root, *sys.path])},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with server:
            where = urlsplit(address(server))
            connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=30)
            yield connection
            connection.close()
            server.send_signal(signal.SIGINT)


def _thread(connection: http.client.HTTPConnection) -> str:
    connection.request("POST", "/api/threads", json.dumps({"agentId": "bench"}), HEADERS)
    return str(json.loads(connection.getresponse().read())["threadId"])


def _took(connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None) -> float:
    """Return the median ms of a request."""
    taken: list[float] = []
    for _ in range(WARM + TIMES):
        start = time.perf_counter()
        connection.request(method, path, body, HEADERS)
        answer = connection.getresponse()
        answer.read()
        taken.append(time.perf_counter() - start)
        assert answer.status < 300, answer.status
    return statistics.median(taken[WARM:]) * 1_000


def serve_bare() -> None:
    """Serve an application that only reads the request and answers."""
    asyncio.run(_serve_bare())


async def _serve_bare() -> None:
    listener: socket.socket = listen("127.0.0.1", 0)
    options = GatewayOptions(clock=SystemClock())
    with listener:
        await Server(_bare, options, listener, lambda url: print(url, flush=True)).serve(sockets=[listener])


async def _bare(_: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body", False):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _ANSWER})
