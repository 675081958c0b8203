"""Processes whose run makes nested calls of every kind, and that kill themselves at a commit or in a tool."""

import asyncio
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.crash.dying import Witness, at_work, die
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.core.json_value import JSON
from toolwright.testing import ScriptedModel


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


async def run(order: Order) -> None:
    witness = Witness(Path(order["folder"]) / "witness")
    app = catalog(witness, order.get("kill") or {})
    async with at_work(order, app) as runtime, asyncio.timeout(20):
        threads = await runtime.threads.list()
        thread = threads[0] if threads else await runtime.threads.create(order.get("agent", "boss"))
        runs = await runtime.runs.list()
        sent = runs[0] if runs else await runtime.threads.send(thread.id, "Go")
        await runtime.runs.wait(sent.id, 20)
