"""The bus of one process: every follower has a bounded queue, and nobody waits for a slow one."""

import asyncio
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from toolwright.core.event import Event, Topic
from toolwright.core.json_value import dumps

BACKLOG = 2_000  # events that may wait for one follower
MOST_BYTES = 1024 * 1024  # of events that may wait for one follower
ENVELOPE = 300  # bytes of an event's frame beside its payload, about
RECORDED = 8 * 1024 + ENVELOPE  # bytes of a recorded event at the most: its unit bounds the payload


class QueueFollower:
    """One follower's queue. Of live events only the newest of each stream waits, with its deltas joined.

    A follower for which too much waits has missed it, and what waited is let go: the journal has it.
    """

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque()
        self._live: dict[str, Event] = {}
        self._came = asyncio.Event()
        self._overrun = asyncio.Event()
        self._bytes = 0
        self.missed = False

    def put(self, event: Event, size: int) -> None:
        """Never blocks: a follower that lags too far has `missed` events and reads them from the journal.

        `size` is what the event may take in bytes; only where that would be too much it is looked at closely.
        """
        self._bytes += size
        if self._bytes > MOST_BYTES:
            self._bytes = sum([_size(each) for each in (*self._waiting, *self._live.values(), event)])
        if self._bytes > MOST_BYTES:
            self._let_go()
            self._overrun.set()
        elif event.n is None:
            self._put_live(event)
        elif len(self._waiting) >= BACKLOG:
            self._let_go()
        else:
            self._flush_live()
            self._waiting.append(event)
        self._came.set()

    async def next(self, timeout: float | None = None) -> Sequence[Event]:
        """What has come, or nothing after `timeout` seconds."""
        if not self._came.is_set():
            try:
                async with asyncio.timeout(timeout):
                    await self._came.wait()
            except TimeoutError:
                return ()
        self._came.clear()
        self._flush_live()
        taken = tuple(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return taken

    async def overrun(self) -> None:
        """Return once more than `MOST_BYTES` have waited."""
        await self._overrun.wait()

    def took_all(self) -> bool:
        """Whether nothing was lost since the last time this was asked."""
        missed, self.missed = self.missed, False
        return not missed

    def _let_go(self) -> None:
        self._waiting.clear()
        self._live.clear()
        self._bytes = 0
        self.missed = True

    def _put_live(self, event: Event) -> None:
        stream = str(event.payload.get("streamId", ""))
        key = f"{event.type} {stream}"
        before = self._live.pop(key, None)
        self._live[key] = event if before is None else _joined(before, event)

    def _flush_live(self) -> None:
        if self._live:
            self._waiting.extend(self._live.values())
            self._live.clear()


def _size(event: Event) -> int:
    return len(dumps(event.payload)) + ENVELOPE


def _joined(before: Event, event: Event) -> Event:
    old, new = before.payload.get("delta"), event.payload.get("delta")
    if isinstance(old, str) and isinstance(new, str):
        return replace(event, payload={**event.payload, "delta": old + new})
    return event


class MemoryBus:
    """The `Bus` port within one process and one event loop."""

    def __init__(self) -> None:
        self._followers: dict[tuple[str, str], list[QueueFollower]] = {}
        self._told = 0

    def publish(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.space_id is not None and event.n is not None:
                self._count(event.n)
            followers = self._of(event) if self._followers else []
            if followers:
                size = _size(event) if event.n is None else RECORDED
                for follower in followers:
                    follower.put(event, size)

    def _of(self, event: Event) -> list[QueueFollower]:
        found = self._followers.get
        if event.space_id is not None:
            return [*found(("space", event.space_id), []), *found(("spaces", ""), [])]
        followers = found(("thread", event.thread_id or ""), [])
        return followers if event.run_id is None else [*followers, *found(("run", event.run_id), [])]

    def _count(self, n: int) -> None:
        """Events of all spaces are numbered together: a number left out is another process's event, in any of them."""
        if self._told and n > self._told + 1:
            for (kind, _), followers in self._followers.items():
                if kind in ("space", "spaces"):
                    for follower in followers:
                        follower.missed = True
        self._told = n

    def wanted(self, thread_id: str, run_id: str) -> bool:
        """Whether anybody follows that thread or run."""
        return ("thread", thread_id) in self._followers or ("run", run_id) in self._followers

    @contextmanager
    def subscribe(self, topic: Topic) -> Generator[QueueFollower]:
        key = (topic.kind, topic.id)
        follower = QueueFollower()
        self._followers.setdefault(key, []).append(follower)
        try:
            yield follower
        finally:
            self._followers[key].remove(follower)
            if not self._followers[key]:
                del self._followers[key]
