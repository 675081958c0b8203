"""A cancelled run ends immediately, except for handlers that have declared a grace period."""

import asyncio
from collections.abc import Callable

import pytest

import toolwright as tw
from tests.runtime.rig import running
from toolwright.core.errors import DefinitionError
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio
NEVER = 1_000_000.0  # seconds of grace; no test runs that long
DONE: dict[str, object] = {"text": "Done."}


class Work:
    """Progress of the handlers below, and their control."""

    def __init__(self) -> None:
        self.begun, self.aborted, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.ended_by_itself = False

    async def end(self) -> str:
        await self.go_on.wait()
        self.ended_by_itself = True
        return "ended"


def plain(work: Work) -> tw.Tool:
    @tw.tool(description="Waits.", name="work")
    async def wait() -> str:
        work.begun.set()
        return await work.end()

    return wait


def reading(work: Work) -> tw.Tool:
    @tw.tool(description="Waits.", name="work")
    async def wait(state: tw.ThreadState) -> str:
        work.begun.set()
        await state.execution.abort_signal.wait()
        work.aborted.set()
        return await work.end()

    return wait


def declaring(work: Work) -> tw.Tool:
    return tw.tool(description="Waits.", name="work", grace=NEVER)(reading(work).handler)  # type: ignore[arg-type]  # the handler exists


def giving_none(work: Work) -> tw.Tool:
    @tw.tool(description="Waits.", name="work", grace=0)
    async def wait(state: tw.ThreadState) -> str:
        assert not state.execution.abort_signal.aborted
        work.begun.set()
        return await work.end()

    return wait


def within(work: Work) -> tw.Tool:
    """Return a handler that waits for another tool's call."""

    @tw.tool(description="Waits for another tool.", name="work")
    async def wait(state: tw.ThreadState) -> str:
        return str((await state.invoke_tool("inner", {})).result)

    return wait


def calling() -> ScriptedModel:
    calls: dict[str, object] = {"calls": [{"name": "work", "args": {}}]}
    return ScriptedModel([calls, DONE])


@pytest.mark.parametrize("make", [plain, giving_none, within])
async def test_an_ordinary_handler_is_cancelled_with_its_run_at_once(make: Callable[[Work], tw.Tool]) -> None:
    work = Work()
    inner = tw.tool(name="inner", description="Waits.")(plain(work).handler)  # type: ignore[arg-type]  # the handler exists
    async with running(calling(), [make(work), inner], abort_grace=NEVER) as rig, asyncio.timeout(60):
        run = await rig.rt.threads.send((await rig.rt.threads.create("tester")).id, "Go.")
        await work.begun.wait()
        await rig.rt.runs.cancel(run.id)
        assert (await rig.rt.runs.wait(run.id)).status == "cancelled"
    assert not work.ended_by_itself


@pytest.mark.parametrize(("make", "grace"), [(reading, NEVER), (declaring, 0.0)])
async def test_a_handler_that_reads_the_signal_or_declares_a_grace_ends_by_itself(
    make: Callable[[Work], tw.Tool], grace: float
) -> None:
    work = Work()
    async with running(calling(), [make(work)], abort_grace=grace) as rig, asyncio.timeout(60):
        run = await rig.rt.threads.send((await rig.rt.threads.create("tester")).id, "Go.")
        await work.begun.wait()
        await rig.rt.runs.cancel(run.id)
        await work.aborted.wait()
        work.go_on.set()
        assert (await rig.rt.runs.wait(run.id)).status == "cancelled"
    assert work.ended_by_itself


@pytest.mark.parametrize("grace", [-1, "5", True, float("nan"), float("inf")])
def test_a_grace_that_is_no_time_is_refused(grace: float) -> None:
    async def work() -> str:
        return ""

    with pytest.raises(DefinitionError, match="grace must be a number of seconds"):
        tw.tool(description="Works.", grace=grace)(work)
