"""Processes whose run has tools with dependencies, and that kill themselves at a commit."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated

import toolwright as tw
from tests.crash.dying import Witness, at_work
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.testing import ScriptedModel

CALL: dict[str, object] = {"calls": [{"name": "read", "args": {}}, {"name": "read", "args": {}}]}


def catalog(witness: Witness) -> Catalog:
    async def pool() -> AsyncIterator[str]:
        witness.note("open")
        yield "pool"
        witness.note("close")

    def session(pool: Annotated[str, tw.Depends(pool)]) -> Iterator[str]:
        witness.note("begin")
        yield f"session of {pool}"
        witness.note("end")

    @tw.tool(description="Reads.", read_only=True)
    async def read(session: Annotated[str, tw.Depends(session, cached=False)]) -> str:
        witness.note("read")
        return session

    turns: list[object] = [CALL, CALL, {"text": "Done."}]
    model = ScriptedModel(turns)
    return Catalog(agents=[tw.Agent("desk", instructions="Be brief.", model=model, tools=[read])])


async def run(order: Order) -> None:
    witness = Witness(Path(order["folder"]) / "witness")
    async with at_work(order, catalog(witness)) as runtime, asyncio.timeout(20):
        if not await runtime.threads.list():
            await runtime.threads.create("desk")
        [thread] = await runtime.threads.list()
        if not await runtime.runs.list(thread_id=thread.id):
            await runtime.threads.send(thread.id, "Go")
        [run] = await runtime.runs.list(thread_id=thread.id)
        await runtime.runs.wait(run.id, 20)
    witness.note("stopped")
