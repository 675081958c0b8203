"""Processes whose run waits for approvals that they grant, and that kill themselves while it waits or at a commit."""

import asyncio
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.crash.dying import Witness, at_work, die
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Topic
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel


def pay(n: int) -> dict[str, JSON]:
    return {"name": "pay", "args": {"n": n}}


TURNS: list[Any] = [  # turns of a script
    {"calls": [pay(1), pay(2), {"name": "caller", "args": {}}, pay(4)]},
    {"text": "Done."},
]
COMMITS = 26
ANSWERS: dict[int, JSONObject] = {
    1: {"approved": True},
    2: {"approved": False, "reason": "no"},
    3: {"approved": True},
    4: {"approved": True, "args": {"n": 5}},
}


def catalog(witness: Witness) -> Catalog:
    @tw.tool(description="Pays; nobody knows what a second time does.", requires_approval=True)
    async def pay(n: int) -> str:
        witness.note("paid", str(n))
        return f"paid {n}"

    @tw.tool(description="Calls.", idempotent=True)
    async def caller(state: tw.ThreadState) -> str:
        made = await state.invoke_tool("pay", {"n": 3})
        return str(made.result or made.error)

    prompt = tw.Prompt("main", model=ScriptedModel(TURNS), tools=[pay, caller])
    return Catalog(agents=[tw.Agent("boss", prompt)])


async def run(order: Order) -> None:
    """Execute the run to its end, or die: when it `waits` for that payment, or when that payment was `approved`."""
    witness = Witness(Path(order["folder"]) / "witness")
    async with at_work(order, catalog(witness)) as runtime, asyncio.timeout(20):
        threads = await runtime.threads.list()
        thread = threads[0] if threads else await runtime.threads.create("boss")
        runs = await runtime.runs.list()
        run = runs[0] if runs else await runtime.threads.send(thread.id, "Go")
        async for _ in runtime.events.follow(Topic(kind="run", id=run.id), after=0):
            if (await runtime.runs.get(run.id)).over:
                break
            for call in await runtime.calls.list(run_id=run.id):
                await _decide(runtime, call, order)


async def _decide(runtime: Runtime, call: Call, order: Order) -> None:
    number = next(n for n in ANSWERS if f'"n":{n}' in call.arguments.replace(" ", ""))
    if order.get("waits") == number:
        if call.parent_id is not None or (await runtime.runs.get(call.run_id)).status == "waiting":
            die()
        return
    await runtime.calls.submit(call.run_id, call.id, ANSWERS[number])
    if order.get("approved") == number:
        die()
