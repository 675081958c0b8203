"""Code in the sandbox, called in a run: its outcome, its host functions, its end with the run."""

import asyncio

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.kit import call
from tests.runtime.rig import running
from toolwright.core.errors import InvalidRequest
from toolwright.core.state.memory import MemoryState
from toolwright.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("deno")]
DONE: dict[str, object] = {"text": "Done."}


@requirement("S0-1-5")
async def test_a_handler_runs_code_that_calls_a_tool_of_the_run() -> None:
    @tw.tool(description="Adds.", read_only=True)
    async def add(a: int, b: int) -> int:
        return a + b

    @tw.tool(description="Runs code.")
    async def work(state: tw.ThreadState) -> object:
        async def sum_of(a: int, b: int) -> object:
            return (await state.invoke_tool("add", {"a": a, "b": b})).result

        source = 'import sum from "sum"; export default async () => (await sum(1, 2)) * 2'
        outcome = await state.run_code(source, imports={"sum": sum_of})
        return {"status": outcome.status, "result": outcome.result}

    async with running(ScriptedModel([call("work"), DONE]), [add, work]) as rig:
        run = await rig.run()
        [answer] = [m for m in await rig.transcript(run.thread_id) if m.role == "tool"]
        assert answer.content == '{"status":"success","result":6}'
        made = await rig.rt.calls.list(run_id=run.id, status=["done"])
        assert [call.name for call in made] == ["work", "add"]


@requirement("S0-1-6")
async def test_code_ends_with_its_run() -> None:
    begun = asyncio.Event()

    @tw.tool(description="Runs code for ever.")
    async def work(state: tw.ThreadState) -> str:
        async def tell() -> None:
            begun.set()

        source = (
            'import tell from "tell"; await tell(); for (;;) await new Promise(done => setTimeout(done, 10))'
        )
        await state.run_code(source, {"imports": {"tell": tell}})
        return ""

    async with running(ScriptedModel([call("work")]), [work], abort_grace=0.1) as rig:
        run = await rig.send()
        await begun.wait()
        await rig.rt.runs.cancel(run.id)
        assert (await rig.rt.runs.wait(run.id, 20)).status == "cancelled"


@pytest.mark.parametrize("language", ["typescript", "python"])
async def test_a_host_function_that_exits_ends_neither_the_run_nor_the_server(language: str) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    @tw.tool(description="Runs code.")
    async def work(state: tw.ThreadState) -> str:
        source = (
            "await leave()"
            if language == "python"
            else 'import leave from "leave"; export default () => leave()'
        )
        outcome = await state.run_code(source, language=language, imports={"leave": leave})
        return f"{outcome.status}: {outcome.error}"

    async with running(ScriptedModel([call("work"), DONE]), [work]) as rig:
        run = await rig.run()
        assert run.status == "completed"
        [answer] = [m for m in await rig.transcript(run.thread_id) if m.role == "tool"]
        assert answer.content == "error: 3"


async def test_an_invalid_option_is_an_error_of_the_call() -> None:
    @tw.tool(description="Runs code.")
    async def work(state: tw.ThreadState) -> str:
        return str(await state.run_code("1", language="cobol"))

    async with running(ScriptedModel([call("work"), DONE]), [work]) as rig:
        run = await rig.run()
        [answer] = [m for m in await rig.transcript(run.thread_id) if m.role == "tool"]
        assert "cobol" in answer.content
    with pytest.raises(InvalidRequest, match="give it a sandbox"):
        MemoryState().run_code("1")
