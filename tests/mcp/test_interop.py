"""Our client with npm's example server, and our server with the MCP Inspector's command line."""

import json
import os
import re
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.mcp.client_rig import calling, hosting
from tests.mcp.conformance import server_of_ours
from tests.mcp.npm_peers import npm_program

pytestmark = [pytest.mark.anyio, pytest.mark.peers]

PATIENCE = 60
"""Seconds for a program of Node."""


@contextmanager
def everything_over_http() -> Generator[str]:
    """Run npm's example server in a separate process. Yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    process = subprocess.Popen(
        [*npm_program("server-everything"), "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process:
        try:
            assert any("listening" in line.lower() for line in process.stderr)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


async def used(server: dict[str, Any]) -> None:
    """An agent finds the tools of the example server, and calls some of them."""
    turns: list[object] = [
        {"calls": [{"name": "echo", "args": '{"message": "hello"}'}]},
        {"calls": [{"name": "get-sum", "args": '{"a": 2, "b": 3}'}]},
        {"calls": [{"name": "get-structured-content", "args": '{"location": "New York"}'}]},
        {"calls": [{"name": "get-tiny-image", "args": "{}"}]},
        {"calls": [{"name": "get-resource-links", "args": '{"count": 2}'}]},
        {"calls": [{"name": "trigger-long-running-operation", "args": '{"duration": 1, "steps": 4}'}]},
        *calling("own"),
    ]
    async with hosting(server, turns) as host:
        ran, events = await host.watched()
        assert await host.status() == "ready"
        assert await host.faults() == ""
        assert {"echo", "get-sum", "get-tiny-image"} <= set(await host.tools())
    assert ran.run.status == "completed"
    assert ran.results["echo"] == "Echo: hello"
    assert "5" in ran.results["get-sum"]
    assert '"conditions"' in ran.results["get-structured-content"]
    images = [file.mime_type for each in ran.messages for file in each.attachments]
    assert images == ["image/png"]
    assert "demo://" in ran.results["get-resource-links"]
    assert "Long running operation completed" in ran.results["trigger-long-running-operation"]
    assert "tool.progress" in events


async def test_an_agent_uses_the_example_server_over_stdio() -> None:
    program, *arguments = npm_program("server-everything")
    await used({"command": program, "args": [*arguments, "stdio"]})


async def test_an_agent_uses_the_example_server_over_http() -> None:
    with everything_over_http() as url:
        await used({"url": url})


def inspected(url: str, *arguments: str) -> dict[str, Any]:
    """Return the Inspector's output for an answer of our server."""
    command = [*npm_program("inspector"), "--cli", url, "--transport", "http", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = re.search(r"\{.*\}", done.stdout, re.DOTALL)
    assert shown is not None, done.stdout
    answer: dict[str, Any] = json.loads(shown[0])
    return answer


def test_the_inspector_lists_and_calls_tools_of_our_server() -> None:
    npm_program("inspector")
    with server_of_ours() as url:
        tools = inspected(url, "--method", "tools/list")["tools"]
        assert {"test_simple_text", "test_image_content"} <= {tool["name"] for tool in tools}
        called = inspected(url, "--method", "tools/call", "--tool-name", "test_simple_text")
        assert called["content"][0]["text"] == "This is a simple text response for testing."
