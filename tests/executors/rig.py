"""A server on this machine that answers with given bytes, and tools that call it by a host name."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpcore2

import toolwright as tw
from toolwright.adapters.executors.http import HttpExecutor
from toolwright.adapters.executors.request import Resolve
from toolwright.core.env.env import EnvVar
from toolwright.core.state.memory import MemoryState
from toolwright.core.tools.toolset import Toolset

PUBLIC = "93.184.216.34"


@dataclass(frozen=True)
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Reply = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def answer(status: str = "200 OK", body: bytes | str = b"", **headers: str) -> bytes:
    """Return an HTTP answer. `_` in the name of a header stands for `-`."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def as_json(value: object) -> bytes:
    return answer(body=json.dumps(value), Content_Type="application/json")


@dataclass
class Server:
    port: int = 0
    received: list[Received] = field(default_factory=list[Received])
    replies: dict[str, bytes | Reply] = field(default_factory=dict[str, "bytes | Reply"])
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = dict(line.split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers.get("Content-Length", 0)))
                got = Received(method, target, headers, body)
                self.received.append(got)
                reply = self.replies.get(target.partition("?")[0], as_json({"path": target}))
                if isinstance(reply, bytes):
                    writer.write(reply)
                    await writer.drain()
                else:
                    await reply(got, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Server]:
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


class Names:
    """A resolver: each name has a list of answers with all its addresses, of which the last one is repeated."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self.asked: list[str] = []
        self._answers = {name: [*answers] for name, answers in names.items()}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is None:
            raise OSError(f"no such name: {host}")
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Wires(httpcore2.AsyncNetworkBackend):
    """A network that records the dialled addresses, and connects all of them to this machine."""

    def __init__(self) -> None:
        self.dialled: list[str] = []
        self._inner: Any = httpcore2.AnyIOBackend()  # typed as if anyio were not installed

    async def connect_tcp(
        self, host: str, port: int, timeout: Any = None, local_address: Any = None, socket_options: Any = None
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append(host)
        return await self._inner.connect_tcp("127.0.0.1", port, timeout, local_address, socket_options)


@dataclass
class Bench:
    server: Server
    executor: HttpExecutor
    wires: Wires
    names: Names

    async def call(
        self,
        path: str = "/",
        arguments: Mapping[str, object] | None = None,
        *,
        host: str = "api.test",
        scheme: str = "http",
        env: Mapping[str, str] | None = None,
        state: MemoryState | None = None,
        **fields: Any,  # fields of `tool`
    ) -> tw.ToolResult:
        """Call a tool whose URL is this server's, under that host name."""
        made = tool(f"{scheme}://{host}:{self.server.port}{path}", **fields)
        values = {name: EnvVar(value=text) for name, text in (env or {}).items()}
        tools = Toolset([made], executors={"gateway": self.executor})
        return await tools.call(made.name, dict(arguments or {}), state or MemoryState(env=values))


def tool(
    url: str,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    trusted: bool = False,
    **fields: Any,  # fields of a configuration
) -> tw.Tool:
    anything: dict[str, object] = {}
    names = ("id", "q", "a", "b")
    return tw.Tool.from_config(
        {
            "name": "fetch",
            "description": "Fetch.",
            "inputSchema": {"type": "object", "properties": dict.fromkeys(names, anything)},
            "executionType": "gateway",
            "execution": {"url": url, "method": method, "headers": dict(headers or {})},
            **fields,
        },
        trusted=trusted,
    )


@asynccontextmanager
async def bench(
    names: Mapping[str, Sequence[Sequence[str]]] | None = None,
    allow: Iterable[str] = (),
    max_answer: int = 1024 * 1024,
    resolve: Resolve | None = None,
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
) -> AsyncGenerator[Bench]:
    """A server, and an executor that knows these names; `api.test` and `other.test` are public.

    `tls` holds the contexts of the server and of the executor.
    """
    wires = Wires()
    known = Names({"api.test": [[PUBLIC]], "other.test": [["93.184.216.35"]], **(names or {})})
    executor = HttpExecutor(
        allow=allow,
        max_answer=max_answer,
        resolve=resolve or known,
        network=wires,
        tls=tls[1] if tls else None,
    )
    async with serving(tls[0] if tls else None) as server:
        try:
            yield Bench(server, executor, wires, known)
        finally:
            await executor.aclose()
