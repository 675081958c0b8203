"""Floods of connections: the server stays reachable, even if one client opens as many as the system allows."""

import asyncio
import re
import resource
import select
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from toolwright.adapters.system import SystemClock
from toolwright.web.answers import answer
from toolwright.web.options import GatewayOptions
from toolwright.web.shares import CALLER
from toolwright.wiring.connection import HEAD_GRACE, WRITE_GRACE, Connections
from toolwright.wiring.gateway import Server, connections, listen, raise_file_limit

pytestmark = pytest.mark.anyio
MAX_OPEN, SHARE = 20, 10
LARGE = 20_000_000  # bytes; more than sockets buffer
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers immediately, never, with a stream that never ends, or after an upload."""

    async def endless() -> AsyncGenerator[bytes]:
        yield b"begun"
        await asyncio.Event().wait()

    caller = dict(scope["headers"]).get(b"x-caller")
    if caller is not None:
        scope[CALLER] = caller.decode()
    if scope["path"] == "/slow":
        await asyncio.Event().wait()
    elif scope["path"] == "/upload":
        while (await receive()).get("more_body"):
            pass
    elif scope["path"] == "/stream":
        await StreamingResponse(endless())(scope, receive, send)
    elif scope["path"] == "/large":
        await answer({"text": "x" * LARGE})(scope, receive, send)
    else:
        await PlainTextResponse("ok")(scope, receive, send)


@asynccontextmanager
async def served(write_grace: float = WRITE_GRACE, head_grace: float = HEAD_GRACE) -> AsyncGenerator[int]:
    """Yield the port of a server with these bounds."""
    with listen("127.0.0.1", 0) as listener:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        options = GatewayOptions(clock=SystemClock())
        server = Server(
            application,
            options,
            listener,
            ready.set_result,
            Connections(MAX_OPEN, SHARE),
            write_grace,
            head_grace,
        )
        serving = asyncio.create_task(server.serve([listener]))
        await ready
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await serving


async def opened(stack: AsyncExitStack, port: int, source: str = "127.0.0.1") -> Opened:
    """Open a connection from that address of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    stack.callback(writer.close)
    return reader, writer


async def health(port: int) -> int:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        return (await client.get("/health")).status_code


async def requested(
    stack: AsyncExitStack, port: int, path: bytes, source: str = "127.0.0.1", caller: bytes = b""
) -> Opened:
    """Open a connection and send a request."""
    reader, writer = await opened(stack, port, source)
    named = b"host: localhost\r\nx-caller: " + caller if caller else b"host: localhost"
    writer.write(HEALTH.replace(b"/health", path).replace(b"host: localhost", named))
    return reader, writer


async def streaming(
    stack: AsyncExitStack, port: int, source: str = "127.0.0.1", caller: bytes = b""
) -> Opened:
    """Open a connection with a stream in progress."""
    reader, writer = await requested(stack, port, b"/stream", source, caller)
    await reader.readuntil(b"begun")
    return reader, writer


async def test_idle_connections_give_way_to_new_ones_the_oldest_first() -> None:
    async with served() as port, AsyncExitStack() as stack:
        idle = [await opened(stack, port) for _ in range(3 * SHARE)]
        assert await health(port) == 200
        for reader, _ in idle[: 2 * SHARE]:
            with pytest.raises(ConnectionResetError):
                assert await reader.read() == b""
                raise ConnectionResetError  # the server closed it in order: the same for a client
        reader, writer = idle[-1]
        writer.write(HEALTH)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_an_address_with_its_share_takes_none_of_anothers() -> None:
    async with served() as port, AsyncExitStack() as stack:
        reader, writer = await opened(stack, port, "127.0.0.2")
        for _ in range(3 * SHARE):
            await opened(stack, port)
        writer.write(HEALTH)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_many_addresses_together_are_bounded_too() -> None:
    async with served() as port, AsyncExitStack() as stack:
        own, writer = await opened(stack, port, "127.0.1.1")
        for n in range(2, 12):
            for _ in range(SHARE):
                await opened(stack, port, f"127.0.0.{n}")
        writer.write(HEALTH)
        assert (await own.readline()).startswith(b"HTTP/1.1 200")
        assert await health(port) == 200


async def closed(connection: Opened) -> None:
    """Read until the server has closed the connection."""
    with suppress(ConnectionError):
        await asyncio.wait_for(connection[0].read(), 30)


async def test_requests_in_progress_are_never_closed_for_new_connections() -> None:
    async with served() as port, AsyncExitStack() as stack:
        requests = [await requested(stack, port, b"/slow") for _ in range(SHARE)]
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await streaming(stack, port)
        await streaming(stack, port, "127.0.0.2")  # another address has its own share of connections
        assert not any(reader.at_eof() for reader, _ in requests)
        requests[0][1].close()
        await requests[0][1].wait_closed()


async def test_the_caller_with_the_most_streams_makes_room_whatever_addresses_they_come_from() -> None:
    async with served() as port, AsyncExitStack() as stack:
        bob = [await streaming(stack, port, "127.0.0.9", b"person:bob") for _ in range(2)]
        ada = [
            await streaming(stack, port, f"127.0.0.{2 + n % 5}", b"person:ada") for n in range(MAX_OPEN - 2)
        ]
        eve = await streaming(stack, port, "127.0.0.8", b"person:eve")
        await streaming(stack, port, "127.0.0.8", b"person:eve")
        await closed(ada[0])
        await closed(ada[1])
        assert not any(reader.at_eof() for reader, _ in [*bob, *ada[2:], eve])


async def test_callers_behind_one_address_share_it() -> None:
    async with served() as port, AsyncExitStack() as stack:
        ada = [await streaming(stack, port, caller=b"person:ada") for _ in range(SHARE)]
        bob = await streaming(stack, port, caller=b"person:bob")
        await closed(ada[0])
        assert not any(reader.at_eof() for reader, _ in [bob, *ada[1:]])


async def test_the_caller_with_the_most_incomplete_bodies_makes_room() -> None:
    head = (
        b"POST /upload HTTP/1.1\r\nhost: localhost\r\nx-caller: person:ada\r\ncontent-length: 9\r\n\r\nhalf"
    )
    async with served() as port, AsyncExitStack() as stack:
        uploads = [await opened(stack, port, f"127.0.0.{2 + n % 5}") for n in range(MAX_OPEN)]
        for _, writer in uploads:
            writer.write(head)
        bob = await streaming(stack, port, "127.0.0.9", b"person:bob")
        await closed(uploads[0])
        assert not any(reader.at_eof() for reader, _ in [bob, *uploads[1:]])


class Entry:
    """What `Connections` reads of a connection with a stream."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.address = address
        self.holder: str | None = None
        self.is_idle = False
        self.transport = self

    def abort(self) -> None:
        """Do nothing: the server would close the connection."""


def test_a_closed_connection_is_not_held_although_its_application_still_sends() -> None:
    bounds: Any = Connections(2, 2)
    closed, ann, bob = Entry(), Entry(), Entry()
    assert bounds.add(closed)
    bounds.hold(closed, "person:ann")
    bounds.remove(closed)
    bounds.hold(closed, "person:ann")  # the application has not noticed yet
    for entry, caller in ((ann, "person:ann"), (bob, "person:bob")):
        assert bounds.add(entry)
        bounds.hold(entry, caller)
    assert not bounds.add(Entry()), "each caller holds one connection"


async def test_a_stream_that_is_a_callers_only_one_is_not_closed() -> None:
    async with served() as port, AsyncExitStack() as stack:
        streams = [await streaming(stack, port, caller=b"person:%d" % n) for n in range(SHARE)]
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await streaming(stack, port, caller=b"person:other")
        assert not any(reader.at_eof() for reader, _ in streams)


async def test_a_reader_that_does_not_read_is_cut_off() -> None:
    async with served(write_grace=0.05) as port:
        with socket.create_connection(("127.0.0.1", port)) as reader:
            reader.sendall(HEALTH.replace(b"/health", b"/large"))
            poll = select.poll()
            poll.register(reader, 0)  # reports only errors, not readable data
            [(_, event)] = await asyncio.to_thread(poll.poll, 60_000)
            assert event & (select.POLLERR | select.POLLHUP)
        assert await health(port) == 200


@pytest.mark.parametrize("sent", [b"", b"G", HEALTH[:-2]], ids=["nothing", "a letter", "most of it"])
async def test_a_head_that_does_not_come_ends_its_connection(sent: bytes) -> None:
    async with served(head_grace=0.05) as port, AsyncExitStack() as stack:
        reader, writer = await opened(stack, port)
        with suppress(ConnectionError):
            writer.write(sent)
            assert await reader.read() == b""


async def test_the_soft_limit_of_files_is_raised_and_connections_leave_some() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1_024), hard))
    try:
        raise_file_limit()
        raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert raised == (65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536))
        assert isinstance(connections(), Connections)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))
from toolwright.cli.entry import main
main(["serve", "--port", "0"])
"""


async def test_more_idle_connections_than_files_leave_a_server_that_answers(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        shown = ""
        while (found := re.search(r"http://127\.0\.0\.1:(\d+)", shown)) is None:
            line = await process.stdout.readline()
            assert line, (await process.stderr.read()).decode()
            shown += line.decode()
        port = int(found[1])
        async with AsyncExitStack() as stack:
            for _ in range(600):
                await opened(stack, port)
            assert await health(port) == 200
    finally:
        process.terminate()
        _, errors = await process.communicate()
    assert b"out of system resource" not in errors
    assert len(errors) < 10_000, errors[:2_000].decode()
