"""Tasks of MCP servers whose calls end otherwise at the same time, or whose servers or agents no longer exist."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.kit import until
from toolwright import testing
from toolwright.adapters.mcp.executor import TASK_LASTS
from toolwright.core.errors import StoreError
from toolwright.core.journal.child_effects import Terminate
from toolwright.core.journal.units import Apply, Committed, SubmitResult, Unit
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.mcp.listing import McpListing, McpPrompts, read_listed
from toolwright.core.mcp.servers import (
    McpPromptText,
    McpRefused,
    McpTask,
    McpTaskState,
    McpTaskUnknown,
    McpUnavailable,
)
from toolwright.core.ports import Drain
from toolwright.core.results import Outcome, Pending, RemoteTask, ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.threads.call import Call
from toolwright.core.tools.mcp import McpCall, McpTarget, target_of
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio
WORKING = McpTaskState(status="working", poll=0.5)
DONE = McpTaskState(status="completed", result=ToolResult.ok("All done."))
ASKS = McpTaskState(status="input_required", poll=0.5, questions={"where": {"message": "Where?"}})
ACCEPTED: JSONObject = {"action": "accept", "content": {}}
HOUR = 3600.0


class Servers:
    """A server whose tool `work` becomes a task; `state` is its progress, `hook` runs before each answer.

    It answers nothing while its `gate` is closed.
    """

    def __init__(self) -> None:
        self.state = WORKING
        self.fault: Exception | None = None
        self.hook: Callable[[], Awaitable[object]] | None = None
        self.heard: list[str] = []
        self.kept = HOUR
        self.before: Callable[[ThreadState], Awaitable[object]] | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> Outcome:
        self.heard.append("call")
        if self.before is not None:
            await self.before(state)
        relation = prepared.tool.relation
        assert isinstance(relation, McpCall)
        place = target_of(relation.server, {"KEY": "k"}, {"KEY"}).place
        task = RemoteTask(id="t", server="peer", poll=0.5, place=place)
        return Pending(wait=prepared.tool.timeout, expires_in=self.kept, task=task)

    async def listing(self, target: McpTarget, seconds: float) -> McpListing:
        work: JSON = {
            "name": "work",
            "inputSchema": {"type": "object"},
            "annotations": {"idempotentHint": True},
        }
        tools, _ = read_listed(target.server, [work])
        return McpListing(server=target.server, status="ready", number=1, tools=tools)

    async def prompts(self, target: McpTarget, seconds: float) -> McpPrompts:
        return McpPrompts()

    async def prompt(self, target: McpTarget, name: str, arguments: Mapping[str, str]) -> McpPromptText:
        raise McpRefused("there are no prompts")

    async def _ask(self, what: str) -> None:
        self.heard.append(what)
        await self.gate.wait()
        hook, self.hook = self.hook, None
        if hook is not None:
            await hook()
        if self.fault is not None:
            raise self.fault

    async def task(
        self, target: McpTarget, task_id: str, output: JSONObject | None = None, session: str | None = None
    ) -> McpTaskState:
        state = self.state
        await self._ask("get")
        return state

    async def answer_task(
        self, target: McpTarget, task_id: str, answers: Mapping[str, JSON], session: str | None = None
    ) -> None:
        await self._ask("answer")

    async def cancel_task(self, target: McpTarget, task_id: str, session: str | None = None) -> None:
        await self._ask("cancel")


class Store(testing.MemoryStore):
    """A journal in memory that fails once, for a unit of that kind. One that is `kept` outlives its runtime."""

    away: type[Unit] | None = None
    kept = False

    async def close(self) -> None:
        if not self.kept:
            await super().close()

    async def commit(self, unit: Unit) -> Any:  # the journal's answer
        if self.away is not None and isinstance(unit, self.away):
            self.away = None
            raise StoreError("away")
        return await super().commit(unit)


class BusyClock(testing.ManualClock):
    """The clock of a machine so busy that 2 ms pass between any two readings."""

    def now(self) -> datetime:
        self.advance(0.002)
        return super().now()


class Motor(testing.ManualMotor):
    """A manual motor that exposes the drain of its timers."""

    drain: Drain

    async def start(self, drain: Drain, nudge: Callable[[str], None]) -> None:
        self.drain = drain
        await super().start(drain, nudge)


class Play:
    """A run that waits for a task."""

    def __init__(self, folder: Path, clock: testing.ManualClock, store: Store | None = None) -> None:
        bus, self.clock, self.servers = testing.MemoryBus(), clock, Servers()
        self.store = store or Store(bus.publish)
        self.motor = Motor(self.store, self.clock)
        turns: list[JSONObject] = [
            {"calls": [{"name": "work", "args": {}}]},
            {"text": "."},
            {"when": "Result", "text": "."},
        ]
        script = folder / "script.yaml"
        script.write_text(json.dumps(turns))  # JSON is valid YAML
        model = testing.ScriptedModel(turns)
        prompt = tw.Prompt("a", "Work.", model=model)
        app = tw.App(
            agents=[tw.Agent("a", prompt)], prompts=[prompt], mcp={"peer": {"url": "http://x.test/mcp"}}
        )
        parts = DefaultParts(
            store=self.store,
            motor=self.motor,
            bus=bus,
            clock=self.clock,
            executors={"mcp": self.servers},
            mcp=self.servers,
        )
        self.rt: Runtime = Runtime(app.catalog, parts, Settings(model=f"scripted:{script}"), inline_wait=0.0)

    async def begin(self, agent: str = "a") -> Call:
        """Return the call, whose task is in progress."""
        self.thread = await self.rt.threads.create(agent)
        self.run = await self.rt.threads.send(self.thread.id, "Go")
        await self.motor.run_until_idle()
        [call] = await self.rt.calls.list()
        return call

    async def look(self) -> None:
        """Wait until the next poll has ended."""
        await self.motor.run_timers()

    async def call(self) -> Call:
        calls = await self.rt.calls.list(status=None)
        return next(each for each in calls if each.parent_id is None)

    async def question(self) -> Call | None:
        """Return the question that a person is asked, if there is one."""
        return next((each for each in await self.rt.calls.list() if each.name == "elicit"), None)

    async def has_called(self) -> bool:
        """Return whether the server executes the call."""
        return self.servers.heard == ["call"]

    async def assert_times_out(self, call: Call) -> None:
        """Let the call's time pass. The configured timeout is reported."""
        self.clock.advance(60)
        await self.motor.run_timers()
        [told] = [each for each in await self.rt.threads.messages(self.thread.id) if each.call_id == call.id]
        assert told.content == '{"error":"Tool timed out after 30000ms","error_code":"timeout"}'

    async def is_forgotten(self) -> bool:
        """Return whether neither the task nor a timer is left."""
        call = await self.call()
        return (
            await self.store.records.one(McpTask, call.id) is None
            and await self.store.wake(f"mcp:{call.id}") is None
        )


@pytest.fixture
def clock() -> testing.ManualClock:
    return testing.ManualClock()


@pytest.fixture(name="it")
async def play(tmp_path: Path, clock: testing.ManualClock) -> AsyncGenerator[Play]:
    it = Play(tmp_path, clock)
    await it.rt.start()
    yield it
    await it.rt.stop(0.0)


async def test_a_task_that_ends_as_its_call_is_cancelled(it: Play) -> None:
    call = await it.begin()
    it.servers.state, it.servers.hook = DONE, lambda: it.rt.calls.cancel(call.id)
    await it.look()
    assert (await it.call()).status == "cancelled"
    assert await it.is_forgotten()


@pytest.mark.parametrize("clock", [BusyClock()], ids=["busy"])
async def test_the_timeout_of_a_task_is_reported_as_configured_however_busy_the_machine_is(it: Play) -> None:
    call = await it.begin()
    await it.assert_times_out(call)


async def test_the_time_in_which_a_person_was_asked_does_not_count_for_the_task(it: Play) -> None:
    async def ask(state: ThreadState) -> None:
        assert (await state.elicit("Where to?", {"type": "object", "properties": {}})).action == "accept"

    it.servers.before = ask
    begun = asyncio.create_task(it.begin())
    question = await until(it.question)
    await it.rt.calls.submit(question.run_id, question.id, ACCEPTED)
    await begun
    call = await it.call()
    assert call.deadline is not None
    assert call.started_at is not None
    assert (
        call.deadline - call.started_at
    ).total_seconds() > 30  # by the moments until the person has answered
    await it.assert_times_out(call)


async def test_a_call_that_is_repeated_after_its_process_has_stopped_has_its_whole_time(
    it: Play, tmp_path: Path
) -> None:
    async def never(_: ThreadState) -> None:
        await asyncio.Event().wait()

    it.servers.before = never
    begun = asyncio.create_task(it.begin())
    await until(it.has_called)
    begun.cancel()
    await asyncio.wait({begun})
    it.store.kept = True
    await it.rt.stop(0.0)
    it.store.kept = False
    it.clock.advance(HOUR)
    later = Play(tmp_path, it.clock, it.store)
    it.rt = later.rt  # which is stopped after the test
    await later.rt.start()
    await later.motor.run_until_idle()
    call = await later.call()
    assert (call.status, call.attempts) == ("waiting", 2)
    assert call.deadline is not None
    assert (call.deadline - later.clock.now()).total_seconds() == 30
    later.thread = it.thread
    await later.assert_times_out(call)


async def test_a_task_that_ends_as_its_call_expires(it: Play) -> None:
    call = await it.begin()

    async def late() -> None:
        it.clock.advance(2 * HOUR)

    it.servers.state, it.servers.hook = DONE, late
    await it.look()
    assert (await it.rt.calls.get(call.id)).status == "expired"
    assert await it.is_forgotten()
    assert await it.store.wake(f"call:{call.id}") is None


@pytest.mark.parametrize("state", [DONE, ASKS, WORKING], ids=lambda state: state.status)
async def test_two_looks_at_once(it: Play, state: McpTaskState) -> None:
    call = await it.begin()
    it.clock.advance(1)
    it.servers.state = state
    timer = f"mcp:{call.id}"

    async def meet() -> None:
        await it.motor.drain(timer)  # completely, during the other one

    it.servers.hook = meet
    await it.motor.drain(timer)
    asked = [each for each in await it.rt.calls.list() if each.name == "elicit"]
    assert len(asked) == (state is ASKS)
    it.servers.state = DONE
    for _ in range(3):
        await it.look()
    assert (await it.call()).result == {"status": "success", "result": "All done."}
    assert await it.is_forgotten()
    assert not await it.rt.calls.list()


async def test_a_question_that_is_answered_as_its_task_ends(it: Play) -> None:
    await it.begin()
    it.servers.state = ASKS
    await it.look()
    [asked] = [each for each in await it.rt.calls.list() if each.name == "elicit"]
    it.servers.state = DONE
    it.servers.hook = lambda: it.rt.calls.submit(asked.run_id, asked.id, ACCEPTED)
    await it.look()
    assert (await it.call()).status == "resolved"
    assert (await it.rt.calls.get(asked.id)).status == "resolved"
    assert await it.is_forgotten()


async def test_the_questions_of_a_task_that_ends_are_taken_back(it: Play) -> None:
    await it.begin()
    it.servers.state = ASKS
    await it.look()
    it.servers.state = DONE
    await it.look()
    assert not await it.rt.calls.list()


async def test_a_result_is_not_lost_if_the_journal_is_away_when_it_comes(it: Play) -> None:
    await it.begin()
    it.servers.state, it.store.away = DONE, SubmitResult
    with pytest.raises(StoreError):
        await it.look()
    await it.look()
    assert (await it.call()).result == {"status": "success", "result": "All done."}
    assert await it.is_forgotten()


@pytest.mark.parametrize("fault", [McpUnavailable("down"), McpTaskUnknown("unknown")], ids=["down", "gone"])
async def test_a_server_that_never_returns_ends_the_call(it: Play, fault: Exception) -> None:
    await it.begin()
    it.servers.fault = fault
    for _ in range(1000):
        if await it.is_forgotten():
            break
        await it.look()
    assert await it.is_forgotten()
    call = await it.call()
    assert call.status == ("expired" if isinstance(fault, McpUnavailable) else "resolved")
    assert len(it.servers.heard) < 150
    assert (await it.rt.runs.get(it.run.id)).status == "completed"


async def test_a_task_whose_server_does_not_say_how_long_it_keeps_it_is_given_up_after_a_week(
    it: Play,
) -> None:
    it.servers.kept = TASK_LASTS
    call = await it.begin()
    it.clock.advance(7 * 24 * HOUR - HOUR)
    await it.motor.run_until_idle()
    assert (await it.rt.calls.get(call.id)).status == "pending", "its run has gone on, and it is waited for"
    it.clock.advance(HOUR)
    await it.motor.run_until_idle()
    await it.look()
    assert (await it.rt.calls.get(call.id)).status == "expired"
    assert it.servers.heard[-1] == "cancel"
    assert await it.is_forgotten()


async def test_a_cancelled_task_is_cancelled_as_soon_as_its_server_can_be_reached(it: Play) -> None:
    call = await it.begin()
    it.servers.fault = McpUnavailable("down")
    await it.rt.calls.cancel(call.id)
    for _ in range(3):
        await it.look()
    it.servers.fault = None
    it.servers.heard.clear()
    await it.look()
    assert it.servers.heard == ["cancel"]
    assert await it.is_forgotten()


async def test_a_task_whose_thread_is_terminated_is_cancelled(it: Play) -> None:
    await it.begin()
    ends = Apply(token="end", at=it.clock.now(), effects=(Terminate(thread_id=it.thread.id),))
    assert isinstance(await it.store.commit(ends), Committed)
    for _ in range(3):
        await it.look()
    assert it.servers.heard[-1] == "cancel"
    assert await it.is_forgotten()


def config(*servers: JSON) -> JSONObject:
    return {"agent": {"system": "Work."}, "mcp": {"servers": [*servers]}}


PEER: JSONObject = {"name": "peer", "url": "https://x.test/mcp"}


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "pending"])
@pytest.mark.parametrize("change", ["delete", "without the server"])
async def test_a_task_whose_agent_is_gone_or_has_its_server_no_longer(
    it: Play, change: str, late: bool
) -> None:
    await it.rt.agents.save("b", config(PEER))
    await it.begin("b")
    if late:
        it.clock.advance(61)
        await it.motor.run_until_idle()
        assert (await it.call()).status == "pending"
    if change == "delete":
        await it.rt.agents.delete("b")
    else:
        await it.rt.agents.save("b", config())
    for _ in range(5):
        await it.look()
    assert (await it.call()).status in ("cancelled", "resolved")
    assert await it.is_forgotten()
    assert not await it.rt.calls.list()


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "over"])
async def test_no_other_server_is_asked_about_the_task_of_a_server_that_is_configured_again(
    it: Play, late: bool
) -> None:
    await it.rt.agents.save("b", config(PEER))
    call = await it.begin("b")
    it.servers.heard.clear()
    await it.rt.agents.save("b", config({**PEER, "url": "https://other.test/mcp"}))
    if late:
        await it.rt.calls.cancel(call.id)
    for _ in range(5):
        await it.look()
    assert it.servers.heard == []
    assert await it.is_forgotten()
    result = (await it.call()).result
    assert late or (result is not None and "is now configured at another place" in str(result))


@pytest.mark.parametrize(
    "change",
    [
        {"headers": {"Authorization": "Bearer x"}},
        {"timeout": 7000},
        {"url": "https://x.test/mcp?k=${env.KEY}"},
    ],
    ids=["headers", "options", "secret"],
)
async def test_a_server_that_is_where_it_was_is_asked_about_its_task_whatever_else_has_changed(
    it: Play, change: JSONObject
) -> None:
    before = {**PEER, "url": "https://x.test/mcp?k=${env.KEY}"} if "url" in change else PEER
    secret: JSONObject = {"env": {"KEY": {"value": "old-value", "type": "secret"}}}
    await it.rt.agents.save("b", {**config(before), **secret})
    await it.begin("b")
    it.servers.state = DONE
    changed: JSONObject = {"env": {"KEY": {"value": "new-value", "type": "secret"}}}
    await it.rt.agents.save("b", {**config({**before, **change}), **changed})
    await it.look()
    assert (await it.call()).result == {"status": "success", "result": "All done."}


async def test_the_tasks_of_a_server_that_hangs_hold_up_no_runs(it: Play) -> None:
    for _ in range(120):
        thread = await it.rt.threads.create("a")
        await it.rt.threads.send(thread.id, "Go")
    await it.motor.run_until_idle()
    calls = await it.rt.calls.list()
    assert len(calls) == 120
    it.clock.advance(1)
    it.servers.heard.clear()
    go_on = it.servers.gate = asyncio.Event()
    looks = [asyncio.create_task(it.motor.drain(f"mcp:{call.id}")) for call in calls]
    while len(it.servers.heard) + sum(look.done() for look in looks) < len(calls):  # noqa: ASYNC110 - iterations of the loop, no time
        await asyncio.sleep(0)
    assert len(it.servers.heard) == 100
    go_on.set()
    await asyncio.gather(*looks)
    it.servers.state = DONE
    for _ in range(200):
        await it.look()
    assert not await it.rt.calls.list(), "those that were put off have their turn"
