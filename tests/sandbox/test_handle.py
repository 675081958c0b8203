"""Lifecycle of every run, with work that ignores its cancellation."""

import asyncio
import contextlib

import pytest

from tests.sandbox.rig import children, run, sandbox
from toolwright.adapters.sandbox.handle import CodeExecutions, Log
from toolwright.core.state.sandbox import CodeResult, Language

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_a_host_function_that_swallows_every_cancellation_is_left_behind(language: Language) -> None:
    freed = asyncio.Event()

    async def deaf() -> None:
        while not freed.is_set():
            with contextlib.suppress(BaseException):
                await freed.wait()

    source = 'import deaf from "deaf"; await deaf()' if language == "javascript" else "await deaf()"
    before = children()
    async with asyncio.timeout(20):
        async with sandbox() as box:
            outcome = await run(box, source, language=language, imports={"deaf": deaf}, timeout=0.5)
            assert outcome.error is not None
            assert outcome.error.code == "timeout"
            freed.set()
        while children() - before:  # noqa: ASYNC110 - there is no notification of the end of the abandoned work
            await asyncio.sleep(0)


@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_code_that_is_cancelled_ends_though_a_host_function_returns_all_the_same(
    language: Language,
) -> None:
    begun, called = asyncio.Event(), list[str]()

    async def stubborn() -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def after() -> None:
        called.append("after")

    named = 'import stubborn from "stubborn"; import after from "after"; '
    source = f"{named if language == 'javascript' else ''}await stubborn(); await after()"
    before = children()
    async with asyncio.timeout(20), sandbox() as box:
        imports = {"stubborn": stubborn, "after": after}
        waiting = asyncio.create_task(run(box, source, language=language, imports=imports))
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        while children() - before:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
    assert called == []


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

    handle = CodeExecutions().start(deaf, Log(1_000, str), 30.0)
    await begun.wait()
    handle.terminate("Enough.")
    async with asyncio.timeout(10):
        outcome = await handle
    assert (outcome.status, str(outcome.error)) == ("terminated", "Enough.")
    assert lost.is_set()
