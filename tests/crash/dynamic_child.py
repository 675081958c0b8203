"""Processes whose instructions and tools depend on the run, and that kill themselves at a commit."""

import asyncio
from pathlib import Path

import toolwright as tw
from tests.crash.dying import Witness, at_work
from tests.crash.forks import Order
from tests.kit import call
from toolwright.core.agents.catalog import Catalog
from toolwright.testing import ScriptedModel


def catalog(witness: Witness) -> Catalog:
    def asked(what: str) -> int:
        """Return how often any process has called a function, this time included."""
        witness.note("asked", what)
        return sum(line[:2] == ["asked", what] for line in witness.lines())

    async def instructions(state: tw.ThreadState) -> str:
        return f"Version {asked('instructions')}."

    async def once(state: tw.ThreadState) -> bool:
        return asked("available") == 1  # a process that asks again would offer other tools

    @tw.tool(description="Looks.", read_only=True, available=once)
    async def look() -> str:
        return "seen"

    model = ScriptedModel([call("look"), call("look"), {"text": "Done."}])
    return Catalog(agents=[tw.Agent("desk", instructions=instructions, model=model, tools=[look])])


async def run(order: Order) -> None:
    """Execute the run to its end, or die."""
    witness = Witness(Path(order["folder"]) / "witness")
    async with at_work(order, catalog(witness)) as runtime, asyncio.timeout(20):
        threads = await runtime.threads.list()
        thread = threads[0] if threads else await runtime.threads.create("desk")
        runs = await runtime.runs.list()
        run = runs[0] if runs else await runtime.threads.send(thread.id, "Go")
        await runtime.runs.wait(run.id, 20)
