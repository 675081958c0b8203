"""The app's tools on stdio: nothing but the protocol on stdout, until stdin closes."""

from io import TextIOWrapper
from typing import BinaryIO

import anyio
from mcp.server.stdio import stdio_server

from toolwright.core.mcp.offered import McpPermissions
from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import SERVICE
from toolwright.web.mcp.parts import McpParts
from toolwright.web.mcp.server import mcp_server


async def serve_stdio(
    runtime: Runtime, stdin: BinaryIO, stdout: BinaryIO, permissions: McpPermissions
) -> None:
    """Serve the runtime's tools to the host at the other end of these streams, which has a service's permissions."""
    parts = McpParts(opened=lambda: runtime, caller=lambda _: SERVICE, permissions=permissions)
    server = mcp_server(parts)
    lines = anyio.wrap_file(TextIOWrapper(stdin, encoding="utf-8", errors="replace"))
    written = anyio.wrap_file(TextIOWrapper(stdout, encoding="utf-8"))
    try:
        async with stdio_server(lines, written) as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())
    finally:
        await parts.aclose()
