"""A process that runs an app on a journal and kills itself where it is told to.

`python -m tests.crash.child` starts one for each line of JSON on its standard input (see `forks`).
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, NoReturn

import toolwright as tw
from tests.crash.forks import serve
from tests.databases import opened
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.store.locks import FileLock
from toolwright.adapters.store.postgres_lock import PostgresLock
from toolwright.adapters.system import SystemClock
from toolwright.core.catalog import Catalog
from toolwright.core.event import Topic
from toolwright.core.function import FunctionExecutor
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.pipeline import Executor
from toolwright.core.ports import Lock, Store
from toolwright.core.prepared import PreparedCall
from toolwright.core.tool import Kind
from toolwright.core.units import Committed, Conflict, Prune, Unit
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus, ScriptedModel
from toolwright.wiring.assembly import assemble
from toolwright.wiring.parts import Parts
from toolwright.wiring.settings import Settings

CALLS = 3


def die() -> NoReturn:
    """As a power cut does: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


class Witness:
    """What happened outside the database, synced before anything goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, *words: str) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, f"{' '.join(words)} {os.getpid()}\n".encode())
        os.fsync(file)
        os.close(file)

    def lines(self) -> list[list[str]]:
        if not self._path.exists():
            return []
        return [line.split() for line in self._path.read_text().splitlines()]


class KillingStore:
    """Kills its process before or after the n-th unit."""

    def __init__(self, inner: Store, kill: dict[str, Any]) -> None:
        self._inner = inner
        self._kill = kill
        self._count = 0

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if isinstance(unit, Prune):
            return await self._inner.commit(unit)
        self._count += 1
        if self._kill.get("unit") == self._count and self._kill["when"] == "before":
            die()
        answer = await self._inner.commit(unit)
        if self._kill.get("unit") == self._count and self._kill["when"] == "after":
            die()
        return answer

    def __getattr__(self, name: str) -> Any:  # the port's reads, as they are
        return getattr(self._inner, name)


class DyingModel:
    """A scripted model that dies in the middle of one answer, the first time that it gives it."""

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
    """Asks outside twice, and fails whenever it reads the first of the results that come late."""

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
    """A tool that notes when it begins and ends."""

    @tw.tool(description="Work.", read_only=flavour == "read_only", idempotent=flavour == "idempotent")
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
    """A service far away that dies with us: the executor of HTTP tools, with the same notes."""

    def __init__(self, witness: Witness, die_in: int | None) -> None:
        self._work = working_tool(witness, "plain", die_in)

    async def __call__(self, prepared: PreparedCall, state: tw.ThreadState) -> tw.ToolResult:
        return tw.ToolResult.ok(await self._work(state, prepared.arguments["n"]))


def remote_tool(flavour: str) -> tw.Tool:
    """The same tool as JSON configures it, over HTTP."""
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


async def run(order: dict[str, Any]) -> None:
    """Carry the order out: `start` a run, or `recover` what an earlier process left."""
    folder = Path(order["folder"])
    witness = Witness(folder / "witness")
    kill: dict[str, Any] = order.get("kill") or {}
    bus, clock = MemoryBus(), SystemClock()
    lock: Lock = PostgresLock(order["url"]) if "url" in order else FileLock(folder / "journal.db")
    store = await opened(order.get("url", f"sqlite:///{folder}/journal.db"), bus)
    killing = KillingStore(store, kill)
    motor = EmbeddedMotor(killing, clock, lock)  # type: ignore[arg-type]  # reads pass
    flavour: str = order["flavour"]
    remote = flavour.startswith("http")
    tool = remote_tool(flavour) if remote else working_tool(witness, flavour, kill.get("tool"))
    poisoned = order["action"].startswith("poison")
    model = PoisonedModel() if poisoned else DyingModel(witness, kill.get("model"))
    prompt = tw.Prompt("worker", "Work.", model=model, tools=[outside if poisoned else tool])
    catalog = Catalog(agents=[tw.Agent("worker", prompt)])
    executors: dict[Kind, Executor] = {
        "function": FunctionExecutor(),
        "gateway": Remote(witness, kill.get("tool")),
    }
    parts = Parts(store=killing, motor=motor, bus=bus, clock=clock, executors=executors)  # type: ignore[arg-type]  # as above
    runtime = assemble(catalog, parts, Settings())
    await runtime.start()
    match order["action"]:
        case "start":
            await start(runtime, witness)
        case "recover":
            await recover(runtime)
        case _:
            await poison(runtime)
    await runtime.stop(5.0)


async def start(runtime: Runtime, witness: Witness) -> None:
    thread = await runtime.threads.create("worker")
    sent = await runtime.threads.post(thread.id, "Go")
    witness.note("acknowledged", sent.run_id)
    await runtime.runs.wait(sent.run_id, 20)


async def recover(runtime: Runtime) -> None:
    for left in await runtime.runs.list():
        await runtime.runs.wait(left.id, 20)


async def poison(runtime: Runtime) -> None:
    """Hand in a poisonous result and a good one, where that was not done; until the inbox is settled."""
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
                return  # its last change stands in the commit of an event


if __name__ == "__main__":
    serve(run)
