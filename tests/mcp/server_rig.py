"""An app served to MCP hosts: a gateway on loopback, and the official SDK's client in either revision."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import httpx2
from fastapi import FastAPI
from mcp.client.streamable_http import streamable_http_client

import mcp
import toolwright as tw
from tests.api.rig import at_work
from toolwright import testing
from toolwright.adapters.system import SystemClock
from toolwright.runtime.runtime import Runtime
from toolwright.web.gateway import create_gateway, end_parts
from toolwright.web.mcp.server import McpEndpoint
from toolwright.web.options import GatewayOptions

Revision = Literal["legacy", "2026-07-28"]
REVISIONS: tuple[Revision, ...] = ("legacy", "2026-07-28")
"""The two revisions, as values of the client's `mode`: the first is 2025-11-25."""


@dataclass
class Host:
    """A served app, and the hosts that call it."""

    rt: Runtime
    url: str
    application: FastAPI

    @asynccontextmanager
    async def client(
        self, revision: Revision, headers: dict[str, str] | None = None, **options: Any
    ) -> AsyncGenerator[mcp.Client]:
        """Connect the SDK's client."""
        async with httpx2.AsyncClient(headers=headers or {}, timeout=30, verify=False) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with mcp.Client(transport, mode=revision, **options) as client:
                yield client

    @asynccontextmanager
    async def wire(self, revision: str, headers: dict[str, str] | None = None) -> AsyncGenerator["Wire"]:
        """Connect a host that writes its own requests, with an open session of 2025-11-25."""
        async with httpx2.AsyncClient(
            base_url=self.url, headers=headers or {}, timeout=30, verify=False
        ) as http:
            wire = Wire(http, revision)
            if revision == "legacy":
                await wire.initialize()
            yield wire


class Wire:
    """A host that writes its own requests, of 2025-11-25 or of 2026-07-28."""

    def __init__(self, http: httpx2.AsyncClient, revision: str) -> None:
        self.http = http
        self.revision = revision
        self.session: dict[str, str] = {}
        self._last = 0

    async def initialize(self) -> None:
        """Open a session, as in 2025-11-25."""
        info = {"name": "wire", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        response = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert response.status_code == 200, response.text
        self.session = {
            "mcp-session-id": response.headers["mcp-session-id"],
            "mcp-protocol-version": "2025-11-25",
        }
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def post(self, body: Any, headers: dict[str, str] | None = None) -> httpx2.Response:
        """Send that body; a string is sent unchanged."""
        content = body if isinstance(body, bytes | str) else json.dumps(body)
        common = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        return await self.http.post(
            "/mcp", content=content, headers={**common, **self.session, **(headers or {})}
        )

    async def call(self, tool: str, arguments: Any = None, **params: Any) -> dict[str, Any]:
        """Return the whole answer to a call of that tool."""
        given: Any = {} if arguments is None else arguments
        return await self.request("tools/call", {"name": tool, "arguments": given, **params}, tool)

    async def request(
        self, method: str, params: dict[str, Any] | None = None, name: str | None = None
    ) -> dict[str, Any]:
        """Return the whole answer to a request; `name` is sent in its headers."""
        self._last += 1
        params = params or {}
        headers: dict[str, str] = {}
        if self.revision == "2026-07-28":
            meta: dict[str, Any] = {
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"_meta": meta, **params}
            headers = {"mcp-protocol-version": self.revision, "mcp-method": method}
            headers |= {} if name is None else {"mcp-name": name}
        body = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        return answer_of(await self.post(body, headers))


def answer_of(response: httpx2.Response) -> dict[str, Any]:
    """Return the last message of an answer, whether it is JSON or a stream."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line for line in response.text.splitlines() if line.startswith("data: {")]
        answer: dict[str, Any] = json.loads(lines[-1].removeprefix("data: "))
    else:
        answer = response.json()
    return answer


@asynccontextmanager
async def hosting(app: tw.App, rt: Runtime | None = None, **options: Any) -> AsyncGenerator[Host]:
    """Serve the app in memory with `/mcp`, or a given runtime."""
    if rt is None:
        async with testing.runtime(app) as runtime, hosting(app, runtime, **options) as host:
            yield host
        return
    endpoint = partial(McpEndpoint, permissions=app.mcp_server)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if options.pop("is_node", False):
            options["node_url"] = f"http://127.0.0.1:{listener.getsockname()[1]}"
        chosen = GatewayOptions(clock=SystemClock(), mcp=options.pop("mcp", endpoint), **options)
        application = create_gateway(rt, chosen)
        async with at_work(application, chosen, listener) as (_, url):
            try:
                yield Host(rt, url, application)
            finally:
                await end_parts(application.state.serving)
