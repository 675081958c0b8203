"""Garbage collection: what a journal in memory costs it, and that nothing of a closed runtime is left."""

import gc
from weakref import ref

import pytest

import toolwright as tw
from tests.kit import DONE, call
from toolwright.testing import ScriptedModel, runtime

pytestmark = pytest.mark.anyio

STEPS = 40
MAX_TRACKED = 4  # objects a step that the garbage collector visits for as long as the journal exists


@tw.tool
async def look(state: tw.ThreadState, city: str) -> str:
    """Look at the weather."""
    return f"sunny in {city}"


async def run(rt: tw.Runtime, agent: str) -> None:
    """Execute one run to its end."""
    thread = await rt.threads.create(agent)
    done = await rt.runs.wait((await rt.threads.send(thread.id, "Go.")).id, 20)
    assert done.status == "completed"


async def test_the_collector_visits_little_of_a_journal_in_memory() -> None:
    model = ScriptedModel([*[call("look", city="Oslo")] * STEPS, DONE])
    async with runtime(tw.App(agents=[tw.Agent("agent", model=model, tools=[look])])) as rt:
        await run(rt, "agent")
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(3):
            await run(rt, "agent")
        gc.collect()
        assert (len(gc.get_objects()) - before) / (3 * STEPS) <= MAX_TRACKED


async def test_a_closed_runtime_its_app_and_what_its_tools_refer_to_are_freed() -> None:
    class Connection:
        """Something that a tool holds."""

    async def use() -> list[ref[object]]:
        connection = Connection()

        @tw.tool
        async def query(state: tw.ThreadState) -> str:
            """Query."""
            state.emit("asked", {"by": repr(connection)})
            return str((await state.invoke_tool("look", {"city": "Oslo"})).result)

        poet = tw.Prompt("poet", model=ScriptedModel([DONE]), expose_as_tool=True, tool_description="Writes.")
        model = ScriptedModel([call("query"), call("poet", message="Rain."), DONE])
        agent = tw.Agent("agent", model=model, tools=[query, look, "poet"])
        app = tw.App(agents=[agent], prompts=[poet])
        async with runtime(app) as rt:
            await run(rt, "agent")
        return [ref(each) for each in (connection, model, app, rt)]

    refs = await use()
    gc.collect()
    assert [each() for each in refs] == [None] * 4
