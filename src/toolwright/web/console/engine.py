"""NiceGUI at work: one application for all consoles of a process, from the first one's start to the last one's end."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from fastapi import FastAPI
from nicegui import ui
from starlette.types import ASGIApp

from toolwright.web.options import NO_TELEMETRY

RECONNECT = 10.0  # seconds for which a page waits for its browser to come back


class Engine:
    """An application that is made once, by `make`, and is at work as long as somebody needs it."""

    def __init__(self, make: Callable[[], FastAPI]) -> None:
        self._make = make
        self._host: FastAPI | None = None
        self._users: set[object] = set()
        self._stack = AsyncExitStack()
        self._starting = asyncio.Lock()

    async def start(self, user: object) -> ASGIApp:
        """The application, at work for that console, however often it asks."""
        async with self._starting:
            if self._host is None:
                self._host = self._make()
            if not self._users:
                await self._stack.enter_async_context(self._host.router.lifespan_context(self._host))
            self._users.add(user)
            return self._host

    async def stop(self, user: object) -> None:
        """That console needs it no longer."""
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
"""The one of this process, as NiceGUI's own application is one."""
