"""Processes whose run makes calls within calls, of every kind, and that kill themselves at a commit or in a tool."""

import asyncio
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.crash.child import KillingStore, Witness, die
from tests.crash.forks import serve
from tests.databases import opened
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.store.locks import FileLock
from toolwright.adapters.store.postgres_lock import PostgresLock
from toolwright.adapters.system import SystemClock
from toolwright.core.catalog import Catalog
from toolwright.core.function import FunctionExecutor
from toolwright.core.json_value import JSON
from toolwright.core.ports import Lock
from toolwright.testing import MemoryBus, ScriptedModel
from toolwright.wiring.assembly import assemble
from toolwright.wiring.parts import Parts
from toolwright.wiring.settings import Settings


def made(name: str, **args: JSON) -> dict[str, JSON]:
    return {"name": name, "args": args}


SCRIPTS: dict[str, list[Any]] = {
    "main": [
        {"calls": [made("sums", message="Sum."), made("caller"), made("expert"), made("work", n=6)]},
        {"text": "Never."},
    ],
    "sums": [
        {"calls": [made("work", n=1), made("look", n=2)]},
        {"calls": [made("deep", message="x")]},
        {"text": "Sum."},
    ],
    "deep": [{"calls": [made("work", n=3)]}, {"text": "Deep."}],
    "expert": [{"calls": [made("look", n=7)]}, {"text": "All done."}],
    "one": [{"calls": [made("work", n=1)]}, {"text": "a1"}, {"text": "a2"}],
    "two": [{"calls": [made("look", n=2)]}, {"text": "b1"}, {"text": "b2"}],
}  # fmt: skip


def catalog(witness: Witness, kill: dict[str, Any]) -> Catalog:
    def noted(n: int) -> str:
        again = ["begin", str(n)] in [line[:2] for line in witness.lines()]
        witness.note("begin", str(n))
        if kill.get("tool") == n and not again:
            die()
        return f"worked {n}"

    @tw.tool(description="Works; nobody knows what a second time does.")
    async def work(n: int) -> str:
        return noted(n)

    @tw.tool(description="Looks.", read_only=True)
    async def look(n: int) -> str:
        return noted(n)

    @tw.tool(description="Calls.", idempotent=True)
    async def caller(state: tw.ThreadState) -> str:
        await state.invoke_tool("work", {"n": 4})
        await state.invoke_tool("look", {"n": 5})
        await state.invoke_tool("deep", {"message": "y"})
        state.queue_tool("look", {"n": 8})
        return "called"

    model = ScriptedModel(SCRIPTS)
    shown: dict[str, Any] = {"tool_description": "Sums.", "expose_as_tool": True, "model": model}
    prompts = [
        tw.Prompt("sums", tools=[work, look, "deep"], **shown),
        tw.Prompt("deep", tools=[work], **shown),
    ]
    main = tw.Prompt("main", model=model, tools=["sums", "deep", caller, "expert", work, look])
    expert = tw.Prompt("expert", model=model, tools=[look])
    other = tw.Agent("expert", expert, expose_as_tool=True, tool_description="Knows.")
    one, two = tw.Prompt("one", model=model, tools=[work]), tw.Prompt("two", model=model, tools=[look])
    both = tw.Agent("both", one, two, type="dual_ai", max_session_turns=2)
    return Catalog(agents=[tw.Agent("boss", main), other, both], prompts=prompts)


async def run(order: dict[str, Any]) -> None:
    folder, bus, clock = Path(order["folder"]), MemoryBus(), SystemClock()
    kill: dict[str, Any] = order.get("kill") or {}
    store = await opened(order.get("url", f"sqlite:///{folder}/journal.db"), bus)
    lock: Lock = PostgresLock(order["url"]) if "url" in order else FileLock(folder / "journal.db")
    killing: Any = KillingStore(store, kill)
    motor = EmbeddedMotor(killing, clock, lock)
    executors: Any = {"function": FunctionExecutor()}
    parts = Parts(store=killing, motor=motor, bus=bus, clock=clock, executors=executors)
    runtime = assemble(catalog(Witness(folder / "witness"), kill), parts, Settings())
    await runtime.start()
    async with asyncio.timeout(20):
        threads = await runtime.threads.list()
        thread = threads[0] if threads else await runtime.threads.create(order.get("agent", "boss"))
        runs = await runtime.runs.list()
        sent = runs[0] if runs else await runtime.threads.send(thread.id, "Go")
        await runtime.runs.wait(sent.id, 20)
    await runtime.stop(5.0)


if __name__ == "__main__":
    serve(run)
