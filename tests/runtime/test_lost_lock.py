"""The lock on Postgres is lost during runs: they stop here and continue elsewhere, nothing is repeated."""

import asyncio
from collections import Counter

import pytest

import toolwright as tw
from tests.databases import opened
from tests.postgres_server import fresh_database
from tests.runtime.rig import assert_valid
from tests.runtime.test_loop import calling
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.store.postgres.connection import connect
from toolwright.adapters.store.postgres.locks import DRAIN_LOCK, PostgresLock
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.catalog import Catalog
from toolwright.core.threads.event import Topic
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus, ScriptedModel
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

RUNS = 12
END_THE_OWNER = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (classid::bigint << 32 | objid::bigint) = $1"
)


class TakenOnce:
    """A lock that its process gets only once, so that another process must take over."""

    def __init__(self, lock: PostgresLock) -> None:
        self._lock = lock
        self._taken = False

    @property
    def held(self) -> bool:
        return self._lock.held

    async def acquire(self) -> bool:
        if not self._taken:
            self._taken = await self._lock.acquire()
        return self._lock.held

    async def release(self) -> None:
        await self._lock.release()


class Work:
    """A tool that counts the starts and ends of each call; calls wait until they are released."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.all_begun = asyncio.Event()
        self.go_on = asyncio.Event()

        @tw.tool(description="Work.")
        async def work(state: tw.ThreadState) -> str:
            self.begun[state.call_id] += 1
            if len(self.begun) >= RUNS:
                self.all_begun.set()
            await self.go_on.wait()
            self.ended[state.call_id] += 1
            return "worked"

        self.tool = work


async def process(url: str, work: Work) -> Runtime:
    """The parts of a separate process: a bus, a store, a motor with its lock."""
    bus, clock = MemoryBus(), SystemClock()
    store = await opened(url, bus)
    motor = EmbeddedMotor(store, clock, TakenOnce(PostgresLock(url)), sweep=0.05)
    model = ScriptedModel([calling("work", args={}), {"text": "Done."}])
    agent = tw.Agent("worker", tw.Prompt("w", "Work.", model=model, tools=[work.tool]))
    runtime = Runtime(
        Catalog(agents=[agent]), DefaultParts(store=store, motor=motor, bus=bus, clock=clock), Settings()
    )
    await runtime.start()
    return runtime


async def test_drains_stop_when_the_lock_is_lost_and_another_process_goes_on_with_their_runs() -> None:
    work = Work()
    async with asyncio.timeout(60), fresh_database() as url:
        first, second = await process(url, work), await process(url, work)
        assert (first.driving, second.driving) == (True, False)
        runs = [
            await first.threads.send((await first.threads.create("worker")).id, "Go") for _ in range(RUNS)
        ]
        await work.all_begun.wait()
        admin = await connect(url)
        assert await admin.fetchval(END_THE_OWNER, DRAIN_LOCK)
        await admin.close()
        for run in runs:
            assert (await second.runs.wait(run.id)).status == "completed"
        assert (first.driving, second.driving) == (False, True)
        work.go_on.set()
        for run in runs:
            messages = await second.threads.messages(run.thread_id, 100)
            assert_valid(messages)
            assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
            assert "its effect is unknown" in messages[2].content
            thread = await second.threads.get(run.thread_id)
            events = await second.events.list(Topic(kind="thread", id=thread.id))
            assert [event.n for event in events] == list(range(1, thread.ev + 1))
        assert set(work.begun.values()) == {1}
        assert not work.ended, "the calls at work were stopped with their drains"
        await first.stop(5.0)
        await second.stop(5.0)
