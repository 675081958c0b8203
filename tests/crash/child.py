"""A process that runs an app on a journal and kills itself at a given point.

`python -m tests.crash.child` starts one for each line of JSON on its standard input (see `forks`).
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.crash.dying import FUNCTIONS, Witness, at_work, die
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.event import Topic
from toolwright.core.tools.pipeline import Executor, PreparedCall
from toolwright.core.tools.tool import Kind
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

CALLS = 4


class DyingModel:
    """A scripted model that dies in the middle of one answer, the first time that it sends that answer."""

    name = "dying"

    def __init__(self, witness: Witness, step: int | None) -> None:
        calls = [{"name": "work", "args": {"n": n}} for n in range(1, CALLS + 1)]
        self._inner = ScriptedModel(
            [{"text": "I shall work.", "calls": calls}, {"text": "All done, at last."}]
        )
        self._witness = witness
        self._step = step

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        first = ["model", str(request.step)] not in [line[:2] for line in self._witness.lines()]
        self._witness.note("model", str(request.step))
        async with aclosing(self._inner.respond(request)) as events:
            async for event in events:
                yield event
                if first and self._step == request.step:
                    die()


class PoisonedModel:
    """A model that makes two external calls, and fails whenever it reads the first of the late results."""

    name = "poisoned"

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if len(request.messages) == 1:
            asked = [ModelCall(id=f"c{n}", name="outside", arguments="{}") for n in (1, 2)]
            yield ModelResponse(calls=tuple(asked))
            return
        if any('"poison"' in message.content for message in request.messages):
            raise RuntimeError("a bug")
        yield ModelResponse(text="I see.")


outside = tw.Tool(name="outside", description="Ask outside.", kind="external", timeout=0.01)


def working_tool(witness: Witness, flavour: str, die_in: int | None) -> tw.Tool:
    """Return a tool that records its begin and end."""

    @tw.tool(
        description="Work.",
        read_only=flavour in ("read_only", "parallel"),
        idempotent=flavour == "idempotent",
    )
    async def work(state: tw.ThreadState, n: int) -> str:
        again = ["begin", state.call_id] in [line[:2] for line in witness.lines()]
        witness.note("begin", state.call_id)
        if n == die_in and not again:
            die()
        await asyncio.sleep(0)
        witness.note("end", state.call_id)
        return f"worked {n}"

    return work


class Remote:
    """A remote service that dies with this process: the executor of HTTP tools, with the same records."""

    def __init__(self, witness: Witness, die_in: int | None) -> None:
        self._work = working_tool(witness, "plain", die_in)

    async def __call__(self, prepared: PreparedCall, state: tw.ThreadState) -> tw.ToolResult:
        return tw.ToolResult.ok(await self._work(state, prepared.arguments["n"]))


def remote_tool(flavour: str) -> tw.Tool:
    """Return the same tool as configured in JSON, over HTTP."""
    return tw.Tool.from_config(
        {
            "name": "work",
            "description": "Work.",
            "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "executionType": "gateway",
            "execution": {"url": "https://api.test/work"},
            "readOnly": flavour == "http_read_only",
            "idempotent": flavour == "http_idempotent",
        }
    )


async def run(order: Order) -> None:
    """Execute the order: `start` a run, or `recover` the state of an earlier process."""
    witness = Witness(Path(order["folder"]) / "witness")
    kill: dict[str, Any] = order.get("kill") or {}
    flavour: str = order["flavour"]
    remote = flavour.startswith("http")
    tool = remote_tool(flavour) if remote else working_tool(witness, flavour, kill.get("tool"))
    poisoned = order["action"].startswith("poison")
    model = PoisonedModel() if poisoned else DyingModel(witness, kill.get("model"))
    parallel = CALLS if flavour == "parallel" else 1
    prompt = tw.Prompt(
        "worker", "Work.", model=model, tools=[outside if poisoned else tool], parallel=parallel
    )
    executors: dict[Kind, Executor] = {**FUNCTIONS, "gateway": Remote(witness, kill.get("tool"))}
    async with at_work(order, Catalog(agents=[tw.Agent("worker", prompt)]), executors) as runtime:
        match order["action"]:
            case "start":
                await start(runtime, witness)
            case "recover":
                await recover(runtime)
            case _:
                await poison(runtime)


async def start(runtime: Runtime, witness: Witness) -> None:
    thread = await runtime.threads.create("worker")
    sent = await runtime.threads.post(thread.id, "Go")
    witness.note("acknowledged", sent.run_id)
    await runtime.runs.wait(sent.run_id, 20)


async def recover(runtime: Runtime) -> None:
    for left in await runtime.runs.list():
        await runtime.runs.wait(left.id, 20)


async def poison(runtime: Runtime) -> None:
    """Submit a poisonous result and a good one, unless they are submitted already. Wait until the inbox is settled."""
    threads = await runtime.threads.list()
    thread = threads[0] if threads else await runtime.threads.create("worker")
    runs = await runtime.runs.list()
    first = runs[-1] if runs else await runtime.threads.send(thread.id, "Go")
    await runtime.runs.wait(first.id, 20)
    agent = await runtime.agents.get("worker")
    for call, result in zip(await runtime.calls.list(status=None), ("poison", "good"), strict=True):
        if call.status == "pending":
            await runtime.calls.submit(first.id, call.id, result)
    async with asyncio.timeout(20):
        async for _ in runtime.events.follow(Topic(kind="thread", id=thread.id), after=0):
            inbox = await runtime.inboxes.list(agent.id, thread.id)
            idle = (await runtime.threads.get(thread.id)).run_id is None
            if idle and all(event.status not in ("pending", "processing") for event in inbox):
                return  # its last change is in the commit of an event
