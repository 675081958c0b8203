"""Processes with a run that kills each of them, beside runs that do no harm.

In each generation the harmless runs must complete before the harmful call ends the process: if they waited for the
suspect, the process would not die but fail.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.crash.dying import Witness, at_work, die
from tests.crash.forks import Order
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.catalog import Catalog
from toolwright.core.threads.message import Message
from toolwright.runtime.runtime import Runtime
from toolwright.testing import FunctionModel

FRESH = 3  # new runs in each generation


class Hurried(SystemClock):
    """A clock whose seconds pass so quickly that no delay of the scheduler is waited for."""

    def monotonic(self) -> float:
        return super().monotonic() * 1e6


class Generation:
    """The tools of one process, and what has happened in it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.others_are_done = asyncio.Event()
        self.is_beside = asyncio.Event()
        self.is_crashing = False

    def catalog(self) -> Catalog:
        @tw.tool(description="Ends the process.", idempotent=True)
        async def crash() -> str:
            self.is_crashing = True
            await self.others_are_done.wait()
            die()

        @tw.tool(description="Is in progress when its first process ends.", idempotent=True)
        async def stay(generation: int) -> str:
            if generation == self.number:
                self.is_beside.set()
                await asyncio.Event().wait()
            return "stayed"

        @tw.tool(description="Adds.")
        async def add(a: int, b: int) -> int:
            return a + b

        def answering(name: str, args: dict[str, Any]) -> tw.Agent:
            def answer(messages: Sequence[Message]) -> dict[str, Any]:
                if messages[-1].role != "user":
                    return {"text": "Done."}
                given = {"generation": int(messages[-1].content)} if name == "stay" else args
                return {"calls": [{"name": name, "args": given}]}

            prompt = tw.Prompt(name, "Work.", model=FunctionModel(answer), tools=[crash, stay, add])
            return tw.Agent(name, prompt)

        return Catalog(
            agents=[answering("crash", {}), answering("stay", {}), answering("add", {"a": 1, "b": 2})]
        )


async def run(order: Order) -> None:
    generation, noted = Generation(order["generation"]), Witness(Path(order["folder"]) / "runs")
    async with at_work(order, generation.catalog(), motor_clock=Hurried()) as rt, asyncio.timeout(60):
        if order.get("cancels"):
            [harmful] = [run_id for agent, run_id, _ in noted.lines() if agent == "crash"]
            await rt.runs.cancel(harmful)
            assert (await rt.runs.wait(harmful)).status == "cancelled"
            assert not generation.is_crashing
            return
        if generation.number == 1:
            noted.note("crash", await send(rt, "crash", "Go"))
        earlier = [run_id for agent, run_id, _ in noted.lines() if agent == "stay"]
        fresh = [await send(rt, "add", "Go") for _ in range(FRESH)]
        noted.note("stay", await send(rt, "stay", str(generation.number)))
        await generation.is_beside.wait()
        for run_id in [*earlier, *fresh]:
            ended = await rt.runs.wait(run_id)
            assert (ended.status, ended.output) == ("completed", "Done."), ended.error
        generation.others_are_done.set()
        [harmful] = [run_id for agent, run_id, _ in noted.lines() if agent == "crash"]
        await rt.runs.wait(harmful)


async def send(rt: Runtime, agent: str, content: str) -> str:
    """Send a message in a new thread. Return the id of its run."""
    return (await rt.threads.send((await rt.threads.create(agent)).id, content)).id
