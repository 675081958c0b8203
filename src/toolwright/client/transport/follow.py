"""Following events over HTTP: through lost connections, without a gap and without a repetition."""

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

from toolwright.client.transport.http import RETRIABLE, TRIES, Http, delay
from toolwright.client.transport.sse import SseParser
from toolwright.core.errors import BadAnswer, Reset, ToolwrightError
from toolwright.core.json_value import JSON
from toolwright.core.text import brief
from toolwright.wire.event import Event
from toolwright.wire.reading import read

log = logging.getLogger("toolwright.client")

CONNECTED = "connected"
RESET = "reset"


class Place:
    """The place of a follower: the number of the last recorded event that it has handed over."""

    def __init__(self, after: int | None) -> None:
        self._asked = after
        self._last: int | None = None
        self._head: int | None = None

    @property
    def query(self) -> dict[str, int | None]:
        """Query of the first connection."""
        return {"after": self._asked if self._last is None else None}

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every later connection."""
        return {} if self._last is None else {"last-event-id": str(self._last)}

    def takes(self, event: Event) -> bool:
        """Return whether the event is new; a live one always is.

        Raises `Reset` where the server cannot go on from here.
        """
        if event.type == CONNECTED:
            self._head = _number(event.payload.get("after"))
            self._last = self._head if self._last is None and self._asked is None else self._last
        if event.type == RESET and event.n is None:
            raise Reset(
                "The events behind the place to resume from are not all there any more: read anew what you need, "
                f"then follow after {self._head}.",
                self._head,
            )
        if event.n is None:
            return True
        if event.n <= max(self._last or 0, self._asked or 0):
            return False
        self._last = event.n
        return True


async def follow(http: Http, path: str, after: int | None) -> AsyncGenerator[Event]:
    """The events of a stream, forever: recorded ones each once and in order, live ones as they come."""
    async with aclosing(signals(http, path, after)) as events:
        async for event in events:
            if event.type != CONNECTED:
                yield event


async def signals(http: Http, path: str, after: int | None = None) -> AsyncGenerator[Event]:
    """The events, with `connected` whenever a connection stands: what happens from then on is not missed.

    The first connection is tried a few times; once it stood, every later loss is followed by another try.
    """
    place, begun, failed = Place(after), False, 1
    while True:
        loss: ToolwrightError | None = None
        try:
            async with http.stream(path, place.query, place.headers) as chunks:
                async for event in _events(chunks):
                    begun, failed = True, min(failed, 1)
                    if place.takes(event):
                        failed = failed if event.n is None else 0
                        yield event
        except RETRIABLE as error:
            if not begun and failed >= TRIES:
                raise
            loss = error
        log.info("The stream %s is taken up again: %s", path, loss or "it has ended.")
        await http.pause(delay(loss, failed) if failed else 0.0)
        failed += 1


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    parser = SseParser()
    async for chunk in chunks:
        for made in parser.feed(chunk):
            yield read(Event, _json(made.data))


def _json(text: str) -> JSON:
    try:
        return cast("JSON", json.loads(text))
    except (ValueError, RecursionError):
        raise BadAnswer(f"The stream has an event that is not JSON: {brief(repr(text), 60)}.") from None


def _number(value: JSON) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else None
