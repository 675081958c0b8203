"""Running peers: on a port of this machine in a separate thread or process, or as a command for stdio."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal, Protocol, cast

from tests.mcp.peers.catalogue import module_of
from tests.mcp.peers.hearing import Hearing

Transport = Literal["http", "json", "sse"]


class Servable(Protocol):
    """The common interface of peers: `Peer` of the SDK, `Bare` without it."""

    hearing: Hearing
    revision: Any  # different for each

    async def over_stdio(self) -> None:
        """Serve stdin and stdout."""
        ...

    async def over_http(self, listener: socket.socket, stop: asyncio.Event, transport: Any) -> None:
        """Serve a socket until `stop`."""
        ...


def made(name: str, revision: str | None = None, **options: Any) -> Servable:  # options of the peer
    """Return a new peer of that name of the catalogue, for one revision only if one is given."""
    peer = cast("Callable[..., Servable]", getattr(import_module(module_of(name)), name))(**options)
    peer.revision = revision or peer.revision
    return peer


class Served:
    """A peer on a port, in a separate thread; `stop` breaks all connections, `start` serves the same port again."""

    def __init__(self, peer: Servable, port: int = 0, transport: Transport = "http") -> None:
        self.peer = peer
        self.port = port
        self._transport: Transport = transport
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    @property
    def url(self) -> str:
        """URL of the peer."""
        return f"http://127.0.0.1:{self.port}/{'sse' if self._transport == 'sse' else 'mcp'}"

    @property
    def hearing(self) -> Hearing:
        """Messages that the peer has received."""
        return self.peer.hearing

    def start(self) -> None:
        """Accept connections. Connections that arrive before it is ready wait."""
        listener = socket.create_server(("127.0.0.1", self.port))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = int(listener.getsockname()[1])
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listener, ready), daemon=True)
        self._thread.start()
        assert ready.wait(20)

    def _run(self, listener: socket.socket, ready: threading.Event) -> None:
        asyncio.run(self._serve(listener, ready))

    async def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        ready.set()
        with listener:
            await self.peer.over_http(listener, self._stop, self._transport)

    def changed(self) -> None:
        """Notify all clients that the tools have changed (peers of the SDK only)."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(cast("Any", self.peer).changed(), self._loop).result(20)

    def stop(self) -> None:
        """Break all connections, and accept none."""
        if self._thread is None or self._loop is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive(), "the peer did not stop"
        self._thread = None


@contextmanager
def served(
    name: str, revision: str | None = None, transport: Transport = "http", **options: Any
) -> Generator[Served]:
    """Yield the peer of that name on a free port: `.url`, `.hearing`, `.stop()`, `.start()`, `.changed()`."""
    with started(Served(made(name, revision, **options), transport=transport)) as peer:
        yield peer


@contextmanager
def started(peer: Served) -> Generator[Served]:
    """Run the peer while it accepts connections."""
    peer.start()
    try:
        yield peer
    finally:
        peer.stop()


@contextmanager
def spawned(name: str, revision: str | None = None) -> Generator[str]:
    """Run that peer in a separate process, so that it takes no time of this interpreter. Yields its URL."""
    program, *arguments = command(name, revision)
    with subprocess.Popen([program, *arguments, "--http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def down() -> Generator[str]:
    """Yield a URL on which nothing listens, now and later."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"


def command(name: str, revision: str | None = None) -> list[str]:
    """Return the command of that peer over stdio, which is independent of the environment and the working directory."""
    start = f"import sys; sys.path[:] = {sys.path!r}; from tests.mcp.peers.__main__ import main; main()"
    return [sys.executable, "-c", start, name, *(["--revision", revision] if revision else [])]
