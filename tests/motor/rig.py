"""A motor with a drain that only leaves its thread, and records that it was there."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, CreateThread, Leave, Leaving, PostMessage
from toolwright.core.ports import Clock, Motor, Verdict
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.testing import EmbeddedMotor, ManualClock, ManualMotor, MemoryStore, NoLock

Hook = Callable[[str], Awaitable[None]]


async def _nothing(_: str) -> None:
    """The drain does no work."""


@dataclass
class Rig:
    """Threads to wake, a motor that drains them, and a record of it."""

    store: Store
    motor: Motor
    clock: Clock
    drained: list[str] = field(default_factory=list[str])
    nudged: list[str] = field(default_factory=list[str])
    during: Hook = _nothing
    before_leaving: Hook = _nothing
    due_later: dict[str, datetime] = field(default_factory=dict[str, datetime])
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def thread(self, name: str) -> str:
        thread = Thread(id=name, agent="agt_x", created_at=self.clock.now())
        await self.store.commit(CreateThread(token=new_id("unit"), at=self.clock.now(), thread=thread))
        return name

    async def post(self, name: str) -> None:
        """Wake a thread in the journal, without a nudge: as a process does that dies before it."""
        now = self.clock.now()
        run = Run(id=new_id("run"), thread_id=name, agent="agt_x", created_at=now)
        event = InboxEvent(thread_id=name, event_id=new_id("msg"), type="message", content={}, created_at=now)
        queued = EventDraft(type="run.queued", payload={})
        answer = await self.store.commit(
            PostMessage(token=new_id("unit"), at=now, event=event, run=run, queued=queued)
        )
        assert isinstance(answer, Committed)

    async def send(self, name: str) -> None:
        await self.post(name)
        self.motor.wake(name)

    async def drain(self, thread_id: str, *, alone: bool = False) -> Verdict:
        wake = await self.store.wake(thread_id)
        if wake is None:
            return "done"
        await self.during(thread_id)
        await self.before_leaving(thread_id)
        due = self.due_later.pop(thread_id, None)
        leave = Leave(
            token=new_id("unit"),
            at=self.clock.now(),
            thread_id=thread_id,
            leaving=Leaving(gen=wake.gen, due=due),
        )
        answer = await self.store.commit(leave)
        self.drained.append(thread_id)
        self.changed.set()
        return "done" if isinstance(answer, Committed) and answer.left else "again"

    def nudge(self, thread_id: str) -> None:
        self.nudged.append(thread_id)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the motor work until the condition holds."""
        async with asyncio.timeout(20):
            while not condition():
                if isinstance(self.motor, ManualMotor):
                    if not await self.motor.run_until_idle() and not condition():
                        await self.motor.run_timers()
                else:
                    await self.changed.wait()
                    self.changed.clear()

    async def until_more_than(self, count: int) -> None:
        """Let the motor work until there were more drains than that."""
        await self.until(lambda: len(self.drained) > count)

    async def idle(self) -> None:
        """Nothing is due any more."""
        while await self.store.due(self.clock.now() + timedelta(days=1), 1):
            await self.until_more_than(len(self.drained))


@asynccontextmanager
async def embedded(
    store: Store | None = None, *, concurrency: int = 100, sweep: float = 0.02
) -> AsyncGenerator[Rig]:
    clock = SystemClock()
    store = store or MemoryStore(lambda _: None)
    motor = EmbeddedMotor(
        store,
        clock,
        NoLock(),
        concurrency=concurrency,
        sweep=sweep,
    )
    rig = Rig(store, motor, clock)
    await motor.start(rig.drain, rig.nudge)
    try:
        yield rig
    finally:
        await motor.stop(0.0)


@asynccontextmanager
async def manual(store: Store | None = None) -> AsyncGenerator[Rig]:
    clock = ManualClock()
    store = store or MemoryStore(lambda _: None)
    rig = Rig(store, ManualMotor(store, clock), clock)
    await rig.motor.start(rig.drain, rig.nudge)
    yield rig
    await rig.motor.stop(0.0)
