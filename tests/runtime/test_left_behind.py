"""Foreign code that swallows its cancellation: the run, and the process, continue without it."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

import toolwright as tw
from tests.kit import calls
from tests.runtime.rig import assert_valid, running
from toolwright.core.errors import InvalidRequest
from toolwright.core.model import ModelEvent, ModelRequest, ModelResponse
from toolwright.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.idle_clock]
DONE: dict[str, object] = {"text": "Done."}


class Deaf:
    """Ignores cancellation until it is `freed`, and then tries one more change."""

    def __init__(self) -> None:
        self.at_work, self.freed, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.states: list[tw.ThreadState] = []
        self.refused: list[str] = []

    async def go_on(self) -> None:
        self.at_work.set()
        while not self.freed.is_set():
            try:
                await self.freed.wait()
            except BaseException:  # the mistake under test
                continue

    async def meddle(self, state: tw.ThreadState) -> None:
        """Try to change the thread after the call has ended."""
        try:
            state.set_value("late", 1)
        except InvalidRequest as error:
            self.refused.append(error.message)
        self.over.set()


def deaf_tool(deaf: Deaf, timeout: float | None) -> tw.Tool:
    @tw.tool(description="Does not listen.", name="deaf", timeout=timeout)
    async def work(state: tw.ThreadState) -> str:
        deaf.states.append(state)
        await state.write_file("/early", "x")
        await deaf.go_on()
        await deaf.meddle(state)
        raise RuntimeError("too late for anybody")

    return work


@tw.tool(description="Quick.")
async def quick() -> str:
    return "quick"


async def freed(deaf: Deaf, caplog: pytest.LogCaptureFixture) -> None:
    """Let it end: its changes are rejected, its exception is logged."""
    deaf.freed.set()
    await deaf.over.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert deaf.refused == ["This call has ended: it can no longer change its thread."]
    [late] = [each for each in caplog.records if "failed after it was cancelled" in each.getMessage()]
    assert "RuntimeError: too late for anybody" in late.getMessage()


async def test_a_timeout_is_the_calls_result_though_its_handler_never_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deaf = Deaf()
    model = ScriptedModel([calls("deaf", "quick"), DONE])
    async with running(model, [deaf_tool(deaf, 0.05), quick]) as rig, asyncio.timeout(20):
        run = await rig.run()
        assert (run.status, run.output) == ("completed", "Done.")
        said = await rig.transcript(run.thread_id)
        assert [message.content for message in said if message.role == "tool"] == [
            '{"error":"Tool timed out after 50ms","error_code":"timeout"}',
            "quick",
        ]
        assert [file.path for file in await rig.rt.files.list(run.thread_id)] == ["/early"]
        await freed(deaf, caplog)
        assert await rig.transcript(run.thread_id) == said
        assert_valid(said)
        again = await rig.rt.runs.wait((await rig.rt.threads.send(run.thread_id, "And now?")).id)
        assert again.status == "completed"


async def test_a_cancelled_run_is_over_though_its_handler_never_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deaf = Deaf()
    async with running(ScriptedModel([calls("deaf"), DONE]), [deaf_tool(deaf, None)]) as rig:
        async with asyncio.timeout(20):
            run = await rig.send()
            await deaf.at_work.wait()
            await rig.rt.runs.cancel(run.id)
            assert (await rig.rt.runs.wait(run.id)).status == "cancelled"
            [answer] = [each for each in await rig.transcript(run.thread_id) if each.role == "tool"]
            assert "Run cancelled while this call was running; its effect is unknown." in answer.content
            await freed(deaf, caplog)
            assert (await rig.rt.threads.get(run.thread_id)).run_id is None


async def test_a_call_within_a_call_that_never_ends_is_left_and_its_caller_goes_on() -> None:
    deaf = Deaf()

    @tw.tool(description="Calls another.", timeout=30.0)
    async def caller(state: tw.ThreadState) -> str:
        result = await state.invoke_tool("deaf")
        return f"It says: {result.error}"

    async with running(ScriptedModel([calls("caller"), DONE]), [caller, deaf_tool(deaf, 0.05)]) as rig:
        async with asyncio.timeout(20):
            run = await rig.run()
            [answer] = [each for each in await rig.transcript(run.thread_id) if each.role == "tool"]
            assert answer.content == "It says: Tool timed out after 50ms"
            deaf.freed.set()
            await deaf.over.wait()
            assert deaf.refused


class DeafModel:
    """Ignores its cancellation in its first answer."""

    name = "deaf"

    def __init__(self, deaf: Deaf) -> None:
        self.deaf = deaf

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if not self.deaf.at_work.is_set():
            await self.deaf.go_on()
        yield ModelResponse(text="Done.")


async def test_a_cancelled_run_is_over_though_its_model_never_ends() -> None:
    deaf = Deaf()
    async with running(DeafModel(deaf)) as rig, asyncio.timeout(20):
        run = await rig.send()
        await deaf.at_work.wait()
        await rig.rt.runs.cancel(run.id)
        assert (await rig.rt.runs.wait(run.id)).status == "cancelled"
        deaf.freed.set()
        again = await rig.rt.runs.wait((await rig.rt.threads.send(run.thread_id, "And now?")).id)
        assert (again.status, again.output) == ("completed", "Done.")


async def test_a_model_that_is_silent_and_never_ends_has_failed() -> None:
    deaf = Deaf()
    async with running(DeafModel(deaf), answer_limits=(0.05, 60.0)) as rig, asyncio.timeout(20):
        run = await rig.run()
        assert (run.status, run.error) == ("failed", "The model sent nothing for 0.05 s during its answer.")
        deaf.freed.set()


@pytest.mark.parametrize("grace", [0.0, 0.1])
async def test_a_runtime_stops_though_a_handler_never_ends(grace: float) -> None:
    deaf = Deaf()
    async with running(ScriptedModel([calls("deaf"), DONE]), [deaf_tool(deaf, None)]) as rig:
        async with asyncio.timeout(20):
            run = await rig.send()
            await deaf.at_work.wait()
            await rig.rt.stop(grace)
            left = await rig.store.run(run.id)
            assert left is not None
            # released: no other process considers this one dead
            assert (left.status, left.held) == ("running", False)
            deaf.freed.set()
            await deaf.over.wait()


async def test_a_handler_called_without_a_runtime_is_left_behind_too() -> None:
    deaf = Deaf()

    @tw.tool(description="Does not listen.", timeout=0.05)
    async def work() -> str:
        await deaf.go_on()
        return "late"

    async with asyncio.timeout(20):
        result = await tw.Toolset([work]).call("work", {})
    assert (result.error, result.error_code) == ("Tool timed out after 50ms", "timeout")
    deaf.freed.set()
