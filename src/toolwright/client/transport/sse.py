"""Server-sent events out of bytes, however those are cut (the HTML standard, 9.2.6)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolwright.core.errors import BadAnswer
from toolwright.core.text import quantity

LARGEST = 4 * 1024 * 1024  # bytes of one event: ours are far smaller
_END = re.compile(b"[\r\n]")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Sse:
    """One dispatched event. `id` is the last one that the stream has named."""

    data: str
    event: str = "message"
    id: str = ""


class SseParser:
    """Takes bytes as they come and gives the events that they complete; half an event at the end is none.

    Lines end with CR, LF or both. `retry` is passed over: the client has its own patience. Raises `BadAnswer` when one
    event grows above `largest` bytes.
    """

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._head = b""  # the first bytes, until it is clear whether they are a byte order mark
        self._begun = False
        self._line = bytearray()
        self._after_cr = False
        self._data: list[str] = []
        self._size = 0
        self._event = ""
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[Sse]:
        """The events that are complete with `chunk`; the iterator must be read to its end before the next."""
        for line in self._lines(self._after_mark(chunk)):
            made = self._take(line)
            if made is not None:
                yield made

    def _after_mark(self, chunk: bytes) -> bytes:
        if self._begun:
            return chunk
        self._head += chunk
        if len(self._head) < len(_BOM) and _BOM.startswith(self._head):
            return b""
        self._begun = True
        return self._head.removeprefix(_BOM)

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        start = 0
        if chunk and self._after_cr:
            start = int(chunk.startswith(b"\n"))
            self._after_cr = False
        for end in _END.finditer(chunk, start):
            at = end.start()
            if at < start:
                continue  # the LF of a CR LF
            self._grow(chunk[start:at])
            line = bytes(self._line)
            self._line.clear()
            start = at + 1
            if chunk[at] == 0x0D:
                self._after_cr = start == len(chunk)
                start += int(chunk[start : start + 1] == b"\n")
            yield line
        self._grow(chunk[start:])

    def _grow(self, part: bytes) -> None:
        self._line += part
        if len(self._line) + self._size > self._largest:
            raise BadAnswer(f"The stream has an event of more than {quantity(self._largest, 'byte')}.")

    def _take(self, line: bytes) -> Sse | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(text)
            self._size += len(line)
        elif name == b"event":
            self._event = text
        elif name == b"id" and "\0" not in text:
            self._id = text
        return None

    def _dispatch(self) -> Sse | None:
        data, event = self._data, self._event
        self._data, self._size, self._event = [], 0, ""
        return Sse("\n".join(data), event or "message", self._id) if data else None
