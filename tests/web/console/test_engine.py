"""NiceGUI's application, started by the first console of a process and stopped by the last."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI

from toolwright.web.console.live import Engine

pytestmark = pytest.mark.anyio


async def test_requests_that_come_at_once_start_it_once_and_the_last_console_stops_it() -> None:
    told: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        told.append("started")
        await asyncio.sleep(0)
        yield
        told.append("stopped")

    made, first, second = Engine(lambda: FastAPI(lifespan=lifespan)), object(), object()
    applications = await asyncio.gather(*[made.start(first) for _ in range(5)], made.start(second))
    assert len(set(map(id, applications))) == 1
    await made.stop(first)
    assert told == ["started"]
    await made.stop(second)
    assert told == ["started", "stopped"]
    await made.start(first)
    await made.stop(first)
    assert told == ["started", "stopped"] * 2
