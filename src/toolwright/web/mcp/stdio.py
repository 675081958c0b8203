"""Stdin and stdout of a process started by an MCP host. The connection ends if the host closes either."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import BinaryIO

AHEAD = 8  # lines that are read before the earlier ones are handled


class HostStreams:
    """Reads and writes the lines of a host, with the methods that the SDK calls.

    If the host has died or has closed the pipe that it reads, its lines end, because no answer can be delivered.
    """

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self._stdin, self._stdout = stdin, stdout
        self._lines = asyncio.Queue[bytes]()
        self._room = threading.Semaphore(AHEAD)

    async def lines(self) -> AsyncGenerator[bytes]:
        """Yield the lines until the host closes one of the streams."""
        # A daemon thread: one that waits in a read can neither be cancelled nor may it delay the end of the process.
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=[loop], name="toolwright-stdin", daemon=True).start()
        while line := await self._lines.get():
            yield line
            self._room.release()

    async def write(self, text: str) -> None:
        """Write a message. It is discarded if the host no longer reads."""
        try:
            await asyncio.to_thread(self._write, text.encode())
        except (OSError, ValueError):  # ValueError: the stream is closed
            self._lines.put_nowait(b"")

    async def flush(self) -> None:
        """Do nothing: each message is flushed when it is written."""

    def _write(self, message: bytes) -> None:
        self._stdout.write(message)
        self._stdout.flush()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        line = b"\n"
        while line:
            self._room.acquire()
            try:
                line = self._stdin.readline()
            except (OSError, ValueError):
                line = b""
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._lines.put_nowait, line)
