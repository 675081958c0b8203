"""Lifecycle of every run, with work that ignores its cancellation."""

import asyncio
import contextlib

import pytest

from tests.sandbox.rig import children, reason, run, sandbox
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


async def test_code_that_floods_its_host_calls_ends_at_its_time_limit() -> None:
    async def f() -> str:
        return "x" * 1_000

    before = children()
    async with asyncio.timeout(20):
        async with sandbox() as box:
            source = 'import f from "f"; for (let n = 0; n < 100_000; n++) f(); for (;;);'
            outcomes = await asyncio.gather(
                *[run(box, source, imports={"f": f}, timeout=1) for _ in range(2)]
            )
        assert [reason(each) for each in outcomes] == [("terminated", "timeout")] * 2
        assert not children() - before


async def test_code_that_ends_with_open_calls_leaves_no_process() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    before = children()
    source = 'import never from "never"; for (let n = 0; n < 100_000; n++) never(); export default 1'
    async with asyncio.timeout(20):
        async with sandbox() as box:
            outcome = await run(box, source, imports={"never": never}, timeout=15)
            assert outcome.result == 1
            assert not children() - before


async def test_thousands_of_calls_at_once_are_all_answered() -> None:
    async def f(number: int) -> list[object]:
        return [number, "x" * 1_000]

    source = (
        'import f from "f"; const all = await Promise.all([...Array(5000).keys()].map((n) => f(n)));'
        "export default all.every(([n, text], i) => n === i && text.length === 1000)"
    )
    async with asyncio.timeout(60), sandbox() as box:
        assert (await run(box, source, imports={"f": f}, timeout=50)).result is True
