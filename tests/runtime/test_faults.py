"""Errors of the journal, the model, the clock or a handler: no work in progress is dropped, nothing hangs."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import toolwright as tw
from tests.databases import sqlite_journal
from tests.kit import ran, send_to
from tests.runtime.rig import Barriers, Rig, assert_valid, running
from tests.runtime.test_loop import calling, outside, parked, until_runs
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.catalog import Catalog
from toolwright.core.errors import StoreError
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict, Release, Result, Unit
from toolwright.core.model import Model, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.event import Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus, MemoryStore, NoLock, ScriptedModel
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio


class Failing:
    """A store whose writes, or reads of the inbox, fail on request."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.failing_reads = 0
        self.failing: type[Unit] | None = None
        self.refused = asyncio.Event()
        self.units: list[Unit] = []

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if self.failing is not None and isinstance(unit, self.failing):
            self.refused.set()
            raise StoreError("The disk is full.")
        self.units.append(unit)
        return await self._inner.commit(unit)

    async def unread(self, thread_id: str) -> Sequence[InboxEvent]:
        if self.failing_reads:
            self.failing_reads -= 1
            raise StoreError("The disk is slow.")
        return await self._inner.unread(thread_id)

    def __getattr__(self, name: str) -> object:  # other reads pass through
        return getattr(self._inner, name)


class FastClock(SystemClock):
    """The machine's clock, shifted by `jump`, on which a sleep ends immediately."""

    jump = timedelta()

    def now(self) -> datetime:
        return super().now() + self.jump

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0.001 if seconds < 600 else 600)


async def at_work(
    store: Store | None,
    model: Model,
    *tools: tw.Tool,
    inline_wait: float = 1.0,
    clock: FastClock | None = None,
) -> Runtime:
    clock, bus = clock or FastClock(), MemoryBus()
    store = store or MemoryStore(bus.publish)
    prompt = tw.Prompt("w", "Work.", model=model, tools=tools)
    catalog = Catalog(agents=[tw.Agent("worker", prompt)])
    motor = EmbeddedMotor(store, clock, NoLock(), sweep=0.02)
    rt = Runtime(
        catalog, DefaultParts(store=store, motor=motor, bus=bus, clock=clock), Settings(), inline_wait
    )
    await rt.start()
    return rt


async def test_a_failed_read_after_a_commit_drops_nothing() -> None:
    store = Failing(MemoryStore(lambda _: None))
    worked: list[str] = []

    @tw.tool(description="Work.")
    async def work(state: tw.ThreadState) -> str:
        worked.append(state.call_id)
        store.failing_reads = 2
        await rt.threads.send(state.thread_id, "And this")  # so that the inbox is read after the result
        return "receipt"

    model = ScriptedModel([calling("work", args={}), {"text": "Done."}])
    rt = await at_work(store, model, work)  # type: ignore[arg-type]  # reads go through
    run = await ran(rt, "worker")
    assert (run.status, len(worked), store.failing_reads) == ("completed", 1, 0)
    messages = await rt.threads.messages(run.thread_id)
    assert messages[2].content == "receipt"
    assert_valid(messages)
    await rt.stop(1.0)


async def test_a_stop_while_the_journal_cannot_be_written_ends_all_the_same() -> None:
    store = Failing(MemoryStore(lambda _: None))
    store.failing = (Result, Release)  # type: ignore[assignment]  # isinstance takes both

    @tw.tool(description="Work.")
    async def work() -> str:
        return "worked"

    model = ScriptedModel([calling("work", args={}), {"text": "Done."}])
    rt = await at_work(store, model, work)  # type: ignore[arg-type]  # reads go through
    thread = await rt.threads.create("worker")
    async with asyncio.timeout(20):
        await rt.threads.send(thread.id, "Go")
        await store.refused.wait()
        await rt.stop(0.0)


async def test_a_stop_during_an_outage_tries_to_write_the_current_result_again() -> None:
    store = Failing(MemoryStore(lambda _: None))
    store.failing = Result

    @tw.tool(description="Work.")
    async def work() -> str:
        store.refused.clear()
        return "receipt"

    model = ScriptedModel([calling("work", args={}), {"text": "Done."}])
    clock = ManualishClock()
    rt = await at_work(store, model, work, clock=clock)  # type: ignore[arg-type]  # reads go through
    thread = await rt.threads.create("worker")
    async with asyncio.timeout(20):
        await rt.threads.send(thread.id, "Go")
        await clock.sleeping.wait()
        store.failing = None  # the outage ends while the drain sleeps; then the stop follows
        await rt.stop(0.0)
    assert [type(unit).__name__ for unit in store.units[-2:]] == ["Result", "Release"]
    assert (await store._inner.messages(thread.id))[2].content == "receipt"  # pyright: ignore[reportPrivateUsage]


class ManualishClock(FastClock):
    """A clock on which a sleep lasts until it is cancelled."""

    def __init__(self) -> None:
        self.sleeping = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds < 600:
            self.sleeping.set()
        await asyncio.Event().wait()


async def test_a_handler_that_swallows_its_cancellation_is_the_last_one_to_begin() -> None:
    began: list[int] = []
    at = asyncio.Event()

    @tw.tool(description="Will not stop.")
    async def stubborn() -> str:
        began.append(1)
        at.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "I go on."
        return "never"

    model = ScriptedModel([calling("stubborn", "stubborn", args={}), {"text": "Done."}])
    store = MemoryStore(lambda _: None)
    rt = await at_work(store, model, stubborn)
    thread = await rt.threads.create("worker")
    async with asyncio.timeout(20):
        run = await rt.threads.send(thread.id, "Go")
        await at.wait()
        await rt.stop(0.0)
    assert began == [1]
    left = await store.run(run.id)
    assert left is not None
    assert (left.status, left.held, left.lives) == ("running", False, 0)


async def test_a_run_goes_no_further_once_the_process_stops(tmp_path: Path) -> None:
    began: list[int] = []
    at, go_on = asyncio.Event(), asyncio.Event()

    @tw.tool(description="Work.")
    async def work(n: int) -> str:
        began.append(n)
        at.set()
        await go_on.wait()
        return f"worked {n}"

    turns = [{"calls": [{"name": "work", "args": {"n": n}} for n in (1, 2)]}, {"text": "Done."}]
    store = await sqlite_journal(tmp_path / "t.db", lambda _: None)
    rt = await at_work(store, ScriptedModel(turns), work)
    thread = await rt.threads.create("worker")
    async with asyncio.timeout(20):
        run = await rt.threads.send(thread.id, "Go")
        await at.wait()
        asyncio.get_running_loop().call_later(0.01, go_on.set)
        await rt.stop(10.0)
        assert began == [1]
        again = await sqlite_journal(tmp_path / "t.db", lambda _: None)
        rt = await at_work(again, ScriptedModel(turns), work)
        done = await rt.runs.wait(run.id)
        await rt.stop(1.0)
    assert (done.status, done.lives) == ("completed", 0)
    assert began == [1, 2], "the second call was not begun, so its effect is known"


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("unit", ["Claim", "Answer", "Result"])
async def test_a_clean_stop_leaves_no_call_whose_effect_is_unknown(
    unit: str, moment: str, tmp_path: Path
) -> None:
    began: list[int] = []

    @tw.tool(description="Work.")
    async def work(n: int) -> str:
        began.append(n)
        return f"worked {n}"

    turns = [{"calls": [{"name": "work", "args": {"n": n}} for n in (1, 2)]}, {"text": "Done."}]
    model, store = ScriptedModel(turns), Barriers(await sqlite_journal(tmp_path / "t.db", lambda _: None))
    rt = await at_work(store, model, work)  # type: ignore[arg-type]  # reads go through
    stops: list[asyncio.Task[None]] = []
    told = asyncio.Event()

    async def stop(_: int, committed: Unit) -> None:
        if type(committed).__name__ == unit and not stops:
            stops.append(asyncio.create_task(rt.stop(10.0)))
            told.set()
            for _ in range(5):  # until the run knows it
                await asyncio.sleep(0)

    setattr(store, moment, stop)
    thread = await rt.threads.create("worker")
    async with asyncio.timeout(60):
        run = await rt.threads.send(thread.id, "Go")
        await told.wait()
        await stops[0]
        rt = await at_work(await sqlite_journal(tmp_path / "t.db", lambda _: None), model, work)
        done = await rt.runs.wait(run.id)
        assert [each.content for each in await rt.threads.messages(thread.id) if each.role == "tool"] == [
            "worked 1",
            "worked 2",
        ]
        await rt.stop(1.0)
    assert (done.status, done.lives, began) == ("completed", 0, [1, 2])


async def test_a_wait_does_not_end_when_the_clock_is_set() -> None:
    clock = FastClock()
    model = ScriptedModel([calling("ask_outside", args={}), {"text": "Thanks."}])
    rt = await at_work(None, model, outside, inline_wait=0.0, clock=clock)
    run = await send_to(rt, "worker")
    call_id = await parked(rt, run.id)
    clock.jump = timedelta(hours=1)
    await rt.threads.send(run.thread_id, "Still there?")  # wakes the thread
    assert (await rt.calls.get(call_id)).status == "waiting"
    assert await rt.calls.submit(run.id, call_id, "yes") == "inline"
    assert (await rt.runs.wait(run.id, 10)).status == "completed"
    await rt.stop(1.0)


async def test_a_thread_that_is_nudged_all_the_time_is_parked_after_its_moment() -> None:
    model = ScriptedModel([calling("ask_outside", args={}), {"text": "Thanks."}])
    async with running(model, [outside], inline_wait=0.05) as rig:
        run = await rig.send()
        chatter = asyncio.create_task(_chatter(rig, run.thread_id))
        await parked(rig.rt, run.id)
        chatter.cancel()


async def _chatter(rig: Rig, thread_id: str) -> None:
    while True:
        await rig.rt.threads.send(thread_id, "Hello?")
        await asyncio.sleep(0)


async def test_a_call_that_runs_again_after_a_crash_counts_its_attempts() -> None:
    began: list[str] = []
    first = asyncio.Event()

    @tw.tool(description="Work.", idempotent=True)
    async def work(state: tw.ThreadState) -> str:
        began.append(state.call_id)
        if len(began) == 1:
            first.set()
            await asyncio.Event().wait()
        return "worked"

    store = MemoryStore(lambda _: None)
    model = ScriptedModel([calling("work", args={}), {"text": "Done."}])
    rt = await at_work(store, model, work)
    thread = await rt.threads.create("worker")
    async with asyncio.timeout(20):
        run = await rt.threads.send(thread.id, "Go")
        await first.wait()
        other = await at_work(store, model, work)  # it considers the first one dead
        done = await other.runs.wait(run.id)
    assert done.status == "completed"
    [call] = await other.calls.list(status=None)
    assert (call.attempts, began) == (2, [call.id, call.id])


async def test_a_late_result_waits_for_a_model_that_is_unavailable() -> None:
    answers = 0

    class Moody:
        name = "moody"

        async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
            nonlocal answers
            answers += 1
            inner = ScriptedModel([calling("ask_outside", args={})])
            if answers == 1:
                async for event in inner.respond(request):
                    yield event
            elif answers == 3:
                raise StoreError("not a model error, but as good as one")
            else:
                yield ModelResponse(text=f"answer {answers}")

    quick = tw.Tool(
        name="ask_outside",
        description="Ask.",
        kind="external",
        timeout=0.02,
        parameters={"type": "object", "properties": {}},
    )
    clock = FastClock()
    rt = await at_work(None, Moody(), quick, inline_wait=0.0, clock=clock)
    run = await ran(rt, "worker")
    [call] = await rt.calls.list()
    await rt.calls.submit(run.id, call.id, "late")
    async with asyncio.timeout(20):
        [later, _] = await until_runs(rt, run.thread_id, 2)
        waiting = rt.events.follow(Topic(kind="run", id=later.id), after=0)
        event = await anext(event async for event in waiting if event.payload.get("error"))
        clock.jump = timedelta(hours=1)  # it is due immediately
        done = await rt.runs.wait(later.id)
    assert event.type == "run.queued"
    assert (done.status, done.error) == ("completed", None)
    await rt.stop(1.0)
