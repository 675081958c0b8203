"""Processes whose run has deps, and that kill themselves at a commit."""

import asyncio
from pathlib import Path

from pydantic import BaseModel

import toolwright as tw
from tests.crash.dying import Witness, at_work
from tests.crash.forks import Order
from tests.kit import call
from toolwright.core.agents.catalog import Catalog
from toolwright.testing import ScriptedModel


class Customer(BaseModel):
    id: int


def catalog(witness: Witness) -> Catalog:
    @tw.tool(description="Reads.", read_only=True)
    async def read(state: tw.ThreadState[Customer]) -> int:
        witness.note(f"read {state.deps.id}")
        return state.deps.id

    child = tw.Agent(
        "child",
        instructions="Help.",
        model=ScriptedModel([call("read"), {"text": "Done."}]),
        tools=[read],
        deps=Customer,
        description="Helps.",
    )
    model = ScriptedModel([call("read"), call("child", message="Help."), {"text": "Done."}])
    tools = [read, child.as_tool(deps=True)]
    agent = tw.Agent("desk", instructions="Be brief.", model=model, tools=tools, deps=Customer)
    return Catalog(agents=[agent])


async def run(order: Order) -> None:
    witness = Witness(Path(order["folder"]) / "witness")
    async with at_work(order, catalog(witness)) as runtime, asyncio.timeout(20):
        if not await runtime.threads.list(agent="desk"):
            await runtime.threads.create("desk")
        [thread] = await runtime.threads.list(agent="desk")
        if not await runtime.runs.list(thread_id=thread.id):
            await runtime.threads.send(thread.id, "Go", deps=Customer(id=7))
        [run] = await runtime.runs.list(thread_id=thread.id)
        await runtime.runs.wait(run.id, 20)
    witness.note("stopped")
