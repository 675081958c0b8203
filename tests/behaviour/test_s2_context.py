"""S2 §7: the context that a function receives from its run."""

import asyncio

import pytest

import toolwright as tw
from tests import journals
from tests.behaviour.doors import Arguments, app_of, carried_out, error_of, turns
from tests.behaviour.marks import requirement
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@requirement("S2-7.1-1", "S2-7.2-1", "S2-7.2-2", "S2-7.2-3")
async def test_a_function_is_given_its_thread_and_its_place_in_the_run() -> None:
    seen: list[object] = []

    @tw.tool(description="Look.")
    async def look(state: tw.ThreadState, word: str) -> str:
        step, side = state.execution.step_count, state.execution.current_side
        seen.append((state.thread_id, state.user_id, step, side, state.execution.abort_signal.aborted, word))
        return "Looked."

    @tw.tool(description="Look from a thread.")
    def look_too(state: tw.ThreadState) -> str:
        seen.append((state.execution.step_count, state.execution.current_side))
        return "Looked."

    calls: list[tuple[str, Arguments]] = [("look", {"word": "a"}), ("look_too", {}), ("look", {"word": "b"})]
    async with carried_out([look, look_too], *calls, user_id="ada") as told:
        assert "state" not in str(told.requests[0].tools)
        thread = told.run.thread_id
        assert seen == [
            (thread, "ada", 1, "side_a", False, "a"),
            (2, "side_a"),
            (thread, "ada", 3, "side_a", False, "b"),
        ]
        assert [each.content for each in told.results] == ["Looked."] * 3


@requirement("S2-7.2-1")
async def test_execution_is_there_outside_a_run_too() -> None:
    @tw.tool(description="Look.")
    async def look(state: tw.ThreadState) -> list[object]:
        return [
            state.execution.step_count,
            state.execution.current_side,
            state.execution.abort_signal.aborted,
        ]

    assert (await tw.Toolset([look]).call("look", {})).result == [1, "side_a", False]


@requirement("S2-7.2-4")
async def test_the_signal_tells_of_a_cancel_and_the_function_ends_with_an_error_of_its_own() -> None:
    begun, before = asyncio.Event(), list[bool]()

    @tw.tool(description="Work.")
    async def work(state: tw.ThreadState) -> tw.ToolResult:
        before.append(state.execution.abort_signal.aborted)
        begun.set()
        await state.execution.abort_signal.wait()
        if state.execution.abort_signal.aborted:
            return tw.ToolResult.fail("Execution cancelled")
        return tw.ToolResult.ok("never")

    async with journals.runtime(app_of(ScriptedModel(turns(("work", {}))), [work])) as rt:
        thread = await rt.threads.create("tester")
        run = await rt.threads.send(thread.id, "Go")
        async with asyncio.timeout(10):
            await begun.wait()
        await rt.runs.cancel(run.id)
        assert (await rt.runs.wait(run.id, 10)).status == "cancelled"
        [result] = [m for m in await rt.threads.messages(thread.id) if m.role == "tool"]
        assert (before, error_of(result)) == ([False], {"error": "Execution cancelled"})
