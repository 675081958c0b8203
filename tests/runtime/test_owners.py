"""Which process executes a run: two processes on one file, clean stops, runs whose process dies repeatedly."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.databases import database, opened, stores
from tests.kit import ran, send_to
from tests.play import begun
from tests.postgres_server import fresh_database
from tests.runtime.rig import Barriers, assert_valid, running
from tests.runtime.test_loop import calling
from toolwright import testing
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.agents.catalog import Catalog
from toolwright.core.errors import StoreError
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Advance, Claim, Committed, Conflict, Release, Result, Takeover, Unit
from toolwright.core.model import ModelEvent, ModelRequest, ModelResponse
from toolwright.core.ports import RetryInIsolation, Verdict
from toolwright.core.threads.call import CallStatus
from toolwright.core.threads.run import Run
from toolwright.runtime.runs import worker
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualClock, ManualMotor, MemoryBus, MemoryStore, ScriptedModel
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str]:
    """The URL of a journal of each kind that processes share."""
    async with database(request.param, tmp_path) as found:
        yield found


def script() -> ScriptedModel:
    return ScriptedModel([calling("work", args={}), {"text": "Done."}])


class Work:
    """A tool that waits until it is released, and counts its starts."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.count = 0

        @tw.tool(description="Work.")
        async def work() -> str:
            self.count += 1
            self.began.set()
            await self.go_on.wait()
            return "worked"

        self.tool = work


def app(work: Work) -> tw.App:
    return tw.App(agents=[tw.Agent("worker", tw.Prompt("w", "Work.", model=script(), tools=[work.tool]))])


async def test_two_processes_on_one_journal_interrupt_nothing(url: str) -> None:
    work = Work()
    settings = tw.Settings(database_url=url)
    async with asyncio.timeout(30), app(work).runtime(settings) as first:
        thread = await first.threads.create("worker")
        run = await first.threads.send(thread.id, "Go")
        await work.began.wait()
        async with app(work).runtime(settings) as second:
            assert first.driving
            assert not second.driving
            other = await second.threads.create("worker")
            # written here, executed by the other process
            later = await second.threads.send(other.id, "Go too")
            work.go_on.set()
            assert (await second.runs.wait(run.id)).status == "completed"
            assert (await second.runs.wait(later.id)).status == "completed"
            assert work.count == 2
        assert_valid(await first.threads.messages(thread.id))


async def test_a_second_process_takes_over_when_the_first_one_ends(url: str) -> None:
    work = Work()
    settings = tw.Settings(database_url=url)
    work.go_on.set()
    async with asyncio.timeout(30), AsyncExitStack() as first:
        await first.enter_async_context(app(work).runtime(settings))
        async with app(work).runtime(settings) as second:
            thread = await second.threads.create("worker")
            assert not second.driving
            await first.aclose()
            run = await second.threads.send(thread.id, "Go")
            assert (await second.runs.wait(run.id)).status == "completed"
            assert second.driving


async def test_a_clean_stop_waits_for_the_running_tool_and_leaves_the_rest(url: str) -> None:
    work = Work()
    settings = tw.Settings(database_url=url)
    async with asyncio.timeout(30):
        async with app(work).runtime(settings) as rt:
            run = await send_to(rt, "worker")
            await work.began.wait()
            asyncio.get_running_loop().call_soon(work.go_on.set)
        async with app(work).runtime(settings) as rt:
            done = await rt.runs.wait(run.id)
            assert (done.status, done.lives, work.count) == ("completed", 0, 1)


async def test_a_tool_that_outlasts_the_grace_is_interrupted_but_the_stop_counts_as_clean(
    url: str,
) -> None:
    work = Work()
    settings = tw.Settings(database_url=url)
    async with asyncio.timeout(30):
        async with app(work).runtime(settings, grace=0.0) as rt:
            run = await send_to(rt, "worker")
            await work.began.wait()
        async with app(work).runtime(settings) as rt:
            left = await rt.runs.wait(run.id)
            assert left.status == "completed"
            messages = await rt.threads.messages(run.thread_id)
            assert "its effect is unknown" in messages[2].content
            assert_valid(messages)
            assert work.count == 1


async def test_a_run_that_a_silent_journal_does_not_release_is_logged_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Silent(MemoryStore):
        async def commit(self, unit: Unit) -> Committed | Conflict:
            if isinstance(unit, Release):
                await asyncio.Event().wait()
            return await super().commit(unit)

    async def opening(bus: MemoryBus) -> Store:
        return Silent(bus.publish)

    work = Work()
    monkeypatch.setattr(worker, "LAST_WORD", 0.05)
    async with running(script(), [work.tool], store=opening) as rig:
        run = await rig.send()
        await work.began.wait()
        await rig.rt.stop(0.0)
    assert f"Run {run.id} could not be released: the journal does not answer" in caplog.messages


@asynccontextmanager
async def by_hand(
    model: ScriptedModel, *tools: tw.Tool
) -> AsyncGenerator[tuple[Runtime, Barriers, ManualMotor]]:
    """Run a runtime whose motor is turned by hand."""
    bus, clock = MemoryBus(), ManualClock()
    store = Barriers(MemoryStore(bus.publish))
    motor = ManualMotor(store, clock)  # type: ignore[arg-type]  # reads go through
    catalog = Catalog(agents=[tw.Agent("worker", tw.Prompt("w", "Work.", model=model, tools=tools))])
    parts = DefaultParts(store=store, motor=motor, bus=bus, clock=clock)  # type: ignore[arg-type]  # reads go through
    rt = Runtime(catalog, parts, Settings(), inline_wait=0.0)
    await rt.start()
    yield rt, store, motor
    await rt.stop(0.0)


async def left_by_the_dead(store: Store, rt: Runtime, run_id: str, lives: int) -> None:
    """Write the journal as left by a process that died during this run, for the `lives`-th time."""
    run = await rt.runs.get(run_id)
    thread = await rt.threads.get(run.thread_id)
    unit = Takeover(
        token=new_id("unit"),
        at=run.created_at,
        thread_id=thread.id,
        epoch=thread.epoch,
        seq=thread.seq,
        run=replace(run, status="running", held=True, lives=lives, started_at=run.created_at),
    )
    assert isinstance(await store.commit(unit), Committed)


async def test_a_run_that_was_taken_over_starts_afresh_with_its_next_commit() -> None:
    async with by_hand(script()) as (rt, store, motor):
        run = await send_to(rt, "worker")
        await left_by_the_dead(store.inner, rt, run.id, 1)
        await motor.run_until_idle()
        [taken] = [unit for unit in store.units if isinstance(unit, Takeover)]
        assert taken.run.lives == 2
        done = await rt.runs.get(run.id)
        assert (done.status, done.lives) == ("completed", 0)
        assert not any(isinstance(unit, Claim) for unit in store.units)


async def crashed_with(*calls: CallStatus, **run: int) -> tuple[Runtime, Store, str]:
    """Return a runtime on a journal as left by a process that ended while calls had that status."""
    store = MemoryStore(MemoryBus().publish)
    run_id = await crash(store, *calls, **run)
    return process_on(store), store, run_id


async def crash(store: Store, *calls: CallStatus, **run: int) -> str:
    """Write the journal as left by a process that ended while calls had that status. Return the id of the run."""
    drain = await begun(store)
    await drain.answer(*[drain.call(each) for each in calls])
    await drain.do(drain.unit(Takeover, {"lives": 2, **run}))
    return drain.run.id


def process_on(store: Store) -> Runtime:
    """Return the runtime of another process on the journal, without agents."""
    clock = ManualClock()
    parts = DefaultParts(store=store, motor=ManualMotor(store, clock), bus=MemoryBus(), clock=clock)
    return Runtime(Catalog(), parts, Settings(), inline_wait=0.0)


async def test_from_the_third_life_on_a_run_whose_call_executed_the_apps_code_is_a_suspect() -> None:
    for lives, after in ((2, 1.0), (3, 2.0), (4, 4.0)):
        rt, _, _ = await crashed_with("running", lives=lives)
        verdict = await rt._drainer("th_1")  # pyright: ignore[reportPrivateUsage]  # as the motor does
        assert verdict == RetryInIsolation(after, lives + 1)


async def test_a_run_that_waited_for_its_model_is_never_a_suspect() -> None:
    rt, store, run_id = await crashed_with(lives=40)
    verdict = await rt._drainer("th_1")  # pyright: ignore[reportPrivateUsage]  # as the motor does
    run = await store.run(run_id)
    assert not isinstance(verdict, RetryInIsolation)
    assert run is not None and "died" not in (run.error or "")


async def test_only_a_run_that_was_the_only_suspect_ten_times_fails() -> None:
    message = "The process died 10 times while it executed this run."
    for isolated, fails in ((0, False), (9, False), (10, True)):
        rt, store, run_id = await crashed_with("running", lives=60, isolated=isolated)
        await rt._drainer("th_1", alone=True, suspects=1)  # pyright: ignore[reportPrivateUsage]  # as the motor does
        run = await store.run(run_id)
        assert run is not None and (run.error == message) == fails


class Losing(Barriers):
    """A journal that refuses a claim's next units as those of another process, or is away for them."""

    def __init__(self, inner: Store, loss: str, times: int = 100) -> None:
        super().__init__(inner)
        self._loss, self._times, self._is_claimed = loss, times, False
        self.was_lost = asyncio.Event()

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if self._is_claimed and isinstance(unit, Advance):
            self.was_lost.set()
            if self._loss == "outage":
                await asyncio.sleep(0)  # no time passes on the clock of the test: let it cancel the drain
                raise StoreError("The disk is full.")
            self._is_claimed = False
            return Conflict(guard="fence")
        if isinstance(unit, Claim | Takeover) and self._times:
            self._times, self._is_claimed = self._times - 1, True
        return await super().commit(unit)

    async def lose(self, drain: Coroutine[Any, Any, Verdict]) -> None:
        """Run the drain until it has lost its thread, like a scheduler whose lock is lost."""
        task = asyncio.create_task(drain)
        await self.was_lost.wait()
        if self._loss == "outage":
            task.cancel()
        await asyncio.wait([task])
        self.was_lost.clear()
        self._is_claimed = False


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
@pytest.mark.parametrize("loss", ["fence", "outage"])
async def test_a_crash_is_counted_once_however_often_the_next_process_loses_the_run(
    kind: str, loss: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with stores(kind, tmp_path) as opening:
        journal = await opening(MemoryBus())
        store = Losing(journal, loss)
        run_id = await crash(journal, "running", lives=5, isolated=2)

        async def lost(rt: Runtime, *, suspects: int = 1) -> tuple[int, int, int]:
            """Lose the run in that process. Return the lives of which it is suspected, and those of its row."""
            drain = rt._drainer  # pyright: ignore[reportPrivateUsage]  # as the motor does
            verdict = await drain("th_1")
            assert isinstance(verdict, RetryInIsolation)
            await store.lose(drain("th_1", alone=True, suspects=suspects))
            run = await journal.run(run_id)
            assert run is not None
            return verdict.lives, run.lives, run.isolated

        first = process_on(store)  # type: ignore[arg-type]  # reads go through
        for _ in range(3):
            assert await lost(first) == (6, 6, 3)
        assert await lost(first, suspects=2) == (6, 6, 2), "it was not the only suspect in the end"
        second = process_on(store)  # type: ignore[arg-type]  # reads go through
        assert await lost(second) == (7, 7, 3)
        assert await lost(first) == (8, 8, 4), "the second process has not given it back either"
        await journal.close()
    assert [each for each in caplog.messages if "the process that executed it has ended" in each] == [
        f"Run {run_id} is taken over: the process that executed it has ended."
    ] * 3


async def test_a_run_that_its_process_has_lost_and_claimed_again_has_survived_no_crash(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work()
    work.go_on.set()
    async with by_hand(script(), work.tool) as (rt, store, motor):
        store.inner = Losing(store.inner, "fence", times=1)  # type: ignore[assignment]  # reads go through
        run = await send_to(rt, "worker")
        await motor.run_until_idle()
        [again] = [unit for unit in store.committed if isinstance(unit, Takeover)]
        assert again.run.lives == 0
        assert not any("has ended" in each for each in caplog.messages)
        assert (await rt.runs.get(run.id)).status == "completed"


async def test_while_the_journal_fails_the_current_result_is_kept_and_written_later() -> None:
    ran: list[str] = []

    @tw.tool(description="Work.")
    async def work() -> str:
        ran.append("once")
        return "worked"

    faults = 3

    async def fail(_: int, unit: Unit) -> None:
        nonlocal faults
        if isinstance(unit, Result) and faults:
            faults -= 1
            raise StoreError("The disk is full.")

    async with by_hand(script(), work) as (rt, store, motor):
        store.before = fail
        run = await send_to(rt, "worker")
        await motor.run_until_idle()
        assert (await rt.runs.get(run.id)).status == "completed"
        assert ran == ["once"]
        assert faults == 0
        assert_valid(await rt.threads.messages(run.thread_id))


async def test_a_thread_whose_owner_changed_is_left_alone_by_the_old_one(url: str) -> None:
    """A drain that has lost its thread in any way writes nothing more."""
    work = Work()
    bus, clock = MemoryBus(), SystemClock()
    store = await opened(url, bus)
    from toolwright.testing import NoLock  # noqa: PLC0415 - two motors that both assume to be alone

    catalog = Catalog(agents=[tw.Agent("worker", tw.Prompt("w", "Work.", model=script(), tools=[work.tool]))])
    old = Runtime(
        catalog,
        DefaultParts(store=store, motor=EmbeddedMotor(store, clock, NoLock()), bus=bus, clock=clock),
        Settings(),
    )
    async with asyncio.timeout(30):
        await old.start()
        thread = await old.threads.create("worker")
        run = await old.threads.send(thread.id, "Go")
        await work.began.wait()
        other_bus = MemoryBus()
        other_store = await opened(url, other_bus)
        new_motor = EmbeddedMotor(other_store, clock, NoLock())
        new = Runtime(
            catalog, DefaultParts(store=other_store, motor=new_motor, bus=other_bus, clock=clock), Settings()
        )
        await new.start()  # takes the run over, since its owner appears dead
        done = await new.runs.wait(run.id)
        assert done.status == "completed"
        before = await new.threads.messages(thread.id)
        work.go_on.set()  # the old owner's tool ends now, and its result must not be written
        await old.stop(5.0)
        assert await new.threads.messages(thread.id) == before
        assert_valid(before)
        await new.stop(5.0)


async def test_what_the_journal_cannot_hold_fails_its_run_and_not_the_thread(tmp_path: Path) -> None:
    class Hostile:
        name = "hostile"

        async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
            odd = len(request.messages) == 1
            yield ModelResponse(text="fine", native={"n": float("nan")} if odd else None)

    app_ = tw.App(agents=[tw.Agent("worker", tw.Prompt("w", "Work.", model=Hostile()))])
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path}/t.db")
    async with asyncio.timeout(30), app_.runtime(settings) as rt:
        first = await ran(rt, "worker")
        assert first.status == "failed"
        assert "The journal cannot hold this" in (first.error or "")
        second = await rt.runs.wait((await rt.threads.send(first.thread_id, "Again")).id)
        assert (second.status, second.output) == ("completed", "fine")


async def test_a_runtime_that_is_turned_by_hand_stands_still_by_itself() -> None:
    @tw.tool(description="Work.")
    async def work() -> str:
        await asyncio.sleep(0)  # let the others run
        return "worked"

    prompt = tw.Prompt("w", "Work.", model=script(), tools=[work])
    async with (
        asyncio.timeout(10),
        testing.by_hand(tw.App(agents=[tw.Agent("worker", prompt)])) as (rt, motor),
    ):
        run = await send_to(rt, "worker")
        assert (await rt.runs.get(run.id)).status == "queued"
        await motor.run_until_idle()
        done = await rt.runs.get(run.id)
        assert done.status == "completed"
        assert done.completed_at == done.created_at


def other_app() -> tw.App:
    return tw.App(agents=[tw.Agent("other", tw.Prompt("o", "Work.", model=script()))])


async def until_queued_again(rt: Runtime, run_id: str) -> Run:
    """Return the run, after one attempt and before the next."""
    while True:
        run = await rt.runs.get(run_id)
        if run.waiting is not None:
            return run
        await asyncio.sleep(0.02)


async def test_a_run_waits_for_a_process_whose_app_declares_its_agent(url: str) -> None:
    work, settings = Work(), tw.Settings(database_url=url)
    work.go_on.set()
    async with asyncio.timeout(60), AsyncExitStack() as elsewhere:
        here = await elsewhere.enter_async_context(other_app().runtime(settings))
        async with app(work).runtime(settings) as rt:
            threads = [await rt.threads.create("worker") for _ in range(2)]
            run, cancelled = [await rt.threads.send(thread.id, "Go") for thread in threads]
            waits = await until_queued_again(rt, run.id)
            assert (waits.status, (waits.waiting or {})["reason"], work.count) == ("queued", "agent", 0)
            assert "The process that tried this run does not declare the agent" in str(
                (waits.waiting or {})["error"]
            )
            await here.runs.cancel(cancelled.id)
            assert (await here.runs.wait(cancelled.id)).status == "cancelled"
            await elsewhere.aclose()
            done = await rt.runs.wait(run.id)
            assert (done.status, done.error, done.waiting, work.count) == ("completed", None, None, 1)


async def test_a_node_leaves_runs_of_agents_that_it_does_not_know_to_the_others() -> None:
    work = Work()
    work.go_on.set()
    async with fresh_database() as url, asyncio.timeout(60):
        settings = tw.Settings(database_url=url, cluster="postgres")
        async with other_app().runtime(settings) as here, app(work).runtime(settings) as there:
            assert here.driving and there.driving
            runs = [
                await there.threads.send((await there.threads.create("worker")).id, "Go") for _ in range(10)
            ]
            assert {(await there.runs.wait(run.id)).status for run in runs} == {"completed"}
            assert work.count == 10
