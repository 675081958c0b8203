"""Approvals in every journal: requested, granted and refused, each by one compare-and-set."""

import asyncio
from dataclasses import replace

import pytest
from tests.conformance.conftest import Journal
from tests.play import AT, Drain, begun, change, committed, draft, dump, later, settle, token

from toolwright.core.journal.agent_effects import DropTimer, SetTimer
from toolwright.core.journal.approvals import Approve, AskAgain, Refuse
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import (
    CancelCall,
    Committed,
    Conflict,
    Expire,
    RequestCancel,
    Result,
    SubmitResult,
    Unit,
)
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.call import Call, timer_of
from toolwright.core.value import changed

pytestmark = pytest.mark.anyio

TERMS: JSONObject = {"by": ["ann"], "edit": True, "reason": False, "schema": {"type": "object"}}


def approve(call_id: str, arguments: str | None = None, at: float = 10) -> Approve:
    return Approve(
        token=token(),
        at=later(at),
        thread_id="th_1",
        call_id=call_id,
        arguments=arguments,
        requested=None if arguments is None else "{}",
        event=draft("tool.approved", toolCallId=call_id),
        effects=(DropTimer(name=timer_of(call_id)),),
    )


async def asked(store: Store) -> tuple[Drain, Call]:
    """A call of a run that waits a hundred seconds for an approval."""
    drain = await begun(store)
    call = drain.call(kind="external")
    await drain.answer(call)
    move = change(call, "waiting", terms=TERMS, expires_at=later(100))
    timer = SetTimer(name=timer_of(call.id), due=later(100))
    await drain.do(drain.unit(Result, changes=(move,), effects=(timer,)))
    row = await store.call(call.id)
    assert row is not None and row == move.after
    return drain, row


async def refused(store: Store, unit: Unit) -> None:
    before = await dump(store)
    assert await store.commit(unit) == Conflict(guard="call")
    assert await dump(store) == before


DECISION: JSONObject = {
    "action": "approved",
    "by": {"kind": "person", "id": "ann", "name": None},
    "door": "http",
}


async def test_a_decision_is_stored_with_what_it_decides_and_a_late_one_leaves_no_trace(store: Store):
    _, call = await asked(store)
    await committed(store, changed(approve(call.id), decisions=(DECISION,)))
    row = await store.call(call.id)
    assert row is not None and row.decisions == (DECISION,)
    await refused(store, changed(approve(call.id), decisions=({**DECISION, "door": "console"},)))


async def test_a_settled_call_has_all_of_its_decisions(store: Store):
    drain = await begun(store)
    call = drain.call(kind="external")
    await drain.answer(call)
    await drain.do(drain.unit(Result, changes=(change(call, "waiting"),)))
    unit = settle(SubmitResult, "th_1", call.id)
    await committed(store, changed(unit, decisions=(DECISION, {**DECISION, "action": "submitted"})))
    row = await store.call(call.id)
    assert row is not None and [each["action"] for each in row.decisions] == ["approved", "submitted"]


async def test_a_call_whose_tool_has_changed_is_returned_to_its_run_and_asked_for_again(store: Store):
    drain, call = await asked(store)
    again = AskAgain(
        token=token(), at=later(10), thread_id="th_1", call_id=call.id, terms={**TERMS, "returned": "h1"},
        effects=(DropTimer(name=timer_of(call.id)),),
    )  # fmt: skip
    await committed(store, again)
    row = await store.call(call.id)
    assert row is not None
    assert (row.status, row.approval, row.expires_at) == ("created", "asked", None)
    assert row.terms == {**TERMS, "returned": "h1"} and await store.wake(timer_of(call.id)) is None
    await refused(store, approve(call.id))  # it does not wait now
    await refused(store, changed(again, token=token()))
    move = change(row, "waiting", terms={**TERMS, "definition": "h2"}, expires_at=later(200))
    await drain.do(drain.unit(Result, changes=(move,)))
    await committed(store, approve(call.id, at=150))


async def test_only_the_first_request_to_cancel_a_run_is_its_decision(store: Store):
    drain = await begun(store)
    for door in ("http", "console"):
        unit = RequestCancel(
            token=token(),
            at=AT,
            thread_id="th_1",
            run_id=drain.run.id,
            decisions=({**DECISION, "door": door},),
        )
        await committed(store, unit)
    run = await store.run(drain.run.id)
    assert run is not None and [each["door"] for each in run.decisions] == ["http"]
    await drain.answer(drain.call())  # a worker's unit keeps what others have written
    run = await store.run(drain.run.id)
    assert run is not None and [each["door"] for each in run.decisions] == ["http"]


async def test_it_waits_without_having_begun_and_is_not_offered(store: Store):
    _, call = await asked(store)
    assert (call.status, call.approval, call.terms, call.started_at) == ("waiting", "asked", TERMS, None)
    assert call.awaits_approval
    assert await store.offers.claimable(AT, after=(later(-1_000), ""), before=later(1_000)) == []
    assert [each.id for each in await store.calls(status=("waiting",))] == [call.id]


@pytest.mark.parametrize("arguments", [None, '{"to": "Bob, \\u00e9, \\""}'])
async def test_approved_it_is_created_again_with_the_arguments_it_was_approved_with(
    journal: Journal, store: Store, arguments: str | None
):
    drain, call = await asked(store)
    wake = await store.wake("th_1")
    answer = await committed(store, approve(call.id, arguments))
    row = await store.call(call.id)
    assert row == call.approved(arguments)
    assert answer.run_id == call.run_id
    assert row is not None
    assert (row.approval, row.terms, row.expires_at) == (
        "approved" if arguments is None else "edited",
        TERMS,
        None,
    )
    after = await store.wake("th_1")
    assert after is not None and (wake is None or after.gen > wake.gen)
    assert await store.wake(timer_of(call.id)) is None
    assert journal.published[-1].type == "tool.approved"
    await drain.do(drain.unit(Result, changes=(change(row, "running"),)))
    row = await store.call(call.id)
    assert row is not None
    assert (row.status, row.attempts, row.started_at) == ("running", 1, AT)


async def test_refused_it_is_settled_inline(store: Store):
    _, call = await asked(store)
    answer = await committed(store, settle(Refuse, "th_1", call.id, later(10)))
    row = await store.call(call.id)
    assert row is not None
    assert (answer.route, row.status, row.route, row.approval) == ("inline", "resolved", "inline", "asked")
    assert not row.awaits_approval


async def test_a_result_is_none_of_its_answers_and_an_answer_none_of_a_result(store: Store):
    drain, call = await asked(store)
    await refused(store, settle(SubmitResult, "th_1", call.id, later(10)))
    await committed(store, approve(call.id))
    await refused(store, approve(call.id))
    await refused(store, settle(Refuse, "th_1", call.id, later(10)))
    await drain.do(
        drain.unit(Result, changes=(change(call.approved(None), "waiting"),))
    )  # another worker has claimed it
    await refused(store, approve(call.id))
    await refused(store, settle(Refuse, "th_1", call.id, later(10)))
    await committed(store, settle(SubmitResult, "th_1", call.id, later(10)))


async def test_its_time_decides_between_an_answer_and_the_system(store: Store):
    _, call = await asked(store)
    await refused(store, settle(Expire, "th_1", call.id, later(99)))
    await refused(store, approve(call.id, at=100))
    await refused(store, settle(Refuse, "th_1", call.id, later(100)))
    await committed(store, settle(Expire, "th_1", call.id, later(100)))
    await refused(store, approve(call.id, at=10))
    row = await store.call(call.id)
    assert row is not None and row.status == "expired"


async def test_of_all_who_answer_at_once_one_wins(store: Store):
    _, call = await asked(store)
    units: list[Unit] = []
    for _ in range(5):
        units += [approve(call.id), settle(Refuse, "th_1", call.id, later(10))]
    units.append(settle(CancelCall, "th_1", call.id, later(10)))
    answers = await asyncio.gather(*[store.commit(unit) for unit in units])
    won = [unit for unit, answer in zip(units, answers, strict=True) if isinstance(answer, Committed)]
    assert len(won) == 1
    row = await store.call(call.id)
    assert row is not None
    expected = {"Approve": "created", "Refuse": "resolved", "CancelCall": "cancelled"}
    assert row.status == expected[type(won[0]).__name__]


async def test_the_thread_of_another_has_no_say(store: Store):
    _, call = await asked(store)
    await begun(store, "th_2")
    await refused(store, replace(approve(call.id), thread_id="th_2"))
