"""Event streams: live events as they happen, and recorded events without a gap from any position."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from types import NoneType
from typing import TypeAlias

from toolwright.core.agents.run_result import RunDone, RunEvent
from toolwright.core.env.logs import logger
from toolwright.core.errors import InvalidRequest, Reset
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON
from toolwright.core.limits import PageLimit, ended_early
from toolwright.core.ports import Bus, Follower, Motor
from toolwright.core.threads.event import GROWN, Event, Topic
from toolwright.runtime.carried import Carried
from toolwright.runtime.journal import by_id, by_kind, page
from toolwright.runtime.threads.results import RunResults
from toolwright.wire.run_events import RunEvents

PAGE = 500
MAX_WARNED = 1_000  # maximum number of runs whose missing agents have been logged
log = logger("toolwright.runtime")
LOOK_AGAIN = 5.0  # seconds without events after which the journal is read anyway
LOOK_ABROAD = 0.25  # the same while another process drives the journal


@dataclass(slots=True)
class Subscription:
    """A follower's subscription: the number after which it starts, and the signal that it is too slow."""

    pages: AsyncGenerator[Sequence[Event]]
    """The events, those together that are available together."""
    start: int | None  # None if the events have no numbers
    overrun: Callable[[], Awaitable[None]]
    """Returns once too many events wait for the follower. Everything that it missed is in the journal."""
    events: AsyncGenerator[Event] = field(init=False)
    """The events of `pages`, one by one."""

    def __post_init__(self) -> None:
        self.events = _each(self.pages)

    def __aiter__(self) -> AsyncGenerator[Event]:
        return self.events


async def _each(pages: AsyncGenerator[Sequence[Event]]) -> AsyncGenerator[Event]:
    async with aclosing(pages):
        async for page in pages:
            for event in page:
                yield event


Turn: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]
"""Returns a context in which one page of the journal is read."""


class Events(Carried):
    """Lists recorded events and follows new ones."""

    def __init__(self, store: Store, bus: Bus, motor: Motor) -> None:
        self._store = store
        self.bus = bus
        self._motor = motor

    async def list(self, topic: Topic, after: int = 0, limit: int = PAGE, offset: int = 0) -> Sequence[Event]:
        """Return recorded events with a number greater than `after`, in order, skipping the first `offset` of them."""
        page(limit, after)
        page(limit, offset)
        _check_topic(topic)
        return await self._store.events(topic, after, limit, offset)

    async def follow(self, topic: Topic, after: int | None = None) -> AsyncIterator[Event]:
        """Yield the events of a thread or a run without end: recorded events after the number `after`, then new events.

        0 yields all recorded events; None starts now. Live events are included. Raises `Reset` if `after` is a number
        that the journal never had or no longer has.
        """
        async with self.following(topic, after) as following:
            async for event in following.events:
                yield event

    @asynccontextmanager
    async def following(
        self, topic: Topic, after: int | None = None, turn: Turn = nullcontext
    ) -> AsyncGenerator[Subscription]:
        """Subscribe to the events of `follow`. After the block is entered, no event is missed.

        Each page of recorded events is read within a `turn`, so that many followers can take turns.
        """
        _check_topic(topic)
        by_kind("after", after, (int, NoneType), "the number of an event")
        with self.bus.subscribe(topic) as follower:
            start = await self._start(topic, after)
            yield Subscription(self._from(topic, follower, start, turn), start, follower.overrun)

    async def _from(
        self, topic: Topic, follower: Follower, last: int, turn: Turn
    ) -> AsyncGenerator[Sequence[Event]]:
        while True:
            async for events in self._recorded(topic, last, turn):
                last = _last_number(events, last)
                yield events
            async for events in self._live(topic, follower, last, turn):
                last = _last_number(events, last)
                yield events

    async def _start(self, topic: Topic, after: int | None) -> int:
        oldest, newest = await self._store.bounds(topic)
        if after is None:
            return newest
        if after < 0:
            raise InvalidRequest(f"An event's id must be a number from 0, not {after}.")
        if after and (after > newest or after < oldest - 1):
            raise Reset
        return after

    async def _recorded(self, topic: Topic, last: int, turn: Turn) -> AsyncIterator[Sequence[Event]]:
        while True:
            async with turn():
                events = await self._store.events(topic, last, PageLimit(PAGE))
            if events:
                yield events
                last = _last_number(events, last)
            if len(events) < PAGE and not ended_early(events):
                return

    async def _live(
        self, topic: Topic, follower: Follower, last: int, turn: Turn
    ) -> AsyncIterator[Sequence[Event]]:
        """Yield events of the bus, until there is a reason to read the journal: a gap, or a long silence.

        A space has only some of the numbers, so the bus itself detects gaps in its events.
        """
        while True:
            came = await follower.next(LOOK_AGAIN if self._motor.is_only_driver else LOOK_ABROAD)
            if not came or not (follower.took_all() or GROWN in came):
                return
            events: list[Event] = []
            for event in came:
                if event is GROWN:
                    if events:
                        yield events
                        events = []
                    async for recorded in self._recorded(topic, last, turn):
                        last = _last_number(recorded, last)
                        yield recorded
                elif event.n is None:
                    events.append(event)
                elif event.n == last + 1 or (topic.kind == "space" and event.n > last):
                    last = event.n
                    events.append(event)
                elif event.n > last:
                    if events:
                        yield events
                    return
            if events:
                yield events
            await asyncio.sleep(0)  # a topic with a constant flow of events must not starve other tasks


def _last_number(events: Sequence[Event], before: int) -> int:
    """Return the number of the last event that has one, or the one before."""
    return next((event.n for event in reversed(events) if event.n is not None), before)


def _check_topic(topic: Topic) -> None:
    by_kind("topic", topic, Topic, "a topic: a thread, a run or a space, by its id")
    by_id(topic.kind, topic.id)


class RunStreams:
    """Follows threads and runs."""

    def __init__(self, events: Events, results: RunResults, motor: Motor) -> None:
        self._events = events
        self._results = results
        self._motor = motor
        self._warned = set[str]()

    def warn_of_missing_agent(self, run_id: str, waiting: JSON) -> None:
        """Log once that a run which is followed here waits: the process that executes runs does not have its agent.

        `waiting` is that of the run. A process that executes runs logs its own tries.
        """
        if not isinstance(waiting, dict) or waiting.get("reason") != "agent" or self._motor.driving:
            return
        if run_id not in self._warned and len(self._warned) < MAX_WARNED:
            self._warned.add(run_id)
            log.warning("Run %s waits. %s", run_id, waiting.get("error"))

    async def thread(self, thread_id: str, after: int | None = None) -> AsyncGenerator[RunEvent]:
        """Yield the values of the thread's events after that number, without end; None starts now."""
        topic = Topic(kind="thread", id=thread_id)
        async with (
            self._events.following(topic, after) as following,
            aclosing(self._values(thread_id, following.events)) as values,
        ):
            async for each in values:
                yield each

    async def run(self, thread_id: str, run_id: str, *, is_finished: bool) -> AsyncGenerator[RunEvent]:
        """Yield the values of the run's events from its start to its end; of a finished run, the stored events."""
        topic = Topic(kind="run", id=run_id)
        async with self._events.following(topic, 0) as following:
            events = self._recorded(topic) if is_finished else following.events
            async with aclosing(self._values(thread_id, events)) as values:
                async for each in values:
                    if not isinstance(each, RunDone):
                        yield each
                    elif not is_finished:
                        yield each
                        return
        yield RunDone(await self._results.result(run_id))

    async def _recorded(self, topic: Topic) -> AsyncIterator[Event]:
        last = 0
        while page := await self._events.list(topic, last, PAGE):
            for event in page:
                yield event
            last = page[-1].n or last

    async def _values(self, thread_id: str, events: AsyncIterator[Event]) -> AsyncGenerator[RunEvent]:
        values = RunEvents(self._results)
        async for event in events:
            if event.run_id is not None:
                self.warn_of_missing_agent(event.run_id, event.payload.get("waiting"))
            async for each in values.values(thread_id, event.run_id, event.type, event.payload):
                yield each
