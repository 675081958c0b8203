"""NiceGUI at work: one application for all consoles of a process, from the first one's start to the last one's end."""

import asyncio
from contextlib import AsyncExitStack

from fastapi import FastAPI
from nicegui import ui
from starlette.types import ASGIApp

RECONNECT = 10.0  # seconds for which a page waits for its browser to come back


class Engine:
    """The application of NiceGUI, which has but one for a process."""

    def __init__(self) -> None:
        self._host: FastAPI | None = None
        self._users = 0
        self._stack = AsyncExitStack()
        self._starting = asyncio.Lock()

    async def start(self) -> ASGIApp:
        """The application, at work."""
        async with self._starting:
            if self._host is None:
                self._host = _host()
            if self._users == 0:
                await self._stack.enter_async_context(self._host.router.lifespan_context(self._host))
            self._users += 1
            return self._host

    async def stop(self) -> None:
        """One console needs it no longer."""
        async with self._starting:
            self._users -= 1
            if self._users == 0:
                await self._stack.aclose()


ENGINE = Engine()
"""The one of this process, as NiceGUI's own application is one."""


def _host() -> FastAPI:
    host = FastAPI(openapi_url=None)
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
