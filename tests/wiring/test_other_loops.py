"""A runtime that is used from another event loop, or before it is entered."""

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.kit import send_to
from toolwright import errors, testing
from toolwright.runtime.carried import Carried
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio

USER: ContextVar[str] = ContextVar("user", default="nobody")
WITHIN = 20.0  # seconds, after which an operation counts as hanging


@tw.tool
async def look() -> str:
    """Look."""
    return "seen"


@tw.tool
def ask(state: tw.ThreadState) -> str:
    """Use the state from an event loop of its own: the handler is called in a thread."""

    async def asking() -> str:
        messages = await state.get_messages()
        nested = await state.invoke_tool("look", {})
        return f"{len(messages)} message, {nested.result}"

    return asyncio.run(asking())


def app(*calls: str) -> tw.App:
    model = testing.ScriptedModel([*[{"calls": [{"name": each}]} for each in calls], {"text": "Done."}])
    return tw.App(agents=[tw.Agent("clerk", instructions="Help.", tools=[look, ask], model=model)])


def journal(kind: str, folder: Path) -> tw.Settings:
    return tw.Settings(database_url="memory://" if kind == "memory" else f"sqlite:///{folder / 'journal.db'}")


async def elsewhere(work: Callable[[], Awaitable[Any]]) -> Any:
    """Await the work in an event loop of another thread."""

    async def limited() -> Any:
        async with asyncio.timeout(WITHIN):
            return await work()

    return await asyncio.to_thread(lambda: asyncio.run(limited()))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_another_loop_can_use_the_runtime(kind: str, tmp_path: Path) -> None:
    async def converse() -> tuple[str | None, list[str]]:
        run = await send_to(rt, "clerk", "Look.")
        run = await rt.runs.wait(run.id)
        events = [type(each).__name__ async for each in rt.runs.stream(run.id)]
        return (await rt.runs.result(run.id)).output, events

    async with app("look").runtime(journal(kind, tmp_path)) as rt:
        output, events = await elsewhere(converse)
    assert output == "Done."
    assert events[-1] == "RunDone"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_function_tool_can_use_its_state_from_a_loop_of_its_own(kind: str, tmp_path: Path) -> None:
    async with app("ask").runtime(journal(kind, tmp_path)) as rt:
        run = await send_to(rt, "clerk", "Ask.")
        async with asyncio.timeout(WITHIN):
            await rt.runs.wait(run.id)
        results = [each.content for each in await rt.threads.messages(run.thread_id) if each.role == "tool"]
    assert results == ["2 message, seen"]


async def test_handlers_of_a_toolkit_can_be_called_from_another_loop(tmp_path: Path) -> None:
    async with app().runtime(journal("sqlite", tmp_path)) as rt:
        toolkit = await elsewhere(lambda: _opened(rt))
        answer = await elsewhere(lambda: toolkit.handlers["look"]({}))
    assert answer["content"][0]["text"] == "seen"


async def _opened(rt: Runtime) -> Any:
    return await rt.toolkit("clerk")


async def test_errors_and_cancellation_reach_the_other_loop(tmp_path: Path) -> None:
    is_cancelled = asyncio.Event()

    class Waiting(Carried):
        async def wait(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                is_cancelled.set()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting.wait(), 0.01)

    waiting = Waiting.__new__(Waiting)
    waiting.loop = asyncio.get_running_loop()  # type: ignore[misc]  # as `Runtime.start` does
    await elsewhere(give_up)
    async with asyncio.timeout(WITHIN):
        await is_cancelled.wait()
    async with app().runtime(journal("sqlite", tmp_path)) as rt:
        with pytest.raises(errors.NotFound, match="There is no run 'run_unknown'"):
            await elsewhere(lambda: rt.runs.get("run_unknown"))


async def test_a_generator_that_is_cancelled_in_the_other_loop_is_closed_after_its_own_end() -> None:
    waits, may_end, is_closed = threading.Event(), asyncio.Event(), asyncio.Event()

    class Streaming(Carried):
        async def items(self) -> AsyncGenerator[int]:
            try:
                waits.set()
                await asyncio.Event().wait()
                yield 1
            finally:
                await may_end.wait()
                is_closed.set()

    async def give_up() -> type[BaseException]:
        async def read() -> None:
            async for _ in streaming.items():
                pass

        reading = asyncio.create_task(read())
        await asyncio.to_thread(waits.wait, WITHIN)
        reading.cancel()
        for _ in range(100):  # the reader begins to close the generator, which has not ended yet
            await asyncio.sleep(0.001)
        streaming.loop.call_soon_threadsafe(may_end.set)  # type: ignore[union-attr]  # it is set below
        try:
            await reading
        except BaseException as error:
            return type(error)
        raise AssertionError("it was cancelled")

    streaming = Streaming()
    streaming.loop = asyncio.get_running_loop()  # type: ignore[misc]  # as `Runtime.start` does
    assert await elsewhere(give_up) is asyncio.CancelledError
    assert is_closed.is_set()


async def test_an_operation_has_the_context_variables_of_the_caller_in_the_other_loop() -> None:
    class Looking(Carried):
        async def look(self) -> tuple[str, asyncio.AbstractEventLoop]:
            return USER.get(), asyncio.get_running_loop()

    async def as_ada() -> tuple[str, asyncio.AbstractEventLoop]:
        USER.set("ada")
        return await looking.look()

    looking = Looking()
    looking.loop = asyncio.get_running_loop()  # type: ignore[misc]  # as `Runtime.start` does
    assert await elsewhere(as_ada) == ("ada", looking.loop)


def test_a_runtime_whose_loop_has_ended_says_so(tmp_path: Path) -> None:
    async def opened() -> Runtime:
        async with app().runtime(journal("sqlite", tmp_path)) as rt:
            return rt

    rt = asyncio.run(opened())
    with pytest.raises(errors.InvalidRequest, match="was opened in an event loop that does not run any more"):
        asyncio.run(rt.threads.create("clerk"))


async def test_every_operation_of_a_runtime_is_carried(tmp_path: Path) -> None:
    # `app_calls` and `offers` are used by the server alone, whose routes are in its own loop.
    async with app().runtime(journal("sqlite", tmp_path)) as rt:
        public = {name: each for name, each in vars(rt).items() if not name.startswith("_")}
        services = {name: each for name, each in public.items() if _operations(each)}
        not_carried = {name for name, each in services.items() if not isinstance(each, Carried)}
        assert not_carried == {"app_calls", "offers"}
        carried = [each for each in services.values() if isinstance(each, Carried)]
        assert all(each.loop is asyncio.get_running_loop() for each in [rt, *carried])


def _operations(service: object) -> list[str]:
    """Return the names of its public coroutine functions."""
    return [
        name
        for name, _ in inspect.getmembers(type(service), inspect.iscoroutinefunction)
        if not name.startswith("_") and type(service).__module__.startswith("toolwright.runtime")
    ]


def test_a_runtime_that_is_not_entered_says_so() -> None:
    for opening in (app().runtime(), testing.runtime(app())):
        rt: Any = opening
        with pytest.raises(
            AttributeError, match="must be entered with `async with` before 'threads' is read"
        ):
            _ = rt.threads


async def test_a_missing_await_is_named(tmp_path: Path) -> None:
    async with app().runtime(journal("sqlite", tmp_path)) as rt:
        coroutine: Any = rt.threads.create("clerk")
        for operation in (
            lambda: rt.threads.send(coroutine, "Hi."),
            lambda: rt.threads.create(coroutine),
            lambda: rt.runs.list(thread_id=coroutine),
            lambda: rt.threads.send("thr_1", coroutine),
        ):
            with pytest.raises(errors.ToolwrightError, match="a coroutine: an `await` is missing"):
                await operation()
        coroutine.close()
