"""An agent with a mind, on a clock that the test sets and a motor that drains on request."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import toolwright as tw
from toolwright.core.agents.catalog import Catalog
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict, Unit
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.ports import Embedder
from toolwright.core.threads.inbox import InboxEvent
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.toolkits.mind import MindToolkit
from toolwright.testing import ManualClock, ManualMotor, MemoryBus, MemoryStore
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

AGENT = tw.Agent("thinker", "p")
HOME = AGENT.home_thread_id
JSON = dict[str, Any]  # untyped on purpose


class Obedient:
    """A model that calls the tool that a message names as `{"tool": …, "args": …}`, and repeats any other message."""

    name = "obedient"

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelResponse]:
        last = request.messages[-1]
        if last.role != "user" or not last.content.startswith('{"tool"'):
            yield ModelResponse(text=f"I have read: {last.content}")
            return
        asked = json.loads(last.content)
        yield ModelResponse(
            calls=(ModelCall(id="c", name=asked["tool"], arguments=json.dumps(asked["args"])),)
        )


class Died(BaseException):
    """The process has died: nothing of it continues."""


@dataclass
class WatchedStore:
    """A store that passes each unit to `before` and, once it is committed, to `after`."""

    inner: Store
    before: Callable[[Unit], Awaitable[None]] | None = None
    after: Callable[[Unit], Awaitable[None]] | None = None

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if self.before is not None:
            await self.before(unit)
        answer = await self.inner.commit(unit)
        if self.after is not None:
            await self.after(unit)
        return answer

    async def close(self) -> None:
        """Stay open for the next process."""

    def __getattr__(self, name: str) -> Any:  # reads pass through
        return getattr(self.inner, name)


@dataclass
class Mind:
    """The running agent."""

    rt: Runtime
    store: WatchedStore
    motor: ManualMotor
    clock: ManualClock
    thread_id: str

    async def call(self, tool: str, **args: Any) -> JSON:  # arguments of any tool
        """Call the tool in a new run. Return the result as the agent reads it."""
        await self.rt.threads.send(self.thread_id, json.dumps({"tool": tool, "args": args}))
        await self.motor.run_until_idle()
        return await self.answer()

    async def answer(self) -> JSON:
        """Return the result of the last call."""
        messages = await self.rt.threads.messages(self.thread_id, 1_000)
        return json.loads([message for message in messages if message.role == "tool"][-1].content)

    async def turn_to(self, at: datetime) -> None:
        """Set the time, and execute all due work."""
        self.clock.advance((at - self.clock.now()).total_seconds())
        await self.motor.run_until_idle()

    async def fired(self) -> Sequence[InboxEvent]:
        """Return the plans that arrived in the agent's inbox."""
        return [event for event in await self.rt.inboxes.list(AGENT.id) if event.type == "plan"]

    async def mind(self) -> tuple[Sequence[object], ...]:
        """Return everything that is stored."""
        return (
            await self.rt.minds.goals("thinker"),
            await self.rt.minds.memories("thinker"),
            await self.rt.minds.plans("thinker"),
        )


@asynccontextmanager
async def thinking(
    store: Store | None = None,
    clock: ManualClock | None = None,
    *,
    tools: Sequence[tw.Tool] = (),
    toolkit: MindToolkit | None = None,
    agents: Sequence[tw.Agent] = (AGENT,),
    embedder: Embedder | None = None,
) -> AsyncGenerator[Mind]:
    """Run the agent over that store, or over one in memory, with a thread to talk to it."""
    clock, bus = clock or ManualClock(), MemoryBus()
    watched = WatchedStore(store or MemoryStore(bus.publish))
    port: Store = watched  # type: ignore[assignment]  # reads go through
    motor = ManualMotor(port, clock)
    minds = toolkit or MindToolkit(port)
    prompt = tw.Prompt("p", "Think.", model=Obedient(), tools=[*minds.tools, *tools])
    catalog = Catalog(agents=agents, prompts=[prompt])
    parts = DefaultParts(store=port, motor=motor, bus=bus, clock=clock, embedder=embedder)
    rt = Runtime(catalog, parts, Settings())
    await rt.start()
    thread = await rt.threads.create("thinker", env={"TOKEN": "hunter2-hunter2"})
    yield Mind(rt, watched, motor, clock, thread.id)
    await rt.stop(0.0)
