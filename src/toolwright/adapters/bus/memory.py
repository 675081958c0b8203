"""In-process bus: every subscriber has a bounded queue, and publishers do not wait for slow subscribers."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from itertools import islice

from toolwright.core.concurrency import deadlines_of
from toolwright.core.json_value import JSON, dumps
from toolwright.core.threads.event import GROWN, Event, RunEvents, Topic
from toolwright.core.value import changed

BACKLOG = 2_000  # maximum number of queued events per subscriber
MAX_BYTES = 1024 * 1024  # maximum bytes of queued events per subscriber
ENVELOPE = 300  # approximate bytes of an event's frame without its payload
ESCAPED = 12  # maximum bytes of a character in JSON
RECORDED = 8 * 1024 + ENVELOPE  # maximum bytes of a recorded event: its unit bounds the payload


class QueueFollower:
    """One subscriber's queue. Only the newest live event of each stream is kept, with its deltas joined.

    A subscriber with too large a backlog has missed events, and its queue is discarded: the journal has them. Upper
    bounds of the events' sizes are added up; exact sizes are computed only if the sum would be too large, once for each
    event.
    """

    def __init__(self, types: Collection[str] | None = None) -> None:
        self.types = types
        self._waiting: deque[Event] = deque()
        self._live: dict[str, tuple[Event, int]] = {}  # each with the upper bound of its bytes
        self._came = asyncio.Event()
        self._overrun = asyncio.Event()
        self._bytes = 0  # upper bound of the queue's bytes
        # number and bytes of the events at the beginning of the queue that were measured
        self._weighed = (0, 0)
        self.missed = False

    def put(self, event: Event, size: int) -> None:
        """Queue an event without blocking. A subscriber that lags too far has `missed` events and reads the journal.

        `size` is an upper bound of the event's bytes.
        """
        if event.n is None:
            self._put_live(event, size)
        elif len(self._waiting) >= BACKLOG:
            self._let_go()
        else:
            self._flush_live()
            self._waiting.append(event)
            self._bytes += size
        if self._bytes > MAX_BYTES and self._weigh() > MAX_BYTES:
            self._let_go()
            self._overrun.set()
        self._came.set()

    def grown(self) -> None:
        """Mark, at this position in the queue, that the journal has events which the bus does not deliver."""
        self.missed = True
        if self.types is None:
            self._flush_live()
            if not self._waiting or self._waiting[-1] is not GROWN:
                self._waiting.append(GROWN)
        self._came.set()

    async def next(self, timeout: float | None = None) -> Sequence[Event]:
        """Return the events that have arrived. Returns no events after `timeout` seconds."""
        if timeout is None:
            await self._came.wait()
        elif not self._came.is_set():
            loop = asyncio.get_running_loop()
            deadlines = deadlines_of(loop)
            number = deadlines.add(loop.time() + timeout, self._came.set)
            try:
                await self._came.wait()
            finally:
                deadlines.remove(number)
        return self.pop_events()

    def pop_events(self) -> Sequence[Event]:
        """Return the events that have arrived, without waiting."""
        self._came.clear()
        self._flush_live()
        events = tuple(self._waiting)
        self._clear()
        return events

    async def overrun(self) -> None:
        """Wait until more than `MAX_BYTES` have been queued."""
        await self._overrun.wait()

    def took_all(self) -> bool:
        """Return whether nothing was lost since the last call of this method."""
        missed, self.missed = self.missed, False
        return not missed

    def _let_go(self) -> None:
        self._clear()
        self.missed = True

    def _clear(self) -> None:
        self._waiting.clear()
        self._live.clear()
        self._bytes, self._weighed = 0, (0, 0)

    def _put_live(self, event: Event, size: int) -> None:
        key = f"{event.type} {event.payload.get('streamId', '')}"
        before = self._live.pop(key, None)
        if before is not None:
            self._bytes -= before[1]
            event, more = _joined(before[0], event)
            size += min(more, before[1])
        self._live[key] = event, size
        self._bytes += size

    def _flush_live(self) -> None:
        if self._live:
            self._waiting.extend([event for event, _ in self._live.values()])
            self._live.clear()

    def _weigh(self) -> int:
        """Return the size of the queued events in bytes."""
        count, weight = self._weighed
        weight += sum([_size(event) for event in islice(self._waiting, count, None)])
        self._weighed = len(self._waiting), weight
        self._live = {key: (event, _size(event)) for key, (event, _) in self._live.items()}
        self._bytes = weight + sum([size for _, size in self._live.values()])
        return self._bytes


def _size(event: Event) -> int:
    return len(dumps(event.payload)) + ENVELOPE


def _joined(before: Event, event: Event) -> tuple[Event, int]:
    """Return the newer of two events of a stream with the deltas of both, and the maximum number of added bytes."""
    old, new = before.payload.get("delta"), event.payload.get("delta")
    if isinstance(old, str) and isinstance(new, str):
        return changed(event, payload={**event.payload, "delta": old + new}), len(old) * ESCAPED
    return event, 0


class MemoryBus:
    """The `Bus` port within one process and one event loop."""

    def __init__(self) -> None:
        self.on_shared: list[Callable[[str], None]] = []
        self._followers: dict[tuple[str, str], list[QueueFollower]] = {}
        self._last_number = 0
        # Number of subscribers per type; None is the number of those that want all types.
        self._types: Counter[str | None] = Counter()

    def publish(self, events: Sequence[Event]) -> None:
        types = self._types
        if not types or (
            isinstance(events, RunEvents) and None not in types and not events.has_any(types.keys())
        ):
            return  # for most steps there are only subscribers to the end of the run
        about: tuple[str | None, str | None, str | None] | None = None
        followers: list[QueueFollower] = []
        for event in events:
            if event.space_id is not None and event.n is not None:
                self._count(event.n)
            if about != (event.thread_id, event.run_id, event.space_id):  # shared by the events of one commit
                about = event.thread_id, event.run_id, event.space_id
                followers = self._followers_of(*about)
            size: int | None = RECORDED if event.n is not None else None
            for follower in followers:
                if follower.types is None or (event.n is not None and event.type in follower.types):
                    size = _size(event) if size is None else size
                    follower.put(event, size)

    def _followers_of(
        self, thread_id: str | None, run_id: str | None, space_id: str | None
    ) -> list[QueueFollower]:
        followers_by_topic = self._followers.get
        if space_id is not None:
            return [*followers_by_topic(("space", space_id), []), *followers_by_topic(("spaces", ""), [])]
        followers = followers_by_topic(("thread", thread_id or ""), [])
        return followers if run_id is None else [*followers, *followers_by_topic(("run", run_id), [])]

    def _count(self, n: int) -> None:
        """Track the number of a space event. Spaces share one numbering: a gap is an event of another process."""
        if n > self._last_number + 1:
            for (kind, _), followers in self._followers.items():
                if kind in ("space", "spaces"):
                    for follower in followers:
                        follower.missed = True
        self._last_number = n

    def grown(self, kind: str, id_: str) -> None:
        """Notify the subscribers of a topic that it has new events in the journal."""
        for follower in self._followers.get((kind, id_), ()):
            follower.grown()

    def announce(self, topic: Topic) -> None:
        """Do nothing, because there are no other processes."""

    def share(self, key: str, value: JSON) -> None:
        """Do nothing, because there are no other processes."""

    def shared(self, key: str) -> Sequence[JSON]:
        return ()

    def wanted_in(self, space_id: str) -> bool:
        """Return whether there are subscribers to the space or to all spaces."""
        return ("space", space_id) in self._followers or ("spaces", "") in self._followers

    def wanted(self, thread_id: str, run_id: str) -> bool:
        """Return whether there are subscribers to all events of the thread or run."""
        topics = ("thread", thread_id), ("run", run_id)
        return any(each.types is None for topic in topics for each in self._followers.get(topic, ()))

    @contextmanager
    def subscribe(self, topic: Topic, types: Collection[str] | None = None) -> Generator[QueueFollower]:
        key = (topic.kind, topic.id)
        follower = QueueFollower(types)
        self._followers.setdefault(key, []).append(follower)
        keys: Collection[str | None] = (None,) if types is None else frozenset(types)
        self._types.update(keys)
        try:
            yield follower
        finally:
            self._types.subtract(keys)
            self._types = +self._types  # types that are still wanted
            self._followers[key].remove(follower)
            if not self._followers[key]:
                del self._followers[key]
