"""A gateway on a real loopback port, and readers of its answers and streams."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from fastapi import FastAPI

import toolwright as tw
from tests.api.documented import document
from tests.kit import call
from tests.runtime.rig import Rig, running
from toolwright.adapters.system import SystemClock
from toolwright.core.journal.store import Store
from toolwright.core.model import Model
from toolwright.core.threads.event import Topic
from toolwright.core.tools.tool import Kind
from toolwright.runtime.calls.plan import INLINE_EXECUTORS, InlineExecutor
from toolwright.testing import MemoryBus, ScriptedModel
from toolwright.web.gateway import create_gateway
from toolwright.web.options import GatewayOptions
from toolwright.wiring.gateway import Server
from toolwright.wiring.settings import Settings

JSON = dict[str, Any]  # untyped on purpose: the shape of an answer is checked against the OpenAPI document

outside = tw.Tool(
    name="ask_outside",
    description="Ask somebody outside.",
    kind="external",
    visible=False,
    timeout=600.0,  # long enough that a wait never times out, even on a busy machine
    parameters={"type": "object", "properties": {"user_name": {"type": "string"}}},
)


def asking() -> ScriptedModel:
    """Return a model that makes one external call, then thanks."""
    return ScriptedModel([call("ask_outside", user_name="Ada"), {"text": "Thanks."}])


class Ending(Server):
    """A server that stops as soon as `end` is called, instead of at its next poll a tenth of a second later."""

    def __init__(self, application: FastAPI, options: GatewayOptions, listener: socket.socket) -> None:
        self.ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._end = asyncio.Event()
        super().__init__(application, options, listener, self.ready.set_result)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._end.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down without uvicorn's grace of a tenth of a second if no client is connected."""
        for _ in range(3):
            await asyncio.sleep(0)  # connections that their clients have closed are noticed here
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        self._closing.set()
        for server in self.servers:
            server.close()

    def end(self) -> None:
        self._end.set()


@dataclass
class Api:
    """A served runtime and its HTTP client."""

    client: httpx2.AsyncClient
    rig: Rig
    server: Ending
    port: int

    async def get(self, path: str, **options: Any) -> JSON:  # httpx2's own options
        return read(await self.client.get(path, **options), 200)

    async def post(
        self, path: str, body: Any = None, status: int = 200
    ) -> JSON:  # any JSON, including invalid bodies
        return read(await self.client.post(path, json=body), status)

    @property
    def application(self) -> FastAPI:
        served: FastAPI = self.server.config.app  # type: ignore[assignment]  # as `serving` made it
        return served

    async def thread(self) -> str:
        made: str = (await self.post("/api/threads", {"agentId": "tester"}, 201))["threadId"]
        return made

    async def run(self, thread_id: str, content: str = "Go") -> str:
        """Send a message and return the id of the run that it starts."""
        sent = await self.post(f"/api/threads/{thread_id}/messages", {"content": content}, 202)
        return str(sent["runId"])

    async def finished(self) -> tuple[str, str]:
        """Return the ids of a thread and its finished run."""
        thread_id = await self.thread()
        run_id = await self.run(thread_id)
        await self.rig.rt.runs.wait(run_id, 10)
        return thread_id, run_id

    async def waiting(self) -> tuple[str, str]:
        """Return the ids of a run that waits for a call's result, and of the call."""
        run_id = await self.run(await self.thread())
        await self.until(run_id, "run.waiting")
        [call] = (await self.get("/api/calls", params={"runId": run_id}))["calls"]
        return run_id, call["callId"]

    async def until(self, run_id: str, event_type: str) -> None:
        async with asyncio.timeout(10):
            async for event in self.rig.rt.events.follow(Topic(kind="run", id=run_id), after=0):
                if event.type == event_type:
                    return

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncGenerator["Stream"]:
        """Open the stream at that path and read it from the socket."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        said = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{said}\r\n".encode())
        try:
            async with asyncio.timeout(10):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            yield Stream(reader, int(head.split()[1]), head)
        finally:
            writer.close()
            await writer.wait_closed()


@dataclass
class Stream:
    """A streamed answer, chunk by chunk."""

    reader: asyncio.StreamReader
    status: int
    head: str
    _frames: list[bytes] = field(default_factory=list[bytes])

    async def chunk(self) -> bytes:
        """Return one chunk as the server wrote it; empty at the end."""
        async with asyncio.timeout(10):
            size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def event(self) -> JSON:
        """Return the next event. One chunk has all events that were available together."""
        while not self._frames:
            chunk = await self.chunk()
            assert chunk.endswith(b"\n\n"), chunk
            self._frames = [frame for frame in chunk[:-2].split(b"\n\n") if not frame.startswith(b":")]
        frame = self._frames.pop(0)
        found = re.fullmatch(rb"(?:id: (\d+)\n)?data: (.*)", frame)
        assert found, frame
        shown: JSON = json.loads(found[2])
        assert shown.get("id") == (found[1] and found[1].decode())
        return shown

    async def until(self, event_type: str) -> list[JSON]:
        """Return the events up to the first of that type."""
        events: list[JSON] = []
        while not events or events[-1]["type"] != event_type:
            events.append(await self.event())
        return events


@asynccontextmanager
async def serving(
    model: Model | None = None,
    tools: Sequence[tw.Tool] = (outside,),
    *,
    store: Callable[[MemoryBus], Awaitable[Store]] | None = None,
    settings: Settings | None = None,
    agent_options: Mapping[str, Any] | None = None,
    inline_executors: Mapping[Kind, InlineExecutor] = INLINE_EXECUTORS,
    **options: Any,  # options of the gateway
) -> AsyncGenerator[Api]:
    """Serve a runtime like the one of `tests.runtime`."""
    async with running(
        model or asking(),
        tools,
        store=store,
        settings=settings,
        inline_wait=0.0,
        options=agent_options,
        inline_executors=inline_executors,
    ) as rig:
        options.setdefault("clock", SystemClock())
        chosen = GatewayOptions(**options)
        application = create_gateway(rig.rt, chosen)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = int(listener.getsockname()[1])
            async with at_work(application, chosen, listener) as (server, url):
                hooks = {"response": [document().check]}
                async with httpx2.AsyncClient(
                    base_url=url, event_hooks=hooks, timeout=60, verify=False
                ) as client:
                    yield Api(client, rig, server, port)


@asynccontextmanager
async def at_work(
    application: FastAPI, options: GatewayOptions, listener: socket.socket
) -> AsyncGenerator[tuple[Ending, str]]:
    """Yield the listening server and its URL."""
    server = Ending(application, options, listener)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield server, await server.ready
    finally:
        server.end()
        await task


def read(response: httpx2.Response, status: int) -> JSON:
    """Return the answer's JSON. Fails if the answer has another status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    shown: JSON = response.json()
    if status >= 400 and "status" not in shown:
        assert isinstance(shown["error"], str)
        assert isinstance(shown.pop("code"), str)  # `tests.client` compares codes with the error classes
    return shown
