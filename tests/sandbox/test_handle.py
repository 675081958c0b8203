"""The way of every run, with work that does not do as it is told."""

import asyncio

import pytest

from toolwright.adapters.sandbox.handle import Runs
from toolwright.adapters.sandbox.log import Log
from toolwright.core.sandbox import CodeResult

pytestmark = pytest.mark.anyio


async def test_work_that_loses_a_cancellation_is_cancelled_again() -> None:
    lost, begun = asyncio.Event(), asyncio.Event()

    async def deaf(_: Log) -> CodeResult:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    handle = Runs().start(deaf, Log(1_000, str), 30.0)
    await begun.wait()
    handle.terminate("Enough.")
    async with asyncio.timeout(10):
        outcome = await handle
    assert (outcome.status, str(outcome.error)) == ("terminated", "Enough.")
    assert lost.is_set()
