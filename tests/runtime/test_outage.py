"""A journal that is unavailable while many threads are running causes two log lines, for any number of callers."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime

import pytest

import toolwright as tw
from tests.runtime.test_faults import FastClock
from tests.runtime.test_loop import calling
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.core.agents.catalog import Catalog
from toolwright.core.errors import StoreError
from toolwright.core.journal.store import KnownMessages, Outage, Store, ThreadView
from toolwright.core.journal.units import Committed, Conflict, Unit
from toolwright.core.threads.thread import Wake
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus, MemoryStore, NoLock, ScriptedModel
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio
THREADS = 20


class Away:
    """A store that fails while it is unavailable; `enough` is set after it has failed commits, reads and drains."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.away = False
        self.refused = 0
        self.kinds = set[str]()
        self.enough = asyncio.Event()

    def _ask(self, kind: str) -> None:
        if not self.away:
            return
        self.refused += 1
        self.kinds.add(kind)
        if self.refused > 10 * THREADS and len(self.kinds) == 3:
            self.enough.set()
        raise StoreError("The database is gone.")

    async def commit(self, unit: Unit) -> Committed | Conflict:
        self._ask("commit")
        return await self._inner.commit(unit)

    async def due(self, now: datetime, limit: int) -> Sequence[Wake]:
        self._ask("due")
        return await self._inner.due(now, limit)

    async def view(self, thread_id: str, known: KnownMessages | None = None) -> ThreadView | None:
        self._ask("view")
        return await self._inner.view(thread_id, known)

    def __getattr__(self, name: str) -> object:  # other reads pass through
        return getattr(self._inner, name)


async def test_an_outage_under_load_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="toolwright")
    bus, clock = MemoryBus(), FastClock()
    store = Away(MemoryStore(bus.publish))
    began, may_end = set[str](), asyncio.Event()

    @tw.tool(description="Work.")
    async def work(state: tw.ThreadState) -> str:
        began.add(state.thread_id)
        if len(began) == THREADS:
            store.away = True
            may_end.set()
        await may_end.wait()
        return "worked"

    model = ScriptedModel([calling("work", args={}), {"text": "Done."}])
    outage = Outage(clock)
    motor = EmbeddedMotor(store, clock, NoLock(), sweep=0.02, outage=outage)  # type: ignore[arg-type]  # reads go through
    catalog = Catalog(agents=[tw.Agent("worker", tw.Prompt("w", "Work.", model=model, tools=[work]))])
    parts = DefaultParts(store=store, motor=motor, bus=bus, clock=clock, outage=outage)  # type: ignore[arg-type]  # reads go through
    rt = Runtime(catalog, parts, Settings())
    async with asyncio.timeout(60):
        await rt.start()
        idle = [(await rt.threads.create("worker")).id for _ in range(THREADS)]
        threads = [(await rt.threads.create("worker")).id for _ in range(THREADS)]
        runs = [(await rt.threads.send(thread_id, "Go")).id for thread_id in threads]
        await may_end.wait()
        for thread_id in idle:
            motor.wake(thread_id)
        await store.enough.wait()
        store.away = False
        ended = [(await rt.runs.wait(run_id)).status for run_id in runs]
        await rt.stop(1.0)
    assert ended == ["completed"] * THREADS
    first, last = [each.getMessage() for each in caplog.records if each.name == "toolwright.journal"]
    assert first == "The journal is unavailable. Work that needs it waits: The database is gone."
    assert last.startswith("The journal is available again after ")
