"""Live pages, and the engine that draws them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing

from fastapi import FastAPI
from nicegui import ui
from starlette.types import ASGIApp

from toolwright.core.errors import Reset, StoreError, Unauthorized
from toolwright.core.threads.event import Event, Topic
from toolwright.runtime.threads.events import Subscription
from toolwright.web.console.visit import Visit
from toolwright.web.options import NO_TELEMETRY
from toolwright.web.streams import EventFilter

RECONNECT = 10.0  # seconds for which a page waits for its browser to reconnect
PAUSE = 0.05  # seconds for which events are collected before they are drawn
MAX_QUEUED = 200  # events queued for drawing; beyond that everything is re-read, which is less work
AGAIN = 1.0  # seconds before reading the journal is retried


class Engine:
    """An application created once with `make`, which runs as long as it has users."""

    def __init__(self, make: Callable[[], FastAPI]) -> None:
        self._make = make
        self._host: FastAPI | None = None
        self._users: set[object] = set()
        self._stack = AsyncExitStack()
        self._starting = asyncio.Lock()

    async def start(self, user: object) -> ASGIApp:
        """Start the application for a console if necessary, and return it."""
        async with self._starting:
            if self._host is None:
                self._host = self._make()
            if not self._users:
                await self._stack.enter_async_context(self._host.router.lifespan_context(self._host))
            self._users.add(user)
            return self._host

    async def stop(self, user: object) -> None:
        """Release the application for a console."""
        async with self._starting:
            self._users.discard(user)
            if not self._users:
                await self._stack.aclose()


def _host() -> FastAPI:
    host = FastAPI(openapi_url=None, telemetry=NO_TELEMETRY)
    ui.run_with(
        host,
        title="Toolwright",
        dark=None,
        language="en-US",
        tailwind=False,
        reconnect_timeout=RECONNECT,
        show_welcome_message=False,
        binding_refresh_interval=None,
    )
    return host


ENGINE = Engine(_host)
"""The engine of this process. There is only one, because NiceGUI has one application per process."""


async def follow(
    visit: Visit,
    topic: Topic,
    *,
    read: Callable[[], Awaitable[object]],
    draw: Callable[[Sequence[Event]], Awaitable[object]],
    lost: Callable[[bool], object] = lambda _: None,
) -> None:
    """Subscribe, then call `read` once and `draw` with each batch of events, until cancelled.

    Events that the caller may not see are left out. `read` is called again after an outage and after too many queued
    events. `lost` is called when the connection to the journal is lost and when it is restored. After the session has
    ended nothing more is drawn, even if the browser does not leave the page.
    """
    eyes = EventFilter(visit.site.serving, visit.caller, topic)

    async def draw_to_session(events: Sequence[Event]) -> None:
        visit.caller  # noqa: B018 - `Unauthorized`
        await draw(events)

    while True:
        try:
            async with visit.runtime.events.following(topic, None) as subscription:
                await read()
                lost(False)
                await _draw_all(subscription, eyes, draw_to_session)
        except Reset:  # more events than the subscription can queue: re-read everything
            continue
        except Unauthorized:
            visit.sign_in()
            return
        except StoreError:
            lost(True)
            await asyncio.sleep(AGAIN)


async def poll(
    read: Callable[[], Awaitable[object]], every: float, lost: Callable[[bool], object] = lambda _: None
) -> None:
    """Call `read` periodically, until cancelled, for changes without events. `lost` is called as by `follow`."""
    while True:
        await asyncio.sleep(every)
        try:
            await read()
        except StoreError:
            lost(True)
        else:
            lost(False)


async def _draw_all(
    subscription: Subscription, eyes: EventFilter, draw: Callable[[Sequence[Event]], Awaitable[object]]
) -> None:
    """Render batches until the reader raises, or the backlog is too large and discarded."""
    waiting: list[Event] = []
    some = asyncio.Event()

    async def gather() -> None:
        async with aclosing(subscription.events) as events:
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
            if len(waiting) > MAX_QUEUED:
                return
            batch, waiting[:] = [*waiting], []
            some.clear()
            await draw(batch)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
