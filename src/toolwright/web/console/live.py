"""Following what happens for a view: events in batches, behind a first reading, without a gap and over outages."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

from toolwright.core.errors import Reset, StoreError, Unauthorized
from toolwright.core.threads.event import Event, Topic
from toolwright.runtime.threads.events import Following
from toolwright.web.console.visit import Visit
from toolwright.web.streams.visible_to import Eyes

PAUSE = 0.05  # seconds in which events are gathered before they are drawn
MOST = 200  # events that may wait to be drawn: behind more, all is read anew, which is less than to draw them
AGAIN = 1.0  # seconds before the journal is asked again, when it cannot be read


async def follow(
    visit: Visit,
    topic: Topic,
    *,
    read: Callable[[], Awaitable[object]],
    draw: Callable[[Sequence[Event]], Awaitable[object]],
    lost: Callable[[bool], object] = lambda _: None,
) -> None:
    """Call `read` once what happens is followed, then `draw` with each batch of events; for ever.

    What the caller may not see is left out. After an outage, and where so much has happened that nobody would
    read it, `read` is called again. `lost` is told when the connection to the journal is, and when it is back.
    Once the session is over nothing more is drawn, whether the browser goes to the sign-in or not.
    """
    eyes = Eyes(visit.site.serving, visit.caller, topic)

    async def draw_to_session(events: Sequence[Event]) -> None:
        visit.caller  # noqa: B018 - `Unauthorized`
        await draw(events)

    while True:
        try:
            async with visit.runtime.events.following(topic, None) as following:
                await read()
                lost(False)
                await _draw_all(following, eyes, draw_to_session)
        except Reset:
            continue
        except Unauthorized:
            visit.sign_in()
            return
        except StoreError:
            lost(True)
            await asyncio.sleep(AGAIN)


async def look_again(
    read: Callable[[], Awaitable[object]], every: float, lost: Callable[[bool], object] = lambda _: None
) -> None:
    """Call `read` every so many seconds, for ever: for what no topic tells of. `lost` is told as `follow` does."""
    while True:
        await asyncio.sleep(every)
        try:
            await read()
        except StoreError:
            lost(True)
        else:
            lost(False)


async def _draw_all(
    following: Following, eyes: Eyes, draw: Callable[[Sequence[Event]], Awaitable[object]]
) -> None:
    """Until the reader raises, or too much waits: then what is waiting is given up."""
    waiting: list[Event] = []
    some = asyncio.Event()

    async def gather() -> None:
        async with aclosing(following.events) as events:
            async for event in events:
                if await eyes.see(event):
                    waiting.append(event)
                    some.set()

    reading = asyncio.create_task(gather(), name="toolwright-console-events")
    reading.add_done_callback(lambda _: some.set())
    try:
        while True:
            await some.wait()
            if reading.done():
                await reading
                return
            await asyncio.sleep(PAUSE)
            if len(waiting) > MOST:
                return
            batch, waiting[:] = [*waiting], []
            some.clear()
            await draw(batch)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
