"""A thread whose model fails is not retried before the next attempt is due, whatever arrives meanwhile (D21)."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import pytest

import toolwright as tw
from tests.databases import OpenStore, store_on
from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.agents.catalog import Catalog
from toolwright.core.errors import ModelError, ModelRefused, ModelUnavailable, RunOver, StoreError
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import RequestCancel
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.call import MOVES
from toolwright.core.threads.event import Topic
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualClock, ManualMotor, MemoryBus, MemoryStore
from toolwright.wire.run import ListedRun
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio
journal = store_on("memory", "sqlite", "postgres")
shared = store_on("sqlite", "postgres")
ON_TIME = [0.0, 1.0, 3.0, 7.0, 15.0]  # the times of the requests to a model that always fails
REFUSED = ModelRefused("fake:model refused the request (400): no credit.")

outside = tw.Tool(
    name="ask_outside",
    description="Ask somebody outside.",
    kind="external",
    is_async=True,
    parameters={"type": "object", "properties": {}},
)


@dataclass
class Refusing:
    """A model that records the times of its requests, and fails as long as there is a `fault`."""

    clock: ManualClock
    fault: Exception | None = REFUSED
    asked: list[float] = field(default_factory=list[float])
    first: tuple[ModelCall, ...] = ()
    meanwhile: Callable[[], Awaitable[object]] | None = None
    name: str = "refusing"

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.asked.append(self.clock.monotonic())
        if self.meanwhile is not None:
            await self.meanwhile()
        if self.fault is not None:
            raise self.fault
        calls, self.first = self.first, ()
        yield ModelResponse(text="" if calls else "I see.", calls=calls)


@dataclass
class Town:
    """The runtime with its motor and clock, and its agent's model."""

    rt: Runtime
    motor: ManualMotor
    clock: ManualClock
    store: Store
    model: Refusing
    agent_id: str

    @property
    def home(self) -> str:
        return home_thread_id_of(self.agent_id)

    async def trigger(self, name: str) -> None:
        """Trigger the agent, and execute all work that is due now."""
        await self.rt.inboxes.trigger("tester", name)
        await self.motor.run_until_idle(200)

    async def pass_time(self, until: float) -> None:
        """Execute due work every quarter of a second until then."""
        while self.clock.monotonic() < until:
            self.clock.advance(0.25)
            await self.motor.run_until_idle(200)

    async def run(self) -> Run:
        return (await self.rt.runs.list(thread_id=self.home))[0]

    async def rows(self) -> tuple[int, int, int]:
        """Return the numbers of runs, events and messages of the home thread."""
        events = await self.rt.events.list(Topic(kind="thread", id=self.home), limit=1_000)
        messages = await self.rt.threads.messages(self.home, 1_000)
        return len(await self.rt.runs.list(thread_id=self.home)), len(events), len(messages)


@asynccontextmanager
async def town(
    opened: OpenStore,
    model: Refusing,
    settings: Settings | None = None,
    prompts: Sequence[tw.Prompt] = (),
    tools: Sequence[tw.Tool | str] = (),
) -> AsyncGenerator[Town]:
    bus = MemoryBus()
    store = await opened(bus)
    motor = ManualMotor(store, model.clock)
    agent = tw.Agent("tester", tw.Prompt("tester", "Test.", model=model, tools=[outside, *tools]))
    catalog = Catalog(agents=[agent], prompts=prompts)
    rt = Runtime(
        catalog,
        DefaultParts(store=store, motor=motor, bus=bus, clock=model.clock),
        settings or Settings(),
        0.0,
    )
    await rt.start()
    try:
        yield Town(rt, motor, model.clock, store, model, (await rt.agents.get("tester")).id)
    finally:
        await rt.stop(0.0)


async def test_other_events_that_wait_or_come_do_not_switch_the_back_off_off(journal: OpenStore) -> None:
    async with town(journal, Refusing(ManualClock())) as here:
        await here.trigger("first")
        for n in range(30):
            await here.trigger(f"other {n}")
        await here.pass_time(2.0)
        await here.trigger("between")
        await here.pass_time(15.0)
        assert here.model.asked == ON_TIME
        here.model.fault = None
        await here.pass_time(31.0)
        assert here.model.asked == [*ON_TIME, 31.0, 31.0]  # the first event, then all the others together
        inbox = await here.rt.inboxes.list("tester", limit=100)
        assert {event.status for event in inbox} == {"processed"}
        assert len(inbox) == 32
        assert [run.status for run in await here.rt.runs.list(thread_id=here.home)] == ["completed"] * 2


async def test_retries_leave_no_rows_behind_and_followers_read_when_it_goes_on(journal: OpenStore) -> None:
    async with town(journal, Refusing(ManualClock())) as here:
        await here.trigger("first")
        await here.trigger("second")
        before = await here.rows()
        await here.pass_time(1_000.0)
        assert len(here.model.asked) > 10
        assert await here.rows() == before
        runs = await here.rt.runs.list(thread_id=here.home)
        [run] = [each for each in runs if each.error is not None]  # both were created at the same time
        assert (run.status, run.error) == ("queued", REFUSED.message)
        here.model.fault = None
        await here.pass_time(1_300.0)
        told = await here.rt.events.list(Topic(kind="run", id=run.id), limit=100)
        assert [event.type for event in told if event.type.startswith("run.")] == [
            "run.queued",
            "run.started",
            "run.queued",
            "run.started",
            "run.completed",
        ]


async def test_a_nudge_a_late_result_and_a_message_wait_for_the_next_try(journal: OpenStore) -> None:
    model = Refusing(ManualClock(), None, first=(ModelCall(id="c", name="ask_outside", arguments="{}"),))
    async with town(journal, model) as here:
        await here.trigger("first")
        [call] = await here.rt.calls.list()
        model.fault, model.asked = REFUSED, []
        await here.trigger("second")
        assert model.asked == [0.0]
        await here.rt.calls.submit(call.run_id, call.id, "late")
        await here.motor.run_until_idle(200)
        for _ in range(20):
            here.motor.wake(here.home)
            await here.motor.run_until_idle(200)
        mine = await here.rt.threads.send(here.home, "Hello?")
        await here.motor.run_until_idle(200)
        assert model.asked == [0.0]
        await here.pass_time(1.0)
        assert model.asked == [0.0, 1.0]
        over = await here.rt.runs.get(mine.id)
        assert (over.status, over.error) == ("failed", REFUSED.message)  # a person is notified, once
        await here.pass_time(7.0)
        assert model.asked == ON_TIME[:4]
        model.fault = None
        await here.pass_time(15.0)
        assert {event.status for event in await here.rt.inboxes.list("tester")} == {"processed"}


async def test_what_comes_while_the_failing_model_is_asked_waits_too(journal: OpenStore) -> None:
    async with town(journal, Refusing(ManualClock())) as here:
        here.model.meanwhile = lambda: here.rt.inboxes.trigger("tester", "meanwhile")
        await here.trigger("first")
        assert here.model.asked == [0.0]
        await here.pass_time(15.0)
        assert here.model.asked == ON_TIME


async def test_a_restart_and_another_process_keep_the_due_time_and_count_on(shared: OpenStore) -> None:
    model = Refusing(ManualClock())
    async with town(shared, model) as first:
        await first.trigger("first")
        await first.trigger("second")
        await first.pass_time(3.25)
        assert model.asked == ON_TIME[:3]
        async with town(shared, model) as elsewhere:  # a second process that writes, and does not drain
            await elsewhere.rt.inboxes.trigger("tester", "from elsewhere")
            await first.motor.run_until_idle(200)
            assert model.asked == ON_TIME[:3]
    async with town(shared, model) as again:
        await again.motor.run_until_idle(200)
        await again.trigger("third")
        await again.pass_time(15.0)
        assert model.asked == ON_TIME


async def test_a_parked_event_that_a_service_retries_is_tried_at_once(journal: OpenStore) -> None:
    async with town(journal, Refusing(ManualClock(), RuntimeError("a bug"))) as here:
        await here.trigger("bad")
        [bad] = await here.rt.inboxes.list("tester")
        assert (bad.status, here.model.asked) == ("failed", [0.0] * 3)
        here.model.fault = REFUSED
        await here.trigger("good")
        here.model.fault = None
        await here.rt.inboxes.retry("tester", bad.event_id)
        await here.motor.run_until_idle(200)
        assert here.model.asked == [0.0] * 6
        assert {event.status for event in await here.rt.inboxes.list("tester")} == {"processed"}


async def test_a_cancel_ends_a_run_that_is_backing_off_at_once_and_the_rest_waits(journal: OpenStore) -> None:
    async with town(journal, Refusing(ManualClock())) as here:
        await here.trigger("first")
        await here.trigger("second")
        await here.pass_time(1.0)
        run = (await here.rt.runs.list(thread_id=here.home))[-1]
        await here.rt.runs.cancel(run.id)
        await here.motor.run_until_idle(200)
        assert (await here.rt.runs.get(run.id)).status == "cancelled"
        assert here.model.asked == ON_TIME[:2]
        with pytest.raises(RunOver):
            await here.rt.runs.cancel(run.id)
        await here.pass_time(2.75)
        assert here.model.asked == ON_TIME[:2]
        await here.pass_time(3.0)
        assert here.model.asked == ON_TIME[:3]


async def test_how_long_to_spare_a_model_is_forgotten_with_the_run(journal: OpenStore) -> None:
    async with town(journal, Refusing(ManualClock())) as here:
        for began in (0.0, 4.0):
            await here.pass_time(began)
            here.model.asked.clear()
            await here.trigger("alone")
            await here.pass_time(began + 2.0)
            assert here.model.asked == [began, began + 1.0]
            await here.rt.runs.cancel((await here.run()).id)
            await here.motor.run_until_idle(200)
            assert (
                await here.run()
            ).completed_at == here.clock.now()  # a cancellation takes effect without delay


async def test_a_cancel_while_the_failing_model_is_asked_is_not_put_off(journal: OpenStore) -> None:
    async with town(journal, Refusing(ManualClock())) as here:

        async def cancel() -> None:
            unit = RequestCancel(
                token="by another process",
                at=here.clock.now(),
                thread_id=here.home,
                run_id=(await here.run()).id,
            )
            await here.store.commit(unit)

        here.model.meanwhile = cancel
        await here.trigger("first")
        assert (await here.run()).status == "cancelled"
        assert here.model.asked == [0.0]


async def test_a_thread_without_an_error_wakes_at_once(journal: OpenStore) -> None:
    model = Refusing(ManualClock(), None)
    async with town(journal, model) as here:
        for n in range(5):
            await here.trigger(f"event {n}")
        assert model.asked == [0.0] * 5
        model.fault = REFUSED
        await here.trigger("worse")
        model.fault = None
        await here.pass_time(1.0)
        assert model.asked == [0.0] * 6 + [1.0]
        await here.trigger("well again")
        assert model.asked == [0.0] * 6 + [1.0] * 2
        model.fault = REFUSED
        await here.trigger("worse again")
        await here.pass_time(2.0)
        assert model.asked[-2:] == [1.0, 2.0]  # it starts at one second again


async def test_messages_of_a_person_are_answered_with_the_error_at_once_where_nothing_else_waits(
    journal: OpenStore,
) -> None:
    async with town(journal, Refusing(ManualClock())) as here:
        thread = await here.rt.threads.create("tester")
        for n in range(1, 4):
            run = await here.rt.threads.send(thread.id, "Hello?")
            await here.motor.run_until_idle(200)
            assert (await here.rt.runs.get(run.id)).status == "failed"
            assert here.model.asked == [0.0] * n


@pytest.mark.parametrize("fault", [REFUSED, ModelError("odd"), StoreError("the disk is full")])
async def test_every_error_of_model_or_journal_holds_the_due_time(fault: Exception) -> None:
    async def memory(bus: MemoryBus) -> Store:
        return MemoryStore(bus.publish)

    async with town(memory, Refusing(ManualClock(), fault)) as here:
        for n in range(5):
            await here.trigger(f"event {n}")
        await here.pass_time(15.0)
        assert here.model.asked == ON_TIME
        assert here.clock.now() - (await here.run()).created_at == timedelta(seconds=15)


async def test_each_back_off_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def memory(bus: MemoryBus) -> Store:
        return MemoryStore(bus.publish)

    async with town(memory, Refusing(ManualClock())) as here:
        await here.trigger("first")
        await here.pass_time(3.0)
        run = await here.run()
    said = [line for line in caplog.messages if run.id in line]
    assert said == [
        f"Run {run.id} is retried in {delay} s, because its model failed: {REFUSED.message}"
        for delay in (1, 2, 4)
    ]


# ── messages of the thread itself ─────────────────────────────────────────────────────────────────────────────

AWAY = ModelUnavailable("fake:model is overloaded (503).")
MINUTES = 60.0


async def spoken(here: Town) -> str:
    """Return the id of a run that a person's message has started."""
    thread = await here.rt.threads.create("tester")
    sent = await here.rt.threads.send(thread.id, "Hello")
    await here.motor.run_until_idle(200)
    return sent.id


async def test_a_person_waits_until_the_model_is_back(journal: OpenStore) -> None:
    async with town(journal, Refusing(ManualClock(), AWAY)) as here:
        run_id = await spoken(here)
        run = await here.rt.runs.get(run_id)
        shown = ListedRun.of(run)["waiting"]
        assert isinstance(shown, dict)
        assert (run.status, shown["reason"], shown["error"]) == ("queued", "model", AWAY.message)
        assert datetime.fromisoformat(str(shown["retryAt"])) - here.clock.now() == timedelta(seconds=1)
        await here.pass_time(15.0)
        assert here.model.asked == ON_TIME
        here.model.fault = None
        await here.pass_time(31.0)
        run = await here.rt.runs.get(run_id)
        assert (run.status, run.waiting, run.error, run.output) == ("completed", None, None, "I see.")
        assert here.model.asked == [*ON_TIME, 31.0]


async def test_an_outage_that_lasts_too_long_ends_the_run(journal: OpenStore) -> None:
    settings = Settings(max_outage=timedelta(minutes=2))
    async with town(journal, Refusing(ManualClock(), AWAY), settings) as here:
        run_id = await spoken(here)
        await here.pass_time(5 * MINUTES)
        run = await here.rt.runs.get(run_id)
        assert (run.status, run.error, run.error_code) == ("failed", AWAY.message, "model_unavailable")
        assert run.waiting is None
        assert here.model.asked == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0]  # the next one would be after 127 s


async def test_each_outage_of_a_run_is_counted_by_itself(journal: OpenStore) -> None:
    model = Refusing(ManualClock(), AWAY, first=(ModelCall(id="m", name="ask_outside", arguments="{}"),))
    async with town(journal, model, Settings(max_outage=timedelta(seconds=8))) as here:
        run_id = await spoken(here)
        await here.pass_time(2.0)
        model.fault = None
        model.meanwhile = partial(_fail_from_now, model)
        await here.pass_time(9.0)  # unavailable since 3 s, next attempt at 10 s
        assert (await here.rt.runs.get(run_id)).status == "queued"
        model.fault, model.meanwhile = None, None
        await here.pass_time(20.0)
        assert (await here.rt.runs.get(run_id)).status == "completed"


async def _fail_from_now(model: Refusing) -> None:
    if model.first:
        return
    model.fault = AWAY


@pytest.mark.parametrize(("wanted", "asked"), [(0.5, [0.0, 1.0, 3.0]), (5.0, [0.0, 5.0]), (90.0, [0.0])])
async def test_what_the_provider_asks_for_counts_if_it_is_longer(
    journal: OpenStore, wanted: float, asked: list[float]
) -> None:
    fault = ModelUnavailable("fake:model is busy (429).", retry_after=wanted)
    settings = Settings(max_outage=timedelta(minutes=1))
    async with town(journal, Refusing(ManualClock(), fault), settings) as here:
        run_id = await spoken(here)
        await here.pass_time(6.0)
        assert here.model.asked == asked
        assert (await here.rt.runs.get(run_id)).status == ("failed" if wanted > 60 else "queued")


async def test_a_run_that_waits_for_its_model_can_be_cancelled(journal: OpenStore) -> None:
    async with town(journal, Refusing(ManualClock(), AWAY)) as here:
        run_id = await spoken(here)
        await here.pass_time(8.0)
        await here.rt.runs.cancel(run_id)
        await here.motor.run_until_idle(200)
        run = await here.rt.runs.get(run_id)
        assert (run.status, run.waiting, len(here.model.asked)) == ("cancelled", None, 4)


async def test_a_refused_message_and_an_app_that_waits_for_nothing_fail_at_once(journal: OpenStore) -> None:
    for fault, settings in ((REFUSED, Settings()), (AWAY, Settings(max_outage=timedelta(0)))):
        async with town(journal, Refusing(ManualClock(), fault), settings) as here:
            assert (await here.rt.runs.get(await spoken(here))).status == "failed"


async def test_what_is_refused_for_its_content_is_set_aside_after_bounded_attempts(
    journal: OpenStore,
) -> None:
    fault = ModelRefused("fake:model refused the request (400): no.", of_content=True)
    async with town(
        journal, Refusing(ManualClock(), fault), Settings(max_outage=timedelta(minutes=2))
    ) as here:
        await here.trigger("event 0")
        await here.pass_time(60.0)
        assert (await here.run()).status == "queued"  # a wrong configuration can be corrected for two minutes
        await here.pass_time(3 * MINUTES)
        [event] = await here.rt.inboxes.list(here.agent_id)
        assert (event.status, event.attempts) == ("failed", 3)
        assert len(here.model.asked) == 7 + 2  # for two minutes, then once per attempt
        assert {(run.status, run.error) for run in await here.rt.runs.list(thread_id=here.home)} == {
            ("failed", fault.message)
        }
        here.model.fault = None
        await here.trigger("event 1")
        assert (await here.run()).output == "I see."  # the thread continues
        await here.rt.inboxes.retry(here.agent_id, event.event_id)
        await here.motor.run_until_idle(200)
        assert [each.status for each in await here.rt.inboxes.list(here.agent_id)] == ["processed"] * 2


async def test_an_outage_outlasts_the_process(shared: OpenStore) -> None:
    clock = ManualClock()
    settings = Settings(max_outage=timedelta(seconds=20))
    async with town(shared, Refusing(clock, AWAY), settings) as here:
        run_id = await spoken(here)
        await here.pass_time(8.0)
    async with town(shared, Refusing(clock, AWAY), settings) as here:
        await here.pass_time(14.0)
        assert here.model.asked == []
        assert (await here.rt.runs.get(run_id)).waiting is not None
        await here.pass_time(16.0)
        assert here.model.asked == [15.0]
        assert (await here.rt.runs.get(run_id)).status == "failed"  # the next attempt would be after 31 s


@pytest.mark.parametrize("seconds", [5.0, 1_000.0])
async def test_a_prompt_tool_waits_for_its_model_as_a_run_does(journal: OpenStore, seconds: float) -> None:
    clock = ManualClock()
    helper = Refusing(clock, ModelUnavailable("The model is overloaded."))
    asks = ModelCall(id="c1", name="helper", arguments='{"message": "Help"}')
    model = Refusing(clock, None, first=(asks,))
    prompt = tw.Prompt("helper", "Help.", model=helper, tool_description="Helps.", expose_as_tool=True)
    async with town(journal, model, prompts=[prompt], tools=["helper"]) as here:
        thread = await here.rt.threads.create("tester")
        run = await here.rt.threads.send(thread.id, "Go")
        await here.motor.run_until_idle(200)
        run = await here.rt.runs.get(run.id)
        assert (run.status, (run.waiting or {}).get("reason")) == ("queued", "model")
        if seconds < 600:
            helper.fault = None
        await here.pass_time(seconds)
        run = await here.rt.runs.get(run.id)
        assert (run.status, run.output, run.error, run.waiting) == ("completed", "I see.", None, None)
        [call] = [
            each
            for each in await here.rt.calls.list(run_id=run.id, status=tuple(MOVES))
            if each.parent_id is None
        ]
        result = "success" if seconds < 600 else "error"
        assert call.result is not None and call.result["status"] == result
        assert len(model.asked) == 2
        events = await here.rt.events.list(Topic(kind="run", id=run.id), limit=1_000)
        kinds = [event.type for event in events if event.type in ("run.queued", "run.started")]
        assert kinds[:3] == ["run.queued", "run.started", "run.queued"]
        assert kinds.count("run.queued") == 2


async def test_a_prompt_that_a_handler_calls_fails_as_the_handler_sees_it(journal: OpenStore) -> None:
    clock = ManualClock()
    helper = Refusing(clock, ModelUnavailable("The model is overloaded."))
    model = Refusing(clock, None, first=(ModelCall(id="c1", name="ask", arguments="{}"),))
    prompt = tw.Prompt("helper", "Help.", model=helper, tool_description="Helps.", expose_as_tool=True)

    @tw.tool(description="Ask the helper.")
    async def ask(state: tw.ThreadState) -> str | None:
        return (await state.invoke_tool("helper", {"message": "Help"})).error

    async with town(journal, model, prompts=[prompt], tools=["helper", ask]) as here:
        thread = await here.rt.threads.create("tester")
        run = await here.rt.threads.send(thread.id, "Go")
        await here.motor.run_until_idle(200)
        assert (await here.rt.runs.get(run.id)).status == "completed"
        said = [each.content for each in await here.rt.threads.messages(thread.id) if each.role == "tool"]
        assert said == ["The model is overloaded."]
