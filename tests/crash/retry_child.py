"""Processes that retry a failed run, and that kill themselves at a commit; the next one retries the failed run."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.crash.dying import Witness, at_work
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.core.threads.message import Message
from toolwright.runtime.runtime import Runtime
from toolwright.testing import FunctionModel

CALLS: dict[str, Any] = {"calls": [{"name": "effect", "args": {}}]}
REFUSED = {"fail": "refused", "message": "No credit."}


def catalog(folder: Path) -> Catalog:
    effects, refusals = Witness(folder / "effects"), Witness(folder / "refusals")

    @tw.tool(description="Has an effect.")
    async def effect(state: tw.ThreadState) -> str:
        effects.note(state.call_id or "")
        return "done"

    def answer(messages: Sequence[Message]) -> dict[str, Any]:
        if messages[-1].role == "user":
            return CALLS
        if not refusals.lines():
            refusals.note("refused")
            return REFUSED
        return {"text": "Paid."}

    prompt = tw.Prompt("payer", "Pay.", model=FunctionModel(answer), tools=[effect])
    return Catalog(agents=[tw.Agent("payer", prompt)])


async def run(order: Order) -> None:
    async with at_work(order, catalog(Path(order["folder"]))) as runtime, asyncio.timeout(20):
        await lead(runtime)


async def lead(rt: Runtime) -> None:
    runs = await rt.runs.list()
    if not runs:
        threads = await rt.threads.list()
        thread = threads[0] if threads else await rt.threads.create("payer")
        runs = [await rt.threads.send(thread.id, "Pay")]
    run = await rt.runs.wait(runs[0].id)
    if run.status == "failed":
        await rt.runs.retry(run.id)
        await rt.runs.wait(run.id)
