"""An agent with a mind, over a clock that the test turns and a motor that drains when it is told to."""

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
from toolwright.wiring.assembly import assemble
from toolwright.wiring.parts import Parts
from toolwright.wiring.settings import Settings

AGENT = tw.Agent("thinker", "p")
HOME = AGENT.home_thread_id
JSON = dict[str, Any]  # as tests read it


class Obedient:
    """Calls the tool that a message names as `{"tool": …, "args": …}`; says what else it has read."""

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
    """The process is gone: nothing of it goes on."""


@dataclass
class Watched:
    """A store that lets `before` see each unit before it is committed, and `after` once it is."""

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
        """It is there for the next process."""

    def __getattr__(self, name: str) -> Any:  # the port's reads, as they are
        return getattr(self.inner, name)


@dataclass
class Mind:
    """The agent at work."""

    rt: Runtime
    store: Watched
    motor: ManualMotor
    clock: ManualClock
    thread_id: str

    async def call(self, tool: str, **args: Any) -> JSON:  # any arguments
        """What the tool answers to the agent, within a run of its own."""
        await self.rt.threads.send(self.thread_id, json.dumps({"tool": tool, "args": args}))
        await self.motor.run_until_idle()
        return await self.answer()

    async def answer(self) -> JSON:
        """What the last call was answered."""
        messages = await self.rt.threads.messages(self.thread_id, 1_000)
        return json.loads([message for message in messages if message.role == "tool"][-1].content)

    async def turn_to(self, at: datetime) -> None:
        """It is that time now, and what is due is done."""
        self.clock.advance((at - self.clock.now()).total_seconds())
        await self.motor.run_until_idle()

    async def fired(self) -> Sequence[InboxEvent]:
        """The plans that came to the agent's inbox."""
        return [event for event in await self.rt.inboxes.list(AGENT.id) if event.type == "plan"]

    async def mind(self) -> tuple[Sequence[object], ...]:
        """All that is kept."""
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
    """The agent at work over that store, or over one in memory, with a thread to talk to it."""
    clock, bus = clock or ManualClock(), MemoryBus()
    watched = Watched(store or MemoryStore(bus.publish))
    port: Store = watched  # type: ignore[assignment]  # reads go through
    motor = ManualMotor(port, clock)
    minds = toolkit or MindToolkit(port)
    prompt = tw.Prompt("p", "Think.", model=Obedient(), tools=[*minds.tools, *tools])
    catalog = Catalog(agents=agents, prompts=[prompt])
    parts = Parts(store=port, motor=motor, bus=bus, clock=clock, embedder=embedder)
    rt = assemble(catalog, parts, Settings())
    await rt.start()
    thread = await rt.threads.create("thinker", env={"TOKEN": "hunter2-hunter2"})
    yield Mind(rt, watched, motor, clock, thread.id)
    await rt.stop(0.0)
