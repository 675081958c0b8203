"""A call of a tool of an MCP server: our validation, execution and reading, compared with the SDK's own `call_tool`.

Both call the same server in a process of its own, in turn, each on a connection that is kept alive; the arguments are
nested, the result has some KB. The floor is the SDK's client alone.
"""

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

import mcp
from bench.many_threads import address
from bench.row import Row
from toolwright.adapters.executors.request import resolve
from toolwright.adapters.mcp.executor import McpExecutor
from toolwright.adapters.mcp.servers import McpConnections
from toolwright.core.mcp.config import declared_servers
from toolwright.core.results import ToolResult
from toolwright.core.tools.mcp import McpServer, target_of
from toolwright.core.tools.pipeline import PreparedCall, execute, prepare
from toolwright.core.tools.tool import Tool
from toolwright.testing import MemoryState
from toolwright.wiring.gateway import listen, settle_memory

WARM, ROUNDS, AT_ONCE = 20, 15, 20
TARGET = 1.3
"""Floors."""
ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {"sku": {"type": "string"}, "amount": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["sku", "amount"],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
        },
        "items": {"type": "array", "items": ITEM},
    },
    "required": ["customer", "items"],
}
ARGUMENTS: dict[str, Any] = {
    "customer": {"name": "Ada", "city": "London"},
    "items": [{"sku": f"cup-{n}", "amount": n, "tags": ["blue", "small"]} for n in range(10)],
}
ORDER: dict[str, Any] = {
    "order": {"id": "o-1", "state": "placed"},
    "lines": [
        {"sku": f"cup-{n}", "amount": n, "price": {"value": 9.5, "currency": "EUR"}} for n in range(40)
    ],
}
NAME = "place_order"
Context: TypeAlias = ServerRequestContext[Any, Any]


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    with _server() as url:
        return asyncio.run(_rows(url))


async def _rows(url: str) -> list[Row]:
    connections = McpConnections(resolve=resolve)
    try:
        tool = await _tool(connections, url)
        executors: dict[Any, Any] = {"mcp": McpExecutor(connections)}
        state = MemoryState()

        async def ours() -> None:
            prepared = prepare({NAME: tool}, NAME, ARGUMENTS, "call")
            assert isinstance(prepared, PreparedCall), prepared
            result = await execute(executors, prepared, state)
            assert isinstance(result, ToolResult), result
            assert result.result == ORDER, result

        async with mcp.Client(url, mode="auto") as client:

            async def bare() -> None:
                result = await client.call_tool(NAME, ARGUMENTS)
                assert result.structured_content == ORDER

            value, floor = await _in_turn(ours, bare)
    finally:
        await connections.aclose()
    name = "a call of an MCP server's tool, over the SDK's client, kept-alive HTTP"
    return [Row(name, value, "ms", floor, TARGET * floor, note="target: 1.3 floors")]


async def _tool(connections: McpConnections, url: str) -> Tool:
    (server,) = declared_servers({"shop": {"url": url}}, "bench")
    assert isinstance(server, McpServer)
    (tool,) = (await connections.listing(target_of(server, {}), 30)).tools
    return tool


async def _in_turn(*calls: Callable[[], Awaitable[None]]) -> list[float]:
    """Return the median ms of each, measured in alternating batches of calls."""
    taken: list[list[float]] = [[] for _ in calls]
    for call in calls:
        for _ in range(WARM):
            await call()
    for _ in range(ROUNDS):
        for call, times in zip(calls, taken, strict=True):
            for _ in range(AT_ONCE):
                begin = time.perf_counter()
                await call()
                times.append((time.perf_counter() - begin) * 1e3)
    return [statistics.median(times) for times in taken]


@contextmanager
def _server() -> Generator[str]:
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path[:] = {sys.path!r}; from bench.mcp import serve; serve()",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield f"{address(process)}/mcp"
        finally:
            process.kill()


def serve() -> None:
    """Serve the tool with the SDK alone."""
    asyncio.run(_serve())


async def _serve() -> None:

    tool = types.Tool(name=NAME, description="Places an order.", input_schema=SCHEMA)

    async def tools(
        _: ServerRequestContext[Any, Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool], ttl_ms=3_600_000, cache_scope="public")

    async def call(
        _: ServerRequestContext[Any, Any], __: types.CallToolRequestParams
    ) -> types.CallToolResult:
        content: list[types.ContentBlock] = [types.TextContent(text=json.dumps(ORDER))]
        return types.CallToolResult(content=content, structured_content=ORDER)

    server: Server[Any] = Server("shop", on_list_tools=tools, on_call_tool=call)
    with listen("127.0.0.1", 0) as listener:
        listener.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )  # otherwise 40 ms of waiting hide the measured time
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        await uvicorn.Server(config).serve(sockets=[listener])
