"""`python -m tests.mcp.peers NAME [--http] [--port N] [--revision R]`: one peer, over stdio or on a port."""

import argparse
import asyncio
import socket
import sys

from tests.mcp.peers.catalogue import MODULES
from tests.mcp.peers.serving import Servable, made


def main() -> None:
    """Serve one peer until stdin closes, or without end on a port."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mcp.peers", description="A server of MCP that misbehaves."
    )
    parser.add_argument("name", choices=sorted(MODULES), metavar="NAME", help=", ".join(sorted(MODULES)))
    parser.add_argument(
        "--http", action="store_true", help="on a port of this machine; its URL is the first line"
    )
    parser.add_argument("--port", type=int, default=0, help="which port, any if 0")
    parser.add_argument("--revision", help="serve only that revision: 2025-11-25 or 2026-07-28")
    options = parser.parse_args()
    peer = made(options.name, options.revision)
    asyncio.run(on_port(peer, options.port) if options.http else peer.over_stdio())


async def on_port(peer: Servable, port: int) -> None:
    """Serve it until this process is killed."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        await peer.over_http(listener, asyncio.Event(), "http")


if __name__ == "__main__":
    main()
