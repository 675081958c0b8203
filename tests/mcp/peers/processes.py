"""Peers over stdio whose process misbehaves: junk in addition to the protocol, signals, children, early exit."""

import asyncio
import os
import signal
import subprocess
import sys

from tests.mcp.peers.bare import Bare, JSONObject, Line, polite

MEGABYTE = 1024 * 1024


def junk_on_stdout() -> Bare:
    """Writes lines that are no messages to stdout, before and between its answers."""

    async def call(message: JSONObject, line: Line) -> None:
        await line.raw(b"DEBUG calling plain\n\n{}\nnull\n\xff\xfe\n")
        await line.answer(polite(message))

    return Bare(head=b"Server starting on stdio...\nnpm notice\n", answers={"tools/call": call})


def junk_on_stderr() -> Bare:
    """Writes 20 MB to stderr before each answer to a call, with a password in it."""

    async def call(message: JSONObject, line: Line) -> None:
        await asyncio.to_thread(_complain)
        await line.answer(polite(message))

    return Bare(answers={"tools/call": call})


def _complain() -> None:
    for _ in range(20):
        sys.stderr.write("password=hunter2 " + "x" * MEGABYTE + "\n")
    sys.stderr.flush()


def long_line() -> Bare:
    """The answer to a call is a line of 64 MB without an end; then it sends nothing."""

    async def call(_: JSONObject, line: Line) -> None:
        for _n in range(64):
            await line.raw(b"x" * MEGABYTE)

    return Bare(answers={"tools/call": call})


def ignores_sigterm() -> Bare:
    """Ignores SIGTERM and SIGINT, and does not exit when stdin closes: only SIGKILL ends it."""
    return _Lasting()


class _Lasting(Bare):
    async def over_stdio(self) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        await self.serve_stdin()
        await asyncio.Event().wait()


def forks_a_child() -> Bare:
    """Starts a child that holds stdout open and outlives it; `plain` returns the child's process id."""
    child: list[int] = []

    async def call(message: JSONObject, line: Line) -> None:
        if not child:
            child.append(_sleeper())
        await line.answer(polite(message).replace(b"fine", str(child[0]).encode()))

    return Bare(answers={"tools/call": call})


def _sleeper() -> int:
    script = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; signal.pause()"
    return subprocess.Popen([sys.executable, "-c", script]).pid


def closes_stdin() -> Bare:
    """Closes its stdin after listing its tools, and keeps running: writes to it then break the pipe."""

    async def listed(message: JSONObject, line: Line) -> None:
        await line.answer(polite(message))
        os.close(0)

    return Bare(answers={"tools/list": listed})


def closes_stdout() -> Bare:
    """Closes its stdout when a tool is called, and keeps running."""

    async def call(_: JSONObject, line: Line) -> None:
        os.close(1)

    return Bare(answers={"tools/call": call})


class _Exiting(Bare):
    async def over_stdio(self) -> None:
        sys.stderr.write("no token: set PEER_TOKEN=hunter2\n")
        sys.stderr.flush()
        os._exit(3)


def exits() -> Bare:
    """Exits immediately with 3 and a message on stderr."""
    return _Exiting()
