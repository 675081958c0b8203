"""Processes in which an agent delegates work in every way, and that kill themselves at a commit."""

import asyncio
from typing import Any

import toolwright as tw
from tests.crash.dying import at_work
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

LOOK: dict[str, Any] = {"calls": [{"name": "look", "args": {}}]}
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "boss": [
        {"when": "[Subagent", "text": "Thanks."},
        {"calls": [{"name": "subagent_create", "args": {"agent": "ada", "name": "Ada", "message": "One"}}]},
        {
            "calls": [
                {"name": "later", "args": {"message": "Do"}},
                {"name": "direct", "args": {"message": "Do"}},
            ]
        },
        {"calls": [{"name": "poke", "args": {}}]},
        {"text": "All done."},
    ],
    **{name: [LOOK, {"text": f"{name} is done."}] for name in ("prepare", "ada", "later", "direct")},
}


def catalog() -> Catalog:
    @tw.tool(description="Looks.", read_only=True)
    async def look() -> str:
        return "seen"

    @tw.tool(description="Speaks to the one that lives on.", idempotent=True)
    async def poke(state: tw.ThreadState) -> str:
        [ada] = [child for child in state.children if child.name == "Ada"]
        kin = await state.get_child_thread(ada.reference)
        assert kin is not None
        kin.queue_message("Two")
        return "poked"

    model = ScriptedModel(SCRIPTS)
    called: list[Any] = [
        {"name": "prepare", "immediate": True},
        {"name": "ada", "resumable": {"receives_messages": "side_a", "parentCommunication": "explicit"}},
        {"name": "later", "blocking": False},
        {"name": "direct"},
    ]
    agents = [
        tw.Agent(
            name, tw.Prompt(name, model=model, tools=[look]), expose_as_tool=True, tool_description="Works."
        )
        for name in ("prepare", "ada", "later", "direct")
    ]
    return Catalog(agents=[tw.Agent("boss", tw.Prompt("boss", model=model, tools=[poke, *called])), *agents])


async def run(order: Order) -> None:
    async with at_work(order, catalog()) as runtime, asyncio.timeout(20):
        await lead(runtime)


async def lead(runtime: Runtime) -> None:
    """Start, unless started already, and wait until no run is active."""
    if not await runtime.threads.list():
        await runtime.threads.create("boss", user_id="u")
    [boss] = [thread for thread in await runtime.threads.list() if thread.parent_id is None]
    if not await runtime.runs.list(thread_id=boss.id):
        await runtime.threads.send(boss.id, "Go")
    known: set[str] = set()
    while left := {run.id for run in await runtime.runs.list(limit=100)} - known:
        for run_id in left:
            await runtime.runs.wait(run_id, 20)
        known |= left
