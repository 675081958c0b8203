"""A host that goes away while a call waits: no traceback. On stdio the process ends, over HTTP it goes on."""

import json
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.server_rig import REVISIONS, Revision

PATIENCE = 100

APP = """
import asyncio
from pathlib import Path
import toolwright as tw

@tw.tool(description="Wait.")
async def wait(state: tw.ThreadState) -> str:
    try:
        for n in range(100_000):
            state.progress(n)
            await asyncio.sleep(0.01)
    finally:
        Path("cancelled").touch()
    return "done"

app = tw.App(tools=[wait])
"""
INFO = {"name": "host", "version": "1"}
HELLO: list[dict[str, Any]] = [
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]
MODERN: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def call(revision: Revision) -> dict[str, Any]:
    meta: dict[str, Any] = {"progressToken": 1, **({} if revision == "legacy" else MODERN)}
    params = {"name": "wait", "arguments": {}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@contextmanager
def started(folder: Path, *arguments: str) -> Generator[subprocess.Popen[bytes]]:
    """Start the command in its own process, with the app above."""
    (folder / "app.py").write_text(APP, encoding="utf-8")
    source = str(Path(__file__).parents[2] / "src")
    with subprocess.Popen(
        [sys.executable, "-m", "toolwright.cli", *arguments],
        cwd=folder,
        env={"PYTHONPATH": source, "TOOLWRIGHT_DATABASE_URL": "memory://", "TOOLWRIGHT_MCP_SERVER": "on"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("closes_stdin", [False, True])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_pipe_that_is_closed_during_a_call_ends_the_process(
    revision: Revision, closes_stdin: bool, tmp_path: Path
) -> None:
    with started(tmp_path, "mcp", "app:app") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [*(HELLO if revision == "legacy" else ()), call(revision)]
        process.stdin.write("".join(f"{json.dumps(each)}\n" for each in lines).encode())
        process.stdin.flush()
        while b"notifications/progress" not in process.stdout.readline():
            pass
        process.stdout.close()
        if closes_stdin:
            process.stdin.close()
        assert (process.stderr.read(), process.wait(PATIENCE)) == (b"", 0)


class Peer:
    """A host over plain sockets, whose connections it can reset."""

    def __init__(self, line: bytes) -> None:
        address = re.search(rb"http://([\d.]+):(\d+)", line)
        assert address is not None, line
        self._address = address[1].decode(), int(address[2])
        self.headers: dict[str, str] = {}

    def send(self, method: str, body: object, until: bytes) -> tuple[bytes, socket.socket]:
        """Send a request, and return the beginning of the answer up to `until`."""
        connection = socket.create_connection(self._address, PATIENCE)
        content = b"" if body is None else json.dumps(body).encode()
        accept = "text/event-stream" if method == "GET" else "application/json, text/event-stream"
        fields = {
            "host": "127.0.0.1",
            "accept": accept,
            "content-type": "application/json",
            "content-length": str(len(content)),
            **self.headers,
        }
        head = "".join(f"{name}: {each}\r\n" for name, each in fields.items())
        connection.sendall(f"{method} /mcp HTTP/1.1\r\n{head}\r\n".encode() + content)
        answer = b""
        while until not in answer:
            piece = connection.recv(65536)
            assert piece, answer
            answer += piece
        return answer, connection

    def open(self, revision: Revision) -> None:
        """Begin a session, or use the headers of the revision without sessions."""
        if revision != "legacy":
            self.headers = {"mcp-protocol-version": revision, "mcp-method": "tools/call", "mcp-name": "wait"}
            return
        head, connection = self.send("POST", HELLO[0], b"\r\n\r\n")
        connection.close()
        [session] = re.findall(rb"(?i)mcp-session-id: (\S+)", head)
        self.headers = {"mcp-session-id": session.decode(), "mcp-protocol-version": "2025-11-25"}
        self.send("POST", HELLO[1], b"\r\n\r\n")[1].close()


def reset(connection: socket.socket) -> None:
    """Close the connection with a reset instead of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("revision", REVISIONS)
def test_connections_that_break_during_a_call_are_no_errors_of_the_server(
    revision: Revision, tmp_path: Path
) -> None:
    with started(tmp_path, "serve", "app:app", "--port", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        host = Peer(process.stdout.readline())
        host.open(revision)
        for leave in (reset, socket.socket.close):
            leave(host.send("POST", call(revision), b"notifications/progress")[1])
            if (
                revision == "legacy"
            ):  # the session's own stream; a lost connection cancels no call of a session
                leave(host.send("GET", None, b"\r\n\r\n")[1])
                continue
            while not (tmp_path / "cancelled").exists():
                time.sleep(0.01)
            (tmp_path / "cancelled").unlink()
        _, connection = host.send("POST", call(revision), b"notifications/progress")
        with connection:
            process.terminate()
            error = process.stderr.read()
        assert process.wait(PATIENCE) == 0
        assert b"Traceback" not in error, error.decode()
