"""Processes that execute a custom loop with an agent's toolkit, and that kill themselves at a commit.

A process that starts again reads the recorded calls, and makes the missing ones.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import toolwright as tw
from tests.crash.dying import Witness, at_work
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.message import Message
from toolwright.runtime.runtime import Runtime

CALLS: tuple[tuple[str, JSONObject], ...] = (
    ("send_message", {"channelId": "general", "text": "Hello"}),
    ("effect", {}),
    ("store_memory", {"content": "Tea at four"}),
    ("look", {}),
    ("do_nothing", {}),
)


def catalog(folder: Path) -> Catalog:
    effects, looks = Witness(folder / "effects"), Witness(folder / "looks")

    @tw.tool(description="Has an effect.")
    async def effect(state: tw.ThreadState) -> str:
        effects.note(state.call_id or "")
        return "done"

    @tw.tool(description="Has none.", read_only=True)
    async def look(state: tw.ThreadState) -> str:
        looks.note(state.call_id or "")
        return "seen"

    prompt = tw.Prompt("michael", "Be.", tools=[effect, look])
    return Catalog(agents=[tw.Agent("michael", prompt, toolkits=["channels", "memory"])])


async def run(order: Order) -> None:
    async with at_work(order, catalog(Path(order["folder"]))) as runtime, asyncio.timeout(20):
        await lead(runtime)


async def lead(rt: Runtime) -> None:
    if not await rt.spaces.list():
        await rt.spaces.create("General", "public", id="general", members=["michael"])
    runs = await rt.runs.list()
    run_id = (await rt.runs.wait(runs[0].id)).id if runs else None
    messages: Sequence[Message] = () if run_id is None else await rt.runs.messages(run_id)
    recorded = {call.name for message in messages for call in message.calls}
    toolkit = rt.toolkit("michael", run_id)
    for name, given in CALLS:
        if name not in recorded:
            await toolkit.handlers[name](given)
    assert toolkit.run_id is not None
    await rt.runs.wait(toolkit.run_id)
