"""A runtime on a clock that the test moves, over any journal, that can be stopped and restarted."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import toolwright as tw
from tests.databases import OpenStore
from tests.kit import call
from toolwright.adapters.motor.manual import ManualClock, ManualMotor
from toolwright.core.agents.catalog import Catalog
from toolwright.core.journal.store import Store
from toolwright.core.results import Outcome, Pending
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.tool import Kind
from toolwright.runtime.calls.plan import INLINE_EXECUTORS, InlineExecutor
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus, ScriptedModel
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

outside = tw.Tool(name="outside", description="Ask.", kind="external", timeout=30.0)


def expiring(wait: float | None, seconds: float | None) -> Mapping[Kind, InlineExecutor]:
    """Return executors with which an external call has that many seconds."""

    def instant(prepared: PreparedCall) -> Outcome:
        return Pending(wait=wait, expires_in=seconds)

    return {**INLINE_EXECUTORS, "external": instant}


@dataclass
class Turned:
    """A runtime with its motor and clock."""

    rt: Runtime
    motor: ManualMotor
    clock: ManualClock
    store: Store

    async def called(self) -> tuple[str, str, str]:
        """Return the ids of a new thread, its run, and the run's open call."""
        thread = await self.rt.threads.create("tester")
        run = await self.rt.threads.send(thread.id, "Go")
        await self.motor.run_until_idle()
        [call] = await self.rt.calls.list(run_id=run.id)
        return thread.id, run.id, call.id

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.motor.run_until_idle()

    async def read_by_the_model(self, thread_id: str) -> list[str]:
        """Return the results and inbox messages that the model has read."""
        said = await self.rt.threads.messages(thread_id, 1_000)
        return [each.content for each in said if each.role != "assistant"][1:]


@asynccontextmanager
async def turned(
    opened: OpenStore,
    inline_executors: Mapping[Kind, InlineExecutor],
    clock: ManualClock | None = None,
    tool: tw.Tool = outside,
) -> AsyncGenerator[Turned]:
    """Run an agent `tester` that calls the tool in its first answer, then says Done."""
    bus, clock = MemoryBus(), clock or ManualClock()
    store = await opened(bus)
    motor = ManualMotor(store, clock)
    model = ScriptedModel([call(tool.name), {"text": "Done."}])
    catalog = Catalog(agents=[tw.Agent("tester", tw.Prompt("tester", "Test.", model=model, tools=[tool]))])
    parts = DefaultParts(store=store, motor=motor, bus=bus, clock=clock, inline_executors=inline_executors)
    rt = Runtime(catalog, parts, Settings(), inline_wait=0.0)
    await rt.start()
    try:
        yield Turned(rt, motor, clock, store)
    finally:
        await rt.stop(0.0)
