"""A unix socket between client and Postgres that can lose an answer, stop responding, or be down."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, urlsplit, urlunsplit

SOCKET = ".s.PGSQL.5432"
KEY_DATA = b"K\x00\x00\x00\x0c"  # start of the message with the server's process number and its secret


class Proxy:
    """Forwards bytes. `lose_answer_to` cuts the connection once, when the server has answered that statement.

    With `then_down` the database is unreachable from then on, until `up`. After `freeze`, or from the statement
    `freeze_at` on, no bytes pass, until `thaw`. With `pools` clients receive the number of another process than the
    server's, as from a pooler.
    """

    def __init__(self, url: str, *, pools: bool = False) -> None:
        self._pools = pools
        parts = urlsplit(url)
        self._upstream = Path(parse_qs(parts.query)["host"][0]) / SOCKET
        self._folder = tempfile.TemporaryDirectory(prefix="toolwright-proxy-")
        self.url = urlunsplit(parts._replace(query=f"host={self._folder.name}"))
        self.lose_answer_to: bytes | None = None
        self.freeze_at: bytes | None = None
        self.frozen = asyncio.Event()
        self.then_down = False
        self.lost = 0
        self._down = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._links: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Proxy":
        path = str(Path(self._folder.name) / SOCKET)
        self._server = await asyncio.start_unix_server(self._link, path)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._cut_all()
        self._folder.cleanup()

    async def down(self) -> None:
        """Cut every connection, and accept no new ones."""
        self._down = True
        await self._cut_all()

    def up(self) -> None:
        """Accept connections again."""
        self._down = False

    def freeze(self) -> None:
        """Keep connections open, but pass nothing through."""
        self._flows.clear()
        self.frozen.set()

    def thaw(self) -> None:
        """Pass everything through that was held back."""
        self._flows.set()

    async def _cut_all(self) -> None:
        for link in list(self._links):
            link.cancel()
        if self._links:
            await asyncio.wait(self._links)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._down:
            writer.close()
            return
        self._links.add(task)
        upstream_reader, upstream = await asyncio.open_unix_connection(str(self._upstream))
        marked = asyncio.Event()

        async def watch(chunk: bytes) -> bool:
            if self.freeze_at is not None and self.freeze_at in chunk:
                self.freeze_at = None
                self.freeze()
            await self._flows.wait()
            if self.lose_answer_to is not None and self.lose_answer_to in chunk:
                self.lose_answer_to = None
                marked.set()
            return True

        async def pass_answer(_: bytes) -> bool:
            if marked.is_set():
                self.lost += 1
                self._down = self._down or self.then_down
            return not marked.is_set()

        ways = [
            asyncio.create_task(_pump(reader, upstream, watch)),
            asyncio.create_task(_pump(upstream_reader, writer, pass_answer, self._pooled)),
        ]
        try:
            with suppress(asyncio.CancelledError):  # it is cut; a cancelled link would be logged as an error
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, upstream):
                end.close()
                with suppress(OSError, asyncio.CancelledError):
                    await end.wait_closed()
            self._links.discard(task)

    def _pooled(self, chunk: bytes) -> bytes:
        """Return an answer with the number of another process in the server's key data, which is sent once."""
        place = chunk.find(KEY_DATA) + len(KEY_DATA)
        if not self._pools or place < len(KEY_DATA):
            return chunk
        return chunk[:place] + b"\x00\x00\x00\x01" + chunk[place + 4 :]


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    seen: Callable[[bytes], Awaitable[bool]],
    change: Callable[[bytes], bytes] = bytes,
) -> None:
    """Forward until the end, or until `seen` returns False."""
    with suppress(OSError):
        while chunk := await reader.read(65_536):
            if not await seen(chunk):
                return
            writer.write(change(chunk))
            await writer.drain()
