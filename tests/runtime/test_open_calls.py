"""The ends of open calls other than their results: they expire, are cancelled, are claimed (D9, D25)."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.databases import OpenStore, store_on, stores
from tests.kit import send_to
from tests.runtime.turned import Turned, expiring, outside, turned
from toolwright.core.errors import (
    AlreadyOver,
    CallCancelled,
    CallClaimed,
    CallExpired,
    CallResolved,
    InvalidRequest,
    NotFound,
    ToolwrightError,
)
from toolwright.core.journal.units import Advance, Conflict, Unit
from toolwright.core.json_value import JSON
from toolwright.core.threads.call import timer_of
from toolwright.core.threads.event import Topic
from toolwright.testing import MemoryBus, MemoryStore, ScriptedModel, by_hand, by_hand_on

pytestmark = pytest.mark.anyio
EXPIRED = '{"error":"Tool call expired"}'


opened = store_on("memory", "sqlite", "postgres")


async def late(made: Turned, run_id: str, call_id: str) -> ToolwrightError:
    """Submit a late result, and return the error."""
    with pytest.raises(ToolwrightError) as refused:
        await made.rt.calls.submit(run_id, call_id, 1)
    return refused.value


async def notices(made: Turned, thread_id: str) -> list[object]:
    inbox = await made.store.inbox(thread_id)
    return [event.content["result"] for event in inbox if event.type == "tool_result"]


@requirement("S3-7.4-7")
async def test_a_pending_call_expires_and_tells_the_agent_once(opened: OpenStore) -> None:
    async with turned(opened, expiring(None, 60.0)) as made:
        thread_id, run_id, call_id = await made.called()
        assert await made.store.wake(timer_of(call_id)) is not None
        await made.pass_time(59.9)
        assert (await made.rt.calls.get(call_id)).status == "pending"
        await made.pass_time(0.1)
        assert (await made.rt.calls.get(call_id)).status == "expired"
        assert await notices(made, thread_id) == [{"error": "Tool call expired"}]
        told = f"[Tool Result: outside] (callId: {call_id}) {EXPIRED}"
        assert (await made.read_by_the_model(thread_id))[1] == told
        refused = await late(made, run_id, call_id)
        assert (type(refused), refused.message) == (CallExpired, "Tool call expired")
        assert await made.store.wake(timer_of(call_id)) is None


async def test_a_waiting_call_expires_inline_without_an_inbox_event(opened: OpenStore) -> None:
    async with turned(opened, expiring(100.0, 60.0)) as made:
        thread_id, run_id, call_id = await made.called()
        await made.pass_time(60)
        assert (await made.rt.runs.get(run_id)).status == "completed"
        assert await made.read_by_the_model(thread_id) == [EXPIRED]
        assert await notices(made, thread_id) == []
        assert isinstance(await late(made, run_id, call_id), CallExpired)


async def test_a_call_that_timed_out_keeps_its_time_to_expire(opened: OpenStore) -> None:
    async with turned(opened, expiring(30.0, 60.0)) as made:
        thread_id, _, _ = await made.called()
        await made.pass_time(30)
        [read] = await made.read_by_the_model(thread_id)
        assert "Tool timed out after 30000ms" in read
        await made.pass_time(30)
        assert await notices(made, thread_id) == [{"error": "Tool call expired"}]


async def test_what_expired_while_nothing_ran_expires_at_the_next_start(tmp_path: Path) -> None:
    async with stores("sqlite", tmp_path) as opened:
        async with turned(opened, expiring(None, 60.0)) as made:
            thread_id, _, call_id = await made.called()
        made.clock.advance(3_600)
        async with turned(opened, expiring(None, 60.0), made.clock) as again:
            await again.motor.run_until_idle()
            assert (await again.rt.calls.get(call_id)).status == "expired"
            assert await notices(again, thread_id) == [{"error": "Tool call expired"}]


async def test_a_result_takes_the_timer_away(opened: OpenStore) -> None:
    async with turned(opened, expiring(None, 60.0)) as made:
        thread_id, run_id, call_id = await made.called()
        assert await made.rt.calls.submit(run_id, call_id, None) == "inbox"
        assert await made.store.wake(timer_of(call_id)) is None
        await made.pass_time(61)
        assert await notices(made, thread_id) == [None]


async def test_a_timer_that_fires_on_a_clock_set_back_is_not_lost(opened: OpenStore) -> None:
    async with turned(opened, expiring(None, 60.0)) as made:
        _, _, call_id = await made.called()
        await made.rt.calls.expire(call_id)
        wake = await made.store.wake(timer_of(call_id))
        assert wake is not None and wake.gen > 0
        await made.pass_time(60)
        assert (await made.rt.calls.get(call_id)).status == "expired"
        await made.rt.calls.expire(call_id)
        await made.rt.calls.expire("call_none")


@pytest.mark.parametrize("wait", [None, 30.0])
async def test_a_cancelled_call_tells_the_agent_once(opened: OpenStore, wait: float | None) -> None:
    async with turned(opened, expiring(wait, 60.0)) as made:
        thread_id, run_id, call_id = await made.called()
        assert (await made.rt.calls.cancel(call_id)).status == "cancelled"
        await made.motor.run_until_idle()
        cancelled = {"error": "Tool call cancelled"}
        assert await notices(made, thread_id) == ([cancelled] if wait is None else [])
        read = await made.read_by_the_model(thread_id)
        assert '{"error":"Tool call cancelled"}' in read[1 if wait is None else 0]
        refused = await late(made, run_id, call_id)
        assert (type(refused), refused.message) == (CallCancelled, "Tool call cancelled")
        assert await made.store.wake(timer_of(call_id)) is None
        with pytest.raises(CallCancelled):
            await made.rt.calls.cancel(call_id)


async def test_a_call_that_is_over_is_not_cancelled(opened: OpenStore) -> None:
    async with turned(opened, expiring(None, 60.0)) as made:
        _, run_id, call_id = await made.called()
        await made.rt.calls.submit(run_id, call_id, 1)
        with pytest.raises(CallResolved):
            await made.rt.calls.cancel(call_id)
        with pytest.raises(NotFound, match="Pending tool call not found"):
            await made.rt.calls.cancel("call_none")
    async with turned(opened, expiring(None, 60.0)) as made:
        _, _, call_id = await made.called()
        await made.pass_time(60)
        with pytest.raises(AlreadyOver, match="Tool call expired"):
            await made.rt.calls.cancel(call_id)


async def test_of_a_result_a_cancel_and_an_expiry_at_once_one_wins(opened: OpenStore) -> None:
    async with turned(opened, expiring(None, 60.0)) as made:
        for _ in range(6):
            thread_id, run_id, call_id = await made.called()
            made.clock.advance(60)
            calls = made.rt.calls
            await asyncio.gather(
                calls.submit(run_id, call_id, 1),
                calls.cancel(call_id),
                calls.expire(call_id),
                return_exceptions=True,
            )
            await made.motor.run_until_idle()
            assert (await calls.get(call_id)).status in ("cancelled", "expired")
            assert len(await notices(made, thread_id)) == 1


async def test_a_call_is_claimed_by_one_worker_who_may_renew(opened: OpenStore) -> None:
    async with turned(opened, expiring(None, 60.0)) as made:
        _, run_id, call_id = await made.called()
        claimed = await made.rt.calls.claim(call_id, "ann", 10)
        assert (claimed.worker, claimed.status) == ("ann", "pending")
        with pytest.raises(CallClaimed, match="Tool call already claimed"):
            await made.rt.calls.claim(call_id, "bob", 10)
        made.clock.advance(11)
        with pytest.raises(CallClaimed):
            await made.rt.calls.claim(call_id, "bob", 10)
        assert (await made.rt.calls.claim(call_id, "ann", 10)).leased_until is not None
        assert await made.rt.calls.submit(run_id, call_id, "by nobody who claimed it") == "inbox"
        with pytest.raises(CallResolved):
            await made.rt.calls.claim(call_id, "ann", 10)


@pytest.mark.parametrize("tool", [replace(outside, read_only=True), replace(outside, idempotent=True)])
async def test_a_lapsed_claim_of_a_repeatable_tool_is_free(opened: OpenStore, tool: tw.Tool) -> None:
    async with turned(opened, expiring(None, 60.0), tool=tool) as made:
        _, _, call_id = await made.called()
        await made.rt.calls.claim(call_id, "ann", 10)
        made.clock.advance(9.9)
        with pytest.raises(CallClaimed):
            await made.rt.calls.claim(call_id, "bob", 10)
        made.clock.advance(0.1)
        assert (await made.rt.calls.claim(call_id, "bob", 10)).worker == "bob"
        with pytest.raises(CallClaimed):
            await made.rt.calls.claim(call_id, "ann", 10)
        made.clock.advance(51)
        with pytest.raises(CallExpired):
            await made.rt.calls.claim(call_id, "bob", 10)


@pytest.mark.parametrize("lease", [0, 0.5, -1, 3_601, float("nan"), True, "10", None])
async def test_a_lease_out_of_bounds_is_refused(lease: float) -> None:
    async with stores("memory", Path()) as opened, turned(opened, expiring(None, None)) as made:
        _, _, call_id = await made.called()
        with pytest.raises(InvalidRequest, match="lease must be"):
            await made.rt.calls.claim(call_id, "ann", lease)
        for worker in ("", " ", "x" * 201, "\0", 5):
            with pytest.raises(InvalidRequest, match="worker must be"):
                await made.rt.calls.claim(call_id, worker, 10)  # type: ignore[arg-type]  # user input
        assert (await made.rt.calls.get(call_id)).worker is None


async def test_many_that_claim_at_once_are_one(opened: OpenStore) -> None:
    async with turned(opened, expiring(None, None), tool=outside) as made:
        _, _, call_id = await made.called()
        names = [f"worker {n}" for n in range(8)]
        claims = [made.rt.calls.claim(call_id, name, 10) for name in names]
        answers = await asyncio.gather(*claims, return_exceptions=True)
        won = [each for each in answers if not isinstance(each, BaseException)]
        assert len(won) == 1
        assert sum(isinstance(each, CallClaimed) for each in answers) == 7


async def test_calls_that_time_out_one_after_another_end_at_their_time_on_a_clock_by_hand() -> None:
    """A deadline is a sum of floats: it can be later than the time of the clock by a rounding error."""
    ask = tw.Tool(
        name="ask", description="Ask.", kind="external", parameters={"type": "object"}, timeout=0.01
    )
    turns: list[object] = [{"when": "Go", "calls": [{"name": "ask"}]}, {"text": "There is no answer."}]
    agent = tw.Agent("asker", tw.Prompt("asker", "Ask.", model=ScriptedModel(turns), tools=[ask]))
    async with by_hand(tw.App(agents=[agent])) as (rt, motor):
        thread = await rt.threads.create("asker")
        for _ in range(30):
            run = await rt.threads.send(thread.id, "Go")
            await motor.run_until_idle(50)
            await motor.run_timers()
            await motor.run_until_idle(50)
            assert (await rt.runs.get(run.id)).status == "completed"


async def test_a_process_that_stops_before_it_records_a_result_leaves_the_run_suspended_and_due() -> None:
    """The result and the claim of the run are one unit, and nothing of either is written."""

    class Kept(MemoryStore):
        async def close(self) -> None:
            """Stay open for the next process."""

    store = Kept(lambda _: None)

    async def opening(_: MemoryBus) -> MemoryStore:
        return store

    turns: JSON = [{"calls": [{"name": "outside", "args": {}}]}, {"text": "Thanks."}]
    model = ScriptedModel(turns)
    app = tw.App(agents=[tw.Agent("tester", tw.Prompt("tester", model=model, tools=[outside]))])
    async with by_hand_on(opening, app) as (rt, motor):
        run = await send_to(rt, "tester")
        await motor.run_until_idle()
        [call] = await rt.calls.list()
        await rt.calls.submit(run.id, call.id, 42)
        before = await rt.runs.get(run.id)
        worker = rt._drainer  # pyright: ignore[reportPrivateUsage]  # what a runtime does first when it stops
        worker.stop()
        assert await worker(run.thread_id) == "done"
        assert await rt.runs.get(run.id) == before
        assert before.status == "waiting"
    async with by_hand_on(opening, app) as (rt, motor):
        await motor.run_until_idle()
        after = await rt.runs.get(run.id)
        assert (after.status, after.output, after.lives) == ("completed", "Thanks.", 0)
        events = [each.type for each in await rt.events.list(Topic(kind="run", id=run.id))]
        assert events.count("run.started") == 2


async def test_a_result_that_could_not_be_recorded_with_the_claim_is_recorded_after_a_claim_of_its_own() -> (
    None
):
    """Otherwise a run whose result ends each process would be claimed for ever, and no crash would be counted."""
    units: list[tuple[str, bool]] = []

    class Refusing(MemoryStore):
        async def commit(self, unit: Unit) -> Any:  # the journal's answer
            if isinstance(unit, Advance):
                units.append((type(unit).__name__, bool(unit.messages)))
                if units.count(("Claim", True)) == 2 and units[-1] == ("Claim", True):
                    return Conflict(guard="duplicate")
            return await super().commit(unit)

    async def opening(bus: MemoryBus) -> MemoryStore:
        return Refusing(bus.publish)

    turns: JSON = [{"calls": [{"name": "outside", "args": {}}]}, {"text": "Thanks."}]
    prompt = tw.Prompt("tester", model=ScriptedModel(turns), tools=[outside])
    async with by_hand_on(opening, tw.App(agents=[tw.Agent("tester", prompt)])) as (rt, motor):
        run = await send_to(rt, "tester")
        await motor.run_until_idle()
        [call] = await rt.calls.list()
        units.clear()
        units.append(("Claim", True))  # the run's first claim reads the message
        await rt.calls.submit(run.id, call.id, 42)
        await motor.run_until_idle()
        assert (await rt.runs.get(run.id)).output == "Thanks."
    assert units[1:] == [("Claim", True), ("Claim", False), ("Result", True), ("Answer", True)]
