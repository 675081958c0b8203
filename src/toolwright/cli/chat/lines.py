"""Lines of standard input, read by the event loop: a thread that reads would keep the process from ending."""

import asyncio
import os

_CHUNK = 65_536


class Lines:
    """Lines as they come, from a terminal, a pipe or a file."""

    def __init__(self, file: int = 0) -> None:
        self._file = file
        self._rest = b""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    def start(self) -> None:
        """Begin to read."""
        try:
            asyncio.get_running_loop().add_reader(self._file, self._read)
        except OSError:  # a file or /dev/null, which cannot be waited for and need not be
            while self._take():
                pass

    def stop(self) -> None:
        """Read no more."""
        asyncio.get_running_loop().remove_reader(self._file)

    async def next(self) -> str | None:
        """The next line, None at the end."""
        return await self._lines.get()

    def _read(self) -> None:
        if not self._take():
            self.stop()

    def _take(self) -> bool:
        """Read some; false at the end."""
        try:
            chunk = os.read(self._file, _CHUNK)
        except OSError:  # closed, or a terminal that is gone
            chunk = b""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and self._rest:
            lines.append(self._rest)
        for line in lines:
            self._lines.put_nowait(line.decode("utf-8", "replace").rstrip("\r"))
        if not chunk:
            self._lines.put_nowait(None)
        return bool(chunk)
