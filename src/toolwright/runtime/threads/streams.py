"""Streams of runs: the events of a thread or of one run as values."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from toolwright.core.agents.run_result import RunDone, RunEvent
from toolwright.core.threads.event import Event, Topic
from toolwright.runtime.threads.events import PAGE, Events
from toolwright.runtime.threads.results import RunResults
from toolwright.wire.run_events import RunEvents


class RunStreams:
    """Follows threads and runs."""

    def __init__(self, events: Events, results: RunResults) -> None:
        self._events = events
        self._results = results

    async def thread(self, thread_id: str, after: int | None = None) -> AsyncGenerator[RunEvent]:
        """The values of the thread's events behind the one of that number, forever; None begins now."""
        topic = Topic(kind="thread", id=thread_id)
        async with (
            self._events.following(topic, after) as following,
            aclosing(self._values(thread_id, following.events)) as values,
        ):
            async for each in values:
                yield each

    async def run(self, thread_id: str, run_id: str, *, over: bool) -> AsyncGenerator[RunEvent]:
        """The values of the run's events from its beginning to its end; of one that is over those that are kept."""
        topic = Topic(kind="run", id=run_id)
        async with self._events.following(topic, 0) as following:
            events = self._recorded(topic) if over else following.events
            async with aclosing(self._values(thread_id, events)) as values:
                async for each in values:
                    if not isinstance(each, RunDone):
                        yield each
                    elif not over:
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
            async for each in values.of(thread_id, event.run_id, event.type, event.payload):
                yield each
