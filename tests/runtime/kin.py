"""A runtime of several agents, over a store with barriers and a clock that a test can advance."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import toolwright as tw
from tests.databases import OpenStore
from tests.runtime.rig import GRACE, Barriers, Rig
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.catalog import Catalog
from toolwright.runtime.calls.execute import ABORT_GRACE
from toolwright.runtime.runtime import Runtime
from toolwright.testing import EmbeddedMotor, MemoryBus, NoLock
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings


class Ahead(SystemClock):
    """The current time, plus an offset."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


@asynccontextmanager
async def kin(
    store: OpenStore,
    *agents: tw.Agent,
    tools: Sequence[tw.Tool] = (),
    clock: Ahead | None = None,
    abort_grace: float = ABORT_GRACE,
) -> AsyncGenerator[Rig]:
    """Run these agents, each callable by the agents that name it."""
    bus, clock = MemoryBus(), clock or Ahead()
    barriers = Barriers(await store(bus))
    motor = EmbeddedMotor(barriers, clock, NoLock(), sweep=0.02)  # type: ignore[arg-type]  # reads go through
    parts = DefaultParts(
        store=barriers,  # type: ignore[arg-type]  # reads go through
        motor=motor,
        bus=bus,
        clock=clock,
        abort_grace=abort_grace,
    )
    rt = Runtime(Catalog(agents=agents, tools=tools), parts, Settings())
    await rt.start()
    try:
        yield Rig(rt, barriers)
    finally:
        await rt.stop(GRACE)
