"""Event streams over HTTP: SSE parser and reconnection, without gaps or repeated events."""

import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from toolwright.client.http import RETRIABLE, TRIES, Http, delay
from toolwright.core.errors import BadAnswer, Reset, ToolwrightError
from toolwright.core.json_value import JSON
from toolwright.core.text import brief, quantity
from toolwright.wire.event import Event
from toolwright.wire.shape import read

MAX_EVENT = 4 * 1024 * 1024  # bytes of one event: ours are far smaller
_END = re.compile(b"[\r\n]")
_BOM = b"\xef\xbb\xbf"
log = logging.getLogger("toolwright.client")
CONNECTED = "connected"
RESET = "reset"


@dataclass(frozen=True, slots=True)
class Sse:
    """An event of the stream. `id` is the last event id that the stream has sent."""

    data: str
    event: str = "message"
    id: str = ""


class SseParser:
    """Incremental parser of server-sent events. An incomplete event at the end of the stream is dropped.

    Lines end with CR, LF or both. The `retry` field is ignored: the client has its own delays. Raises `BadAnswer` if an
    event exceeds `largest` bytes.
    """

    def __init__(self, largest: int = MAX_EVENT) -> None:
        self._largest = largest
        self._head = b""  # the first bytes, until it is clear whether they are a byte order mark
        self._started = False
        self._line = bytearray()
        self._after_cr = False
        self._data: list[str] = []
        self._size = 0
        self._event = ""
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[Sse]:
        """Yield the events that `chunk` completes. Read the iterator to its end before the next chunk."""
        for line in self._lines(self._after_mark(chunk)):
            event = self._read_line(line)
            if event is not None:
                yield event

    def _after_mark(self, chunk: bytes) -> bytes:
        if self._started:
            return chunk
        self._head += chunk
        if len(self._head) < len(_BOM) and _BOM.startswith(self._head):
            return b""
        self._started = True
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
            raise BadAnswer(
                f"The stream has an event of more than {quantity(self._largest, 'byte')}. Check the base URL."
            )

    def _read_line(self, line: bytes) -> Sse | None:
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


class StreamPosition:
    """Resume position of a followed stream: the number of the last recorded event that was yielded."""

    def __init__(self, after: int | None) -> None:
        self._requested = after
        self._last: int | None = None
        self._head: int | None = None

    @property
    def query(self) -> dict[str, int | None]:
        """Query of a connection as long as no recorded event was yielded."""
        return {"after": self._requested if self._last is None else None}

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a connection after the first recorded event."""
        return {} if self._last is None else {"last-event-id": str(self._last)}

    def advance(self, event: Event) -> bool:
        """Advance to the event and return whether it is new. Live events, which have no number, are always new.

        Raises `Reset` if the server no longer has the events after the position.
        """
        if event.type == CONNECTED:
            self._head = _number(event.payload.get("after"))
            self._last = self._head if self._last is None and self._requested is None else self._last
        if event.type == RESET and event.n is None:
            raise Reset(
                "Some events after the resume position were deleted. Read the current state again, "
                f"then follow after {self._head}.",
                self._head,
            )
        if event.n is None:
            return True
        if event.n <= max(self._last or 0, self._requested or 0):
            return False
        self._last = event.n
        return True


async def follow(http: Http, path: str, after: int | None) -> AsyncGenerator[Event]:
    """Yield the events of a stream, without end: each recorded event once and in order, live events on arrival."""
    async with aclosing(signals(http, path, after)) as events:
        async for event in events:
            if event.type != CONNECTED:
                yield event


async def signals(http: Http, path: str, after: int | None = None) -> AsyncGenerator[Event]:
    """Yield the events, and a `connected` event after each connection: later events are not missed.

    The first connection is tried a few times. After it has succeeded, lost connections are re-opened without a limit.
    """
    position, is_connected, failures = StreamPosition(after), False, 1
    while True:
        loss: ToolwrightError | None = None
        try:
            async with http.stream(path, position.query, position.headers) as chunks:
                async for event in _events(chunks):
                    is_connected, failures = True, min(failures, 1)
                    if position.advance(event):
                        failures = failures if event.n is None else 0
                        yield event
        except RETRIABLE as error:
            if not is_connected and failures >= TRIES:
                raise
            loss = error
        log.info("The stream %s is resumed: %s", path, loss or "it has ended.")
        # Without failures the server ended the stream regularly: reconnect immediately.
        await http.pause(delay(loss, failures) if failures else 0.0)
        failures += 1


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    parser = SseParser()
    async for chunk in chunks:
        for event in parser.feed(chunk):
            yield read(Event, _json(event.data))


def _json(text: str) -> JSON:
    try:
        return cast("JSON", json.loads(text))
    except (ValueError, RecursionError):
        raise BadAnswer(f"The stream has an event that is not JSON: {brief(repr(text), 60)}.") from None


def _number(value: JSON) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else None
