"""A call that needs an approval waits for it before it starts, and is executed once, or never."""

import asyncio
import sys
import threading
from collections.abc import Awaitable
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import toolwright as tw
from tests.runtime.approving import Ledger, asked, begun, paying, results, script
from tests.runtime.rig import assert_valid, running
from tests.runtime.test_loop import calling
from tests.runtime.test_variables import parked
from toolwright.core.errors import (
    CallCancelled,
    CallClaimed,
    CallExpired,
    CallResolved,
    InvalidRequest,
)
from toolwright.core.journal.approvals import Approve
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import OUTSIDE_TIMEOUT
from toolwright.core.threads.event import Topic
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_a_call_waits_before_it_begins_and_is_executed_once_it_is_approved() -> None:
    ledger = Ledger()
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        assert (call.status, call.approval, call.attempts, call.started_at) == ("waiting", "asked", 0, None)
        waiting = (await rig.rt.runs.get(run.id)).waiting
        assert waiting == {"reason": "approval", "callIds": [call.id]}
        assert ledger.paid == []
        assert await rig.rt.calls.submit(run.id, call.id, {"approved": True}) == "inline"
        assert await results(rig, run.id) == [("success", "Paid 5 to Ann")]
        assert ledger.paid == [("Ann", 5)]
        call = await rig.rt.calls.get(call.id)
        assert (call.status, call.approval, call.attempts) == ("done", "approved", 1)
        assert_valid(await rig.transcript(run.thread_id))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"approved": False, "reason": "too much"}, "The call was not approved: too much"),
        ({"approved": False}, "The call was not approved."),
        ({"approved": False, "reason": "  "}, "The call was not approved."),
    ],
)
async def test_a_refusal_is_the_error_that_the_model_reads(answer: JSONObject, text: str) -> None:
    ledger = Ledger()
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        await rig.rt.calls.submit(run.id, call.id, answer)
        [(status, content)] = await results(rig, run.id)
        assert (status, text in content) == ("error", True)
        result = (await rig.rt.calls.get(call.id)).result
        assert result is not None
        assert (result["error"], result["error_code"]) == (text, "not_approved")
        assert ledger.paid == []


async def test_edited_arguments_replace_its_own_and_the_model_is_notified() -> None:
    ledger = Ledger()
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        await rig.rt.calls.submit(run.id, call.id, {"approved": True, "args": {"to": "Bob", "amount": 1}})
        [(_, content)] = await results(rig, run.id)
        assert content.startswith(
            "Paid 1 to Bob\n\n[Before this call was approved, its arguments were changed to {"
        )
        assert ledger.paid == [("Bob", 1)]
        call = await rig.rt.calls.get(call.id)
        assert (call.arguments, call.approval) == ('{"to":"Bob","amount":1}', "edited")
        answer = next(each for each in await rig.transcript(run.thread_id) if each.calls)
        assert "Ann" in answer.calls[0].arguments  # as the model wrote it


async def test_arguments_that_are_returned_unchanged_are_no_change() -> None:
    ledger = Ledger()
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        await rig.rt.calls.submit(run.id, call.id, {"approved": True, "args": {"amount": 5, "to": "Ann"}})
        assert await results(rig, run.id) == [("success", "Paid 5 to Ann")]
        assert (await rig.rt.calls.get(call.id)).approval == "approved"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("yes", "waits for an approval"),
        (True, "waits for an approval"),
        ({"approved": "yes"}, "waits for an approval"),
        (tw.ToolResult.fail("no"), "waits for an approval"),
        ({"approved": True, "args": [1]}, "args must be an object"),
        ({"approved": False, "args": {}}, "only taken with an approval"),
        ({"approved": False, "reason": 7}, "reason must be text"),
        ({"approved": True, "arguments": {}}, "arguments is not known"),
        ({"approved": True, "args": {"to": "Bob", "amount": "1"}}, "amount"),
        ({"approved": True, "args": {}}, "to"),
    ],
)
async def test_what_is_no_answer_is_refused_and_changes_nothing(answer: Any, words: str) -> None:
    ledger = Ledger()
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        with pytest.raises(InvalidRequest, match=words):
            await rig.rt.calls.submit(run.id, call.id, answer)
        assert (await rig.rt.calls.get(call.id)) == call
        await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        assert await results(rig, run.id) == [("success", "Paid 5 to Ann")]


async def test_edited_arguments_that_only_the_types_of_the_tool_reject_are_refused_and_change_nothing() -> (
    None
):
    class Item(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def known(cls, number: int) -> int:
            if number == 13:
                raise ValueError("there is no item 13")
            return number

    @tw.tool(requires_approval=True)
    async def order(items: list[Item]) -> str:
        """Order items."""
        return f"Ordered {[each.number for each in items]}"

    model = ScriptedModel([calling("order", args={"items": [{"number": 1}]}), {"text": "Done."}])
    async with running(model, [order]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        with pytest.raises(InvalidRequest) as refused:
            await rig.rt.calls.submit(
                run.id, call.id, {"approved": True, "args": {"items": [{"number": 13}]}}
            )
        assert refused.value.details == [
            {"path": "result.args.items.0.number", "message": "there is no item 13"}
        ]
        assert (await rig.rt.calls.get(call.id)) == call
        await rig.rt.calls.submit(run.id, call.id, {"approved": True, "args": {"items": [{"number": 2}]}})
        [(status, content)] = await results(rig, run.id)
        assert (status, content.partition("\n")[0]) == ("success", "Ordered [2]")


async def test_terms_may_forbid_other_arguments_and_reasons() -> None:
    ledger = Ledger(tw.Approval(edit=False, reason=False))
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        answers: list[tuple[JSONObject, str]] = [
            ({"approved": True, "args": {"to": "Bob", "amount": 1}}, "result.args"),
            ({"approved": False, "reason": "no"}, "result.reason"),
        ]
        for answer, path in answers:
            with pytest.raises(InvalidRequest) as refused:
                await rig.rt.calls.submit(run.id, call.id, answer)
            assert refused.value.details[0]["path"] == path
        await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        assert await results(rig, run.id) == [("success", "Paid 5 to Ann")]


async def test_invalid_arguments_ask_no_one() -> None:
    ledger = Ledger()
    async with running(script(paying(amount="five")), [ledger.tool]) as rig:
        run = await begun(rig)
        [(status, content)] = await results(rig, run.id)
        assert (status, "amount" in content) == ("error", True)


def large(arguments: JSONObject) -> bool:
    return int(str(arguments["amount"])) > 100


async def large_later(arguments: JSONObject) -> bool:
    await asyncio.sleep(0)
    return large(arguments)


@pytest.mark.parametrize("when", [large, large_later])
async def test_a_function_of_the_validated_arguments_decides_which_calls_need_it(when: Any) -> None:
    ledger = Ledger(when)
    async with running(
        script(paying("Ann", 5), paying("Bob", 500), paying("Cid", 7.0)), [ledger.tool]
    ) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        assert "Bob" in call.arguments
        assert ledger.paid == [("Ann", 5)]
        await rig.rt.calls.submit(run.id, call.id, {"approved": False})
        assert [status for status, _ in await results(rig, run.id)] == ["success", "error", "success"]
        assert ledger.paid == [("Ann", 5), ("Cid", 7)]


def broken(arguments: JSONObject) -> bool:
    raise RuntimeError("no idea")


async def broken_later(arguments: JSONObject) -> bool:
    raise RuntimeError("no idea")


@pytest.mark.parametrize("when", [broken, broken_later])
async def test_where_it_is_unknown_whether_a_call_needs_one_it_does(
    when: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger(when)
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        assert "The approval rule of 'pay' failed" in caplog.text
        await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        assert await results(rig, run.id) == [("success", "Paid 5 to Ann")]


async def test_its_timer_ends_no_call_before_its_time() -> None:
    ledger = Ledger(tw.Approval(expires_in=120))
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        assert call.expires_at is not None
        assert (call.expires_at - call.created_at).total_seconds() >= 120
        await rig.rt.calls.expire(call.id)
        assert (await rig.rt.calls.get(call.id)).awaits_approval


@pytest.mark.idle_clock
async def test_a_call_not_answered_in_time_is_refused_by_the_system() -> None:
    ledger = Ledger(tw.Approval(expires_in=0.05))
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        [(status, content)] = await results(rig, run.id)
        assert status == "error"
        assert "The call was not approved: nobody answered within 0.05 seconds." in content
        [call] = await rig.rt.calls.list(run_id=run.id, status=("expired",))
        with pytest.raises(CallExpired):
            await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        assert ledger.paid == []


async def test_of_two_answers_at_once_one_wins() -> None:
    ledger = Ledger()
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        answers: list[Awaitable[object]] = [
            rig.rt.calls.submit(run.id, call.id, {"approved": number % 2 == 0}) for number in range(20)
        ]
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert outcomes.count("inline") == 1
        assert all(isinstance(each, CallResolved) for each in outcomes if each != "inline")
        [(status, _)] = await results(rig, run.id)
        assert len(ledger.paid) == (status == "success")


async def test_a_late_answer_is_reported_as_late() -> None:
    ledger = Ledger()
    async with running(script(paying("Ann"), paying("Bob")), [ledger.tool]) as rig:
        run = await begun(rig)
        first = await asked(rig, run.id)
        await rig.rt.calls.submit(run.id, first.id, {"approved": True})
        second = await asked(rig, run.id)
        with pytest.raises(CallResolved, match="already approved"):
            await rig.rt.calls.submit(run.id, first.id, {"approved": False})
        await rig.rt.calls.submit(run.id, second.id, {"approved": False})
        with pytest.raises(CallResolved):
            await rig.rt.calls.submit(run.id, second.id, {"approved": True})
        await results(rig, run.id)
        assert ledger.paid == [("Ann", 5)]


async def test_a_run_that_is_cancelled_takes_its_question_back() -> None:
    ledger = Ledger(tw.Approval(expires_in=600))
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        await rig.rt.runs.cancel(run.id)
        [(status, content)] = await results(rig, run.id)
        assert (status, "Run cancelled before this call was approved." in content) == ("error", True)
        assert (await rig.rt.calls.get(call.id)).status == "cancelled"
        with pytest.raises(CallCancelled):
            await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        assert await rig.store.wake(f"call:{call.id}") is None
        assert await rig.rt.calls.list(run_id=run.id) == []


async def test_its_service_may_take_it_back_but_no_worker_may_claim_it() -> None:
    ledger = Ledger()
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        with pytest.raises(CallClaimed, match="waits for an approval"):
            await rig.rt.calls.claim(call.id, "worker", 60)
        await rig.rt.calls.cancel(call.id)
        [(status, content)] = await results(rig, run.id)
        assert (status, "Tool call cancelled" in content) == ("error", True)


async def test_missing_values_come_before_the_approval() -> None:
    ledger = Ledger(variables=[tw.Variable("REGION")])
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        await rig.rt.requests.answer(run.thread_id, await parked(rig, run.id), {"REGION": "eu"})
        call = await asked(rig, run.id)
        await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        assert await results(rig, run.id) == [("success", "Paid 5 to Ann")]


async def test_an_outside_call_is_offered_once_it_is_approved_and_its_result_is_its_own() -> None:
    pay = tw.Tool.from_config(
        {
            "name": "pay",
            "description": "Pay.",
            "inputSchema": {"type": "object", "properties": {"to": {}, "amount": {"type": "integer"}}},
            "executionType": "external",
            "requiresApproval": {"expiresIn": 60_000},
        }
    )
    async with running(script(), [pay]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        async with rig.rt.offers.following() as following:
            offer = await anext(following.events)
        assert offer.payload["toolCallId"] == call.id
        with pytest.raises(CallResolved, match="already approved"):  # two clicks
            await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        await rig.rt.calls.submit(run.id, call.id, {"receipt": 7})
        assert await results(rig, run.id) == [("success", '{"receipt":7}')]
        assert (await rig.rt.calls.get(call.id)).expires_at is None


async def test_a_tool_that_answers_itself_waits_too() -> None:
    note = tw.Tool.from_config(
        {
            "name": "note",
            "description": "Note.",
            "inputSchema": {"type": "object"},
            "executionType": "internal",
            "requiresApproval": True,
        }
    )
    model = ScriptedModel([{"calls": [{"name": "note", "args": {"a": 1}}]}, {"text": "Done."}])
    async with running(model, [note]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        await rig.rt.calls.submit(run.id, call.id, {"approved": True, "args": {"a": 2}})
        [(status, content)] = await results(rig, run.id)
        assert (status, content.startswith('{"success":true,"args":{"a":2}}')) == ("success", True)


async def test_the_streams_tell_that_a_call_waits_then_begins() -> None:
    ledger = Ledger()
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        await rig.rt.calls.submit(run.id, call.id, {"approved": True, "args": {"to": "Bob", "amount": 1}})
        told = [event async for event in rig.rt.runs.stream(run.id)]
        [waiting] = [each for each in told if isinstance(each, tw.CallWaiting)]
        assert waiting == tw.CallWaiting(call.id, "pay", {"to": "Ann", "amount": 5}, "approval")
        [started] = [each for each in told if isinstance(each, tw.CallStarted)]
        assert started.arguments == {"to": "Bob", "amount": 1}
        assert told.index(waiting) < told.index(started)


@pytest.mark.one_journal
async def test_more_calls_of_one_answer_than_a_stack_is_deep_wait_one_after_another() -> None:
    many = sys.getrecursionlimit() + 200
    ledger = Ledger()
    async with running(script(*[paying(f"n{n}", n) for n in range(many)]), [ledger.tool]) as rig:
        run = await begun(rig)
        for _ in range(many):
            call = await asked(rig, run.id, parked=False)
            await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        await rig.rt.runs.wait(run.id, 60)
        assert ledger.paid == [(f"n{n}", n) for n in range(many)]


@pytest.mark.idle_clock
async def test_a_cancel_does_not_wait_for_a_function_that_hangs() -> None:
    begun_asking = asyncio.Event()

    async def hang(arguments: JSONObject) -> bool:
        begun_asking.set()
        await asyncio.Event().wait()
        return False

    ledger = Ledger(hang)
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        await begun_asking.wait()
        loop = asyncio.get_running_loop()
        before = loop.time()
        await rig.rt.runs.cancel(run.id)
        assert (await rig.rt.runs.wait(run.id, 60)).status == "cancelled"
        assert loop.time() - before < OUTSIDE_TIMEOUT
        assert ledger.paid == []


@pytest.mark.idle_clock
async def test_a_function_that_hangs_counts_as_yes() -> None:
    async def hang(arguments: JSONObject) -> bool:
        await asyncio.Event().wait()
        return False

    ledger = Ledger(hang)
    async with running(script(), [ledger.tool]) as rig:
        run = await begun(rig)
        async for event in rig.rt.events.follow(Topic(kind="run", id=run.id), after=0):
            if event.type == "run.waiting":
                break
        call = await asked(rig, run.id)
        await rig.rt.calls.submit(run.id, call.id, {"approved": True})
        assert await results(rig, run.id) == [("success", "Paid 5 to Ann")]


async def test_a_large_object_is_looked_at_in_a_thread_and_edited_like_any() -> None:
    threads: set[int] = set()

    def counted(arguments: JSONObject) -> bool:
        threads.add(threading.get_ident())
        return True

    ledger = Ledger(counted)
    long = "x" * 2_000_000
    async with running(script(paying(long)), [ledger.tool]) as rig:
        run = await begun(rig)
        call = await asked(rig, run.id)
        assert threads.isdisjoint({threading.get_ident()})
        other = "y" * 2_000_000
        await rig.rt.calls.submit(run.id, call.id, {"approved": True, "args": {"to": other, "amount": 1}})
        [(status, _)] = await results(rig, run.id)
        assert (status, ledger.paid) == ("success", [(other, 1)])
        [event] = [unit.event for unit in rig.store.committed if isinstance(unit, Approve)]
        assert "args" not in event.payload
