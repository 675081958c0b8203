"""An MCP server without the SDK, for output that the SDK would not produce: answers are bytes, over HTTP and stdio."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from tests.mcp.peers.hearing import Hearing

JSONObject: TypeAlias = dict[str, Any]
"""JSON on the wire, valid or invalid."""
MAX_LINE = 64 * 1024 * 1024
MODERN = "2026-07-28"
TOOL: JSONObject = {
    "name": "plain",
    "description": "Does it.",
    "inputSchema": {"type": "object", "properties": {}},
}


class Line(Protocol):
    """The destination of the answer to one message."""

    async def answer(self, body: bytes) -> None:
        """Send one message, framed for the transport."""
        ...

    async def stream(self, messages: AsyncIterable[bytes]) -> None:
        """Send many messages: server-sent events of one answer, or lines."""
        ...

    async def raw(self, body: bytes) -> None:
        """Send bytes without any frame."""
        ...

    def break_off(self) -> None:
        """Die: the connection is reset, the process of a stdio server exits immediately."""
        ...


Answer: TypeAlias = Callable[[JSONObject, Line], Awaitable[None]]


def encoded(value: object) -> bytes:
    """Return JSON in one line."""
    return json.dumps(value).encode()


def result(message: JSONObject, value: JSONObject) -> bytes:
    """Return the answer to that request."""
    modern = {} if not is_modern(message) else {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return encoded({"jsonrpc": "2.0", "id": message["id"], "result": {**modern, **value}})


def error(message: JSONObject, code: int, why: str) -> bytes:
    """Return an error of the protocol."""
    return encoded({"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": why}})


def is_modern(message: JSONObject) -> bool:
    """Return whether it is a request of 2026-07-28."""
    params: JSONObject = message.get("params") or {}
    meta: JSONObject = params.get("_meta") or {}
    return bool(meta.get("io.modelcontextprotocol/protocolVersion") == MODERN)


def polite(message: JSONObject) -> bytes:
    """Return the answers of a server with the one tool `plain`, in both revisions."""
    params: JSONObject = message.get("params") or {}
    info = {"name": "bare", "version": "1.0"}
    match message.get("method"):
        case "initialize":
            version = params.get("protocolVersion", "2025-11-25")
            return result(
                message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            )
        case "server/discover":
            told: JSONObject = {
                "supportedVersions": [MODERN],
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            return result(message, told)
        case "tools/list":
            return result(message, {"tools": [TOOL]})
        case "tools/call":
            return result(message, {"content": [{"type": "text", "text": "fine"}]})
        case "ping":
            return result(message, {})
        case _:
            return error(message, -32601, "Method not found")


@dataclass(kw_only=True, eq=False)
class Bare:
    """A server defined by its answers to methods; all other methods get valid answers.

    `always` answers every message.
    """

    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    always: Answer | None = None
    head: bytes = b""  # bytes sent first on a new connection, or on stdout
    get: int = 405  # the status of the answer to every GET
    revision: str | None = None  # for the same interface as the SDK's peers; both revisions are served
    hearing: Hearing = field(default_factory=Hearing)
    events: "HttpLine | None" = None  # the stream of the older transport SSE, which has all answers

    async def over_stdio(self) -> None:
        """Serve this process's stdin and stdout until stdin closes; then the process exits."""
        await self.serve_stdin()
        os._exit(0)

    async def serve_stdin(self) -> None:
        """Answer each line of stdin until it closes. Calls in progress are abandoned."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(MAX_LINE)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        line = StdioLine()
        if self.head:
            await line.raw(self.head)
        tasks: set[asyncio.Task[None]] = set()
        while text := await reader.readline():
            tasks.add(asyncio.create_task(self.take(json.loads(text), {}, line)))

    async def over_http(self, listener: socket.socket, stop: asyncio.Event, transport: str) -> None:
        """Serve that socket until `stop` is set; then all connections break off."""
        connections: set[asyncio.StreamWriter] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.add(writer)
            with suppress(
                ConnectionError,
                asyncio.IncompleteReadError,
                asyncio.LimitOverrunError,
                asyncio.CancelledError,
            ):
                await self._connection(reader, writer, transport)
            writer.close()

        server = await asyncio.start_server(connected, sock=listener, limit=MAX_LINE)
        await stop.wait()
        server.close()
        for writer in connections:
            writer.transport.abort()
        await asyncio.gather(*[writer.wait_closed() for writer in connections], return_exceptions=True)

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, transport: str
    ) -> None:
        writer.write(self.head)
        while head := await _head(reader):
            method, headers = head
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            line = HttpLine(writer, headers, self.events)
            if method == "GET" and transport == "sse":
                self.events = HttpLine(writer, headers)
                head_lines = b"HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\n\r\n"
                await self.events.raw(head_lines + b"event: endpoint\ndata: /post\n\n")
            elif method == "POST":
                await self.take(json.loads(body), headers, line)
            else:
                self.hearing.hear(f"({method})", {}, headers)
                await line.status(self.get if method == "GET" else 200)

    async def take(self, message: JSONObject, headers: dict[str, str], line: Line) -> None:
        """Answer one message."""
        method = str(message.get("method", "(answer)"))
        self.hearing.hear(method, message.get("params") or {}, headers)
        answer = self.always or self.answers.get(method)
        if answer is not None:
            await answer(message, line)
        elif "id" in message and "method" in message:
            await line.answer(polite(message))
        elif isinstance(line, HttpLine):
            await line.status(202)


async def _head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]] | None:
    """Return the method and the headers of the next request, or None at the end of the connection."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = text.strip().split("\r\n")
    pairs = (each.split(":", 1) for each in lines)
    return first.split(" ")[0], {name.lower().strip(): value.strip() for name, value in pairs}


class HttpLine:
    """An HTTP connection, for one answer."""

    def __init__(
        self, writer: asyncio.StreamWriter, headers: Mapping[str, str], events: "HttpLine | None" = None
    ) -> None:
        self._writer = writer
        self.headers = headers  # headers of the request
        self._events = events

    async def answer(self, body: bytes) -> None:
        """Send JSON with its length, or as an event of the stream of the older transport."""
        if self._events is None:
            await self.status(200, body, "content-type: application/json")
            return
        await self._events.raw(b"event: message\ndata: " + body + b"\n\n")
        await self.status(202)

    async def status(self, status: int, body: bytes = b"", *headers: str) -> None:
        """Send an answer with that status."""
        lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}", *headers, "", ""]
        await self.raw("\r\n".join(lines).encode() + body)

    async def stream(self, messages: AsyncIterable[bytes]) -> None:
        """Send server-sent events in chunks."""
        head = b"HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        await self.raw(head)
        async for each in messages:
            event = b"event: message\ndata: " + each + b"\n\n"
            await self.raw(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        await self.raw(b"0\r\n\r\n")

    async def raw(self, body: bytes) -> None:
        """Send bytes unchanged, and wait until the client reads them."""
        self._writer.write(body)
        await self._writer.drain()

    def break_off(self) -> None:
        """Reset the connection."""
        self._writer.transport.abort()


class StdioLine:
    """Standard output of the process."""

    async def answer(self, body: bytes) -> None:
        """Write a line."""
        await self.raw(body + b"\n")

    async def stream(self, messages: AsyncIterable[bytes]) -> None:
        """Write lines."""
        async for each in messages:
            await self.answer(each)

    async def raw(self, body: bytes) -> None:
        """Write bytes unchanged."""
        await asyncio.to_thread(self._write, body)

    @staticmethod
    def _write(body: bytes) -> None:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()

    def break_off(self) -> None:
        """Exit this process."""
        os._exit(1)


async def each_of(messages: Iterable[bytes]) -> AsyncIterable[bytes]:
    """Send those messages one after another."""
    for message in messages:
        yield message
