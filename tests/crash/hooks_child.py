"""Processes whose run has hooks at each point, with every verdict, and that kill themselves at a commit."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.crash.dying import Witness, at_work
from tests.crash.forks import Order
from tests.kit import call, calls, until
from toolwright.core.agents.catalog import Catalog
from toolwright.core.model import ModelRequest
from toolwright.core.threads.event import Topic
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

ADDRESS = "ann@x.org"
TURNS: list[Any] = [  # turns of a script
    {"text": "damn"},
    calls(call("pay", n=1), call("pay", n=2), call("pay", n=3), call("caller"), call("ask")),
    calls(call("look", n=1), call("look", n=2), call("look", n=3)),
    {"text": "Done."},
    {"when": "[Tool Result: ask]", "text": "Noted."},
]


class Every(tw.Hooks):
    """Gives every verdict. Those that are recorded say how often the hook was asked for them."""

    name = "every"

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    def _asked(self, point: str, key: object) -> int:
        """Return how often any process has asked, this time included."""
        self._witness.note("asked", point, str(key))
        return sum(line[:3] == ["asked", point, str(key)] for line in self._witness.lines())

    def before_run(self, event: tw.BeforeRun, /) -> None:
        self._asked("before_run", event.message.id)

    async def before_model(self, event: tw.BeforeModel, /) -> ModelRequest:
        messages = [
            dataclasses.replace(each, content=each.content.replace(ADDRESS, "[hidden]"))
            for each in event.request.messages
        ]
        return dataclasses.replace(event.request, messages=tuple(messages))

    def after_model(self, event: tw.AfterModel, /) -> tw.ModelRetry | None:
        if event.answer.text == "damn":
            return tw.ModelRetry(f"Asked {self._asked('after_model', event.step)} times.")
        return None

    async def before_call(self, event: tw.BeforeCall, /) -> tw.Deny | tw.Replace | tw.Ask | None:
        count = self._asked("before_call", event.call.id)
        match event.call.name, event.arguments.get("n"):
            case ("pay", 1) | ("look", 2):
                return tw.Deny(f"Asked {count} times.")
            case "pay", 2:
                return tw.Replace({"n": 20 + count})
            case "pay", 4:
                return tw.Replace({"n": 40 + count})
            case "pay", 3:
                return tw.Ask(tw.Approval(by="service"), f"Asked {count} times.")
            case _:
                return None

    def after_call(self, event: tw.AfterCall, /) -> tw.ToolResult:
        return tw.ToolResult.ok(f"{event.result.result}, {self._asked('after_call', event.call.id)}")


def catalog(witness: Witness) -> Catalog:
    @tw.tool(description="Pays; nobody knows what a second time does.")
    async def pay(n: int) -> str:
        witness.note("paid", str(n))
        return f"paid {n}"

    @tw.tool(description="Looks.", read_only=True)
    async def look(n: int) -> str:
        return f"saw {n}"

    @tw.tool(description="Calls.", idempotent=True)
    async def caller(state: tw.ThreadState) -> str:
        made = await state.invoke_tool("pay", {"n": 4})
        return str(made.result or made.error)

    ask = tw.Tool(name="ask", description="Asks a person.", kind="external", is_async=True)
    tools = [pay, look, caller, ask]
    prompt = tw.Prompt("main", model=ScriptedModel(TURNS), tools=tools, parallel=3)
    return Catalog(agents=[tw.Agent("boss", prompt, hooks=[Every(witness)])])


async def run(order: Order) -> None:
    """Execute the run to its end, and the run that reads a result which arrives later, or die.

    Approve the payment that the hook asks about.
    """
    witness = Witness(Path(order["folder"]) / "witness")
    async with at_work(order, catalog(witness)) as runtime, asyncio.timeout(20):
        threads = await runtime.threads.list()
        thread = threads[0] if threads else await runtime.threads.create("boss")
        runs = await runtime.runs.list()
        run = (
            runs[-1] if runs else await runtime.threads.send(thread.id, f"I am {ADDRESS}.")
        )  # the newest is first
        async for _ in runtime.events.follow(Topic(kind="run", id=run.id), after=0):
            if (await runtime.runs.get(run.id)).over:
                break
            for each in await runtime.calls.list(run_id=run.id, status=["waiting"]):
                await runtime.calls.submit(each.run_id, each.id, {"approved": True})
        for each in await runtime.calls.list(status=["pending"]):
            await runtime.calls.submit(each.run_id, each.id, "late")
        await until(lambda: _both_completed(runtime))


async def _both_completed(runtime: Runtime) -> bool:
    return [each.status for each in await runtime.runs.list()] == ["completed", "completed"]
