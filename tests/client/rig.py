"""A gateway on a real port, a proxy that cuts connections, and servers with arbitrary answers."""

import asyncio
import random
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import toolwright as tw
from tests.api.rig import at_work
from tests.kit import call
from toolwright.adapters.system import SystemClock
from toolwright.client import Client, Event
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel
from toolwright.web.gateway import create_gateway, end_parts
from toolwright.web.options import GatewayOptions

TICKS = 60


@tw.tool(description="Tick.")
async def tick(state: tw.ThreadState) -> str:
    for n in range(TICKS):
        state.emit("tick", {"n": n, "text": "ümlaut \U0001f642"})
    return "ticked"


def ticking() -> ScriptedModel:
    """A model whose every run makes some 70 events."""
    return ScriptedModel([call("tick"), {"text": "Done."}])


@asynccontextmanager
# options of the gateway
async def served(runtime: Runtime, port: int = 0, **options: Any) -> AsyncGenerator[int]:
    """Serve the runtime on that port, or on any. Yields the port."""
    options.setdefault("clock", SystemClock())
    chosen = GatewayOptions(**options)
    with socket.create_server(("127.0.0.1", port)) as listener:
        application = create_gateway(runtime, chosen)
        try:
            async with at_work(application, chosen, listener):
                yield int(listener.getsockname()[1])
        finally:
            await end_parts(application.state.serving)


def client_of(port: int, **options: Any) -> Client:  # options of the client
    """A client whose pauses take no time by default."""
    options.setdefault("pause", no_pause)
    options.setdefault("timeout", 10.0)
    return Client(f"http://127.0.0.1:{port}", **options)


async def no_pause(_: float) -> None:
    await asyncio.sleep(0)


class Pauses:
    """Records how long the client would have waited; `then` runs in the meantime."""

    def __init__(self, then: Callable[[], Awaitable[None]] | None = None) -> None:
        self.asked: list[float] = []
        self._then = then

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await (asyncio.sleep(0) if self._then is None else self._then())


async def until(events: AsyncGenerator[Event], last: Callable[[Event], bool]) -> list[Event]:
    """Return the followed events, up to the first for which `last` is true, and close the follower."""
    found: list[Event] = []
    try:
        async with asyncio.timeout(30):
            async for event in events:
                found.append(event)
                if last(event):
                    return found
    finally:
        await events.aclose()
    raise AssertionError("the events have an end")


def numbers(events: Sequence[Event]) -> list[int]:
    """Return the numbers of the recorded events."""
    return [event.n for event in events if event.n is not None]


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Cutter:
    """A proxy that cuts each connection after a number of bytes of answers, chosen by a seed.

    After `freeze` it passes nothing through existing connections; new ones work.
    """

    def __init__(self, port: int, seed: int, least: int = 1, most: int = 4_000) -> None:
        self._upstream = port
        self._random = random.Random(seed)
        self._range = (least, most)
        self._links: set[asyncio.Task[None]] = set()
        self._frozen: set[asyncio.Task[None]] = set()
        self.links = 0
        self.cut = 0

    async def __aenter__(self) -> "Cutter":
        self._server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        if self._links:
            await asyncio.wait(self._links)

    def freeze(self) -> None:
        self._frozen |= self._links

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        self.links += 1
        left = self._random.randint(*self._range)
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._upstream)
        asking = asyncio.create_task(_pump(reader, upstream))
        try:
            with suppress(OSError, asyncio.CancelledError):
                while left and (chunk := await upstream_reader.read(min(left, 65_536))):
                    if task not in self._frozen:
                        writer.write(chunk)
                        await writer.drain()
                    left -= len(chunk)
                self.cut += not left
        finally:
            asking.cancel()
            writer.transport.abort() if not left else writer.close()
            upstream.close()
            self._links.discard(task)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


class Stub:
    """A server that sends its answers one after another, byte for byte, and ends each connection.

    An answer None ends the connection without an answer; the last answer is repeated without end.
    """

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = list(answers)
        self.asked: list[bytes] = []
        self.gone = asyncio.Event()

    async def __aenter__(self) -> "Stub":
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            said = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            writer.write(said or b"")
            await writer.drain()
        writer.close()
        self.gone.set()


def answer(status: int, body: bytes | str, kind: str = "application/json", **headers: str) -> bytes:
    """Return an HTTP answer as sent over the wire."""
    content = body.encode() if isinstance(body, str) else body
    more = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items())
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n{more}\r\n"
    return head.encode() + content


def stream(body: bytes, kind: str = "text/event-stream") -> bytes:
    """Return a streamed answer that ends with its connection."""
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode() + body
