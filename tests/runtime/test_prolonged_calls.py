"""Progress of an MCP server prolongs its call, up to a maximum; that of other tools does not."""

import asyncio

import pytest

import toolwright as tw
from tests.runtime.rig import Rig, running
from tests.runtime.test_env import script
from toolwright.core.results import Outcome
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.pipeline import Executor, PreparedCall

pytestmark = [pytest.mark.anyio, pytest.mark.idle_clock]


def reporting(times: int, every: float) -> Executor:
    """Return an executor that reports progress so many times, and then ends."""

    async def carry_out(prepared: PreparedCall, state: ThreadState) -> Outcome:
        for n in range(times):
            await asyncio.sleep(every)
            state.progress(n)
        await asyncio.sleep(every)
        return tw.ToolResult.ok(f"{times} reports")

    return carry_out


@pytest.mark.parametrize(
    ("times", "every", "read"),
    [
        (5, 20.0, "5 reports"),
        (0, 20.0, "0 reports"),
        (0, 31.0, "Tool timed out after 30000ms"),
        (13, 20.0, "13 reports"),
        (100, 20.0, "Tool timed out after 30000ms"),  # ten times 30 s are over
        (100, 2.0, "100 reports"),
    ],
)
async def test_progress_prolongs_a_call_up_to_ten_times_its_timeout(
    times: int, every: float, read: str
) -> None:
    tool = tw.Tool(name="slow", description="Work.", kind="mcp", timeout=30.0)
    async with running(script("slow"), [tool], executors={"mcp": reporting(times, every)}) as rig:
        assert read in await result(rig)


async def test_progress_of_a_function_does_not_prolong_its_call() -> None:
    @tw.tool(description="Work.", timeout=30)
    async def slow(state: tw.ThreadState) -> str:
        for n in range(5):
            await asyncio.sleep(20)
            state.progress(n)
        return "done"

    async with running(script("slow"), [slow]) as rig:
        assert "Tool timed out after 30000ms" in await result(rig)


async def result(rig: Rig) -> str:
    """Run the agent and return the result of its call."""
    run = await rig.send()
    assert (await rig.rt.runs.wait(run.id, 5_000)).status == "completed"
    return (await rig.transcript(run.thread_id))[2].content
