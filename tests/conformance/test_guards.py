"""Every unit has its documented effect, and each of its guards rejects it without a trace."""

from dataclasses import replace

import pytest
from tests.conformance.conftest import Journal
from tests.play import (
    AT,
    Drain,
    begun,
    change,
    committed,
    create_thread,
    draft,
    dump,
    later,
    leave,
    new_id,
    post,
    request_cancel,
    said,
    settle,
    token,
)

from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.journal.retention import Prune
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import (
    Advance,
    Answer,
    CancelCall,
    Claim,
    Committed,
    Conflict,
    CreateThread,
    Expire,
    Finish,
    Leaving,
    Park,
    Probe,
    Release,
    RenameThread,
    Result,
    Settle,
    SubmitResult,
    Takeover,
    Unit,
)
from toolwright.core.threads.event import Topic
from toolwright.core.threads.thread import Thread

pytestmark = pytest.mark.anyio


async def refused(store: Store, unit: Unit, guard: Guard) -> None:
    """Check that the guard rejects the unit, and that the journal is unchanged."""
    before = await dump(store)
    assert await store.commit(unit) == Conflict(guard=guard)
    assert await dump(store) == before


async def test_a_thread_is_created_once(store: Store):
    thread = Thread(
        id="th_1", agent="helper", user_id="u", tags=("a", "b"), arguments={"x": 1}, created_at=AT
    )
    await committed(store, CreateThread(token=token(), at=AT, thread=thread))
    assert await store.thread("th_1") == thread
    await refused(
        store, CreateThread(token=token(), at=AT, thread=replace(thread, agent="other")), "duplicate"
    )


async def test_a_message_opens_a_run_and_wakes_the_thread(journal: Journal):
    store = journal.store
    await create_thread(store)
    unit = post("th_1")
    assert (await committed(store, unit)).run_id == unit.run.id
    view = await store.view("th_1")
    assert view is not None
    assert view.run == unit.run
    assert view.thread.run_id == unit.run.id
    assert [(event.n, event.run_id) for event in view.inbox] == [(1, unit.run.id)]
    assert view.wake is not None
    assert view.wake.due == AT
    assert [(event.n, event.type) for event in journal.published] == [(1, "run.queued")]


async def test_a_message_joins_the_open_run(journal: Journal):
    drain = await begun(journal.store)
    unit = post("th_1")
    assert (await committed(journal.store, unit)).run_id == drain.run.id
    [event] = await journal.store.unread("th_1")
    assert (event.n, event.run_id) == (2, drain.run.id)
    assert await journal.store.run(unit.run.id) is None
    assert [event.type for event in journal.published] == ["run.queued"]


async def test_a_message_for_no_thread_or_with_a_known_id_is_refused(store: Store):
    await refused(store, post("th_none"), "thread")
    drain = await begun(store)
    await committed(store, post("th_1", "msg_a"))
    await refused(store, post("th_1", "msg_a"), "duplicate")
    await committed(store, post("th_1", "msg_b"))
    await drain.do(drain.unit(Finish, {"status": "cancelled"}, read=("msg_a", "msg_b")))
    await refused(store, post("th_1", "msg_c", run_id=drain.run.id), "duplicate")


async def test_a_run_is_asked_to_cancel_while_it_is_open(store: Store):
    drain = await begun(store)
    await committed(store, request_cancel("th_1", drain.run.id))
    again = replace(request_cancel("th_1", drain.run.id), at=later(5))
    await committed(store, again)
    run = await store.run(drain.run.id)
    assert run is not None
    assert run.cancel_requested_at == AT
    await refused(store, request_cancel("th_1", "run_none"), "run")
    await refused(store, request_cancel("th_2", drain.run.id), "run")
    await drain.do(drain.unit(Finish, {"status": "cancelled"}))
    await refused(store, request_cancel("th_1", drain.run.id), "run")


async def test_a_claim_raises_the_epoch_and_reads_the_inbox(store: Store):
    drain = await begun(store)
    thread = await store.thread("th_1")
    assert thread is not None
    assert thread.epoch == 1 == drain.epoch
    assert [event.status for event in await store.inbox("th_1")] == ["processed"]
    assert await store.unread("th_1") == []


async def test_a_claim_may_open_a_run_for_what_waits(store: Store):
    drain = await begun(store)
    await drain.do(drain.unit(Finish, {"status": "completed", "completed_at": AT}))
    new = replace(drain.run, id="run_new", status="running", completed_at=None, created_at=later(1))
    opening = replace(drain.unit(Claim, opens=True), run=new)
    await refused(store, replace(opening, run=replace(new, id=drain.run.id)), "duplicate")
    await drain.do(opening)
    view = await store.view("th_1")
    assert view is not None
    assert view.run == new
    await refused(store, replace(drain.unit(Claim, opens=True), run=replace(new, id="run_x")), "fence")


@pytest.mark.parametrize("kind", [Claim, Takeover, Answer, Result, Park, Release, Finish])
async def test_a_stale_owner_changes_nothing(store: Store, kind: type[Advance]):
    drain = await begun(store)
    stale = Drain(store, "th_1", drain.run, epoch=drain.epoch, seq=drain.seq)
    await drain.do(drain.unit(Takeover, {"lives": 1}))
    status = "failed" if kind is Finish else "running"
    unit = stale.unit(kind, {"status": status}, messages=(said("late"),), events=(draft("message"),))
    await refused(store, unit, "fence")
    await refused(store, replace(unit, epoch=drain.epoch, seq=drain.seq + 1), "fence")
    await refused(store, replace(unit, thread_id="th_none"), "fence")


async def test_an_answer_and_results_are_written_whole(journal: Journal):
    store = journal.store
    drain = await begun(store)
    first, second = drain.call("running", started_at=AT, attempts=1), drain.call(position=1)
    await drain.answer(first, second, text="let me look")
    moves = (
        change(first, "done", result={"ok": True}),
        change(second, "waiting", deadline=later(10), expires_at=later(60)),
    )
    message = replace(said("42", drain.run.id, call_id=first.id), role="tool", status="success")
    events = (draft("tool.done", a=1), draft("message"), draft("tool.started"))
    answer = await drain.do(
        drain.unit(Result, {"turn": 1}, messages=(message,), changes=moves, events=events)
    )
    assert (answer.posted, answer.cancel_requested, answer.left) == (1, False, True)
    view = await store.view("th_1")
    assert view is not None
    assert view.calls == tuple(move.after for move in moves)
    assert [message.seq for message in view.messages] == [1, 2]
    assert view.messages[1] == replace(message, seq=2)
    assert view.run == drain.run
    assert [event.n for event in journal.published] == [1, 2, 3, 4, 5]
    topic = Topic(kind="run", id=drain.run.id)
    assert list(await store.events(topic)) == journal.published
    assert [step.number for step in await store.steps(drain.run.id)] == [1]


async def test_a_call_may_move_twice_in_one_unit(store: Store):
    drain = await begun(store)
    call = drain.call()
    await drain.answer(call)
    running = change(call, "running")
    moves = (running, change(running.after, "done", result={"ok": 1}))
    await drain.do(drain.unit(Result, changes=moves))
    stored = await store.call(call.id)
    assert stored == moves[1].after


async def test_an_advance_with_a_call_in_another_status_is_refused(store: Store):
    drain = await begun(store)
    call = drain.call("waiting")
    await drain.answer(call)
    await committed(store, settle(SubmitResult, "th_1", call.id))
    flip = change(call, "pending")
    unit = drain.unit(Park, {"status": "waiting"}, changes=(flip,), messages=(said("x"),))
    await refused(store, unit, "call")
    await refused(
        store, replace(unit, changes=(change(drain.call("running", id="call_none"), "done"),)), "call"
    )


async def test_a_call_of_another_thread_cannot_be_moved_or_settled(store: Store):
    drain = await begun(store)
    other = await begun(store, "th_2")
    call = drain.call("waiting")
    await drain.answer(call)
    await refused(store, other.unit(Result, changes=(change(call, "pending"),)), "call")
    await refused(store, settle(SubmitResult, "th_2", call.id), "call")


async def test_a_call_or_step_that_is_there_already_is_an_error_without_a_trace(store: Store):
    drain = await begun(store)
    call = drain.call()
    await drain.answer(call)
    before = await dump(store)
    with pytest.raises(Unwritable):
        await store.commit(drain.unit(Answer, messages=(said("x"),), calls=(replace(call, name="other"),)))
    assert await dump(store) == before


async def test_a_run_that_is_over_or_unknown_cannot_advance(store: Store):
    drain = await begun(store)
    await refused(store, drain.unit(Answer, {"id": "run_none"}), "run")
    await drain.do(drain.unit(Finish, {"status": "failed", "error": "gone"}))
    await refused(store, drain.unit(Answer, {"status": "running"}, messages=(said("x"),)), "run")


async def test_an_inbox_event_is_read_once(store: Store):
    drain = await begun(store)
    await committed(store, post("th_1", "msg_b"))
    await drain.do(drain.unit(Answer, read=("msg_b",)))
    await refused(store, drain.unit(Answer, read=("msg_b",), messages=(said("x"),)), "inbox")
    await refused(store, drain.unit(Answer, read=("msg_none",)), "inbox")


async def test_a_run_cannot_end_while_a_joined_message_is_unread(store: Store):
    drain = await begun(store)
    await committed(store, post("th_1", "msg_b"))
    ending = drain.unit(Answer, {"status": "completed"}, messages=(said("bye"),))
    await refused(store, ending, "unread")
    await drain.do(replace(ending, read=("msg_b",)))
    thread = await store.thread("th_1")
    assert thread is not None
    assert thread.run_id is None


async def test_a_run_asked_to_cancel_ends_as_cancelled_only(store: Store):
    drain = await begun(store)
    await committed(store, request_cancel("th_1", drain.run.id))
    await refused(store, drain.unit(Answer, {"status": "completed"}), "cancel")
    assert (await drain.do(drain.unit(Result))).cancel_requested
    await drain.do(drain.unit(Finish, {"status": "cancelled", "completed_at": AT}))
    run = await store.run(drain.run.id)
    assert run is not None
    assert (run.status, run.cancel_requested_at) == ("cancelled", AT)


@pytest.mark.parametrize("kind", [SubmitResult, Expire, CancelCall])
async def test_a_waiting_call_is_settled_inline_and_a_pending_one_by_the_inbox(
    journal: Journal, kind: type[Settle]
):
    store = journal.store
    drain = await begun(store)
    over = AT if kind is Expire else None
    waiting, pending = (
        drain.call("waiting", expires_at=over),
        drain.call("pending", position=1, expires_at=over),
    )
    await drain.answer(waiting, pending)
    before = len(journal.published)
    assert (await committed(store, settle(kind, "th_1", waiting.id))).route == "inline"
    assert await store.unread("th_1") == []
    assert (await committed(store, settle(kind, "th_1", pending.id))).route == "inbox"
    [notice] = await store.unread("th_1")
    assert (notice.event_id, notice.n, notice.run_id) == (f"tr:{pending.id}", 2, None)
    settled = await store.call(pending.id)
    assert settled is not None
    result = {"status": "success", "result": kind.__name__}
    assert (settled.route, settled.completed_at, settled.result) == ("inbox", AT, result)
    assert [event.n for event in journal.published[before:]] == [before + 1, before + 2]
    for unit in (settle(kind, "th_1", waiting.id), settle(SubmitResult, "th_1", pending.id)):
        await refused(store, unit, "call")


async def test_settling_an_unknown_call_or_thread_is_refused(store: Store):
    drain = await begun(store)
    call = drain.call("created")
    await drain.answer(call)
    await refused(store, settle(SubmitResult, "th_1", call.id), "call")
    await refused(store, settle(SubmitResult, "th_1", "call_none"), "call")
    await refused(store, settle(SubmitResult, "th_none", call.id), "thread")


async def test_an_expired_call_takes_no_submission_but_its_expiry(store: Store):
    drain = await begun(store)
    call = drain.call("pending", expires_at=later(10))
    await drain.answer(call)
    await refused(store, settle(SubmitResult, "th_1", call.id, later(10)), "call")
    await refused(store, settle(SubmitResult, "th_1", call.id, later(11)), "call")
    await committed(store, settle(Expire, "th_1", call.id, later(10)))
    assert [event.event_id for event in await store.unread("th_1")] == [f"tr:{call.id}"]


async def test_a_call_does_not_expire_before_its_time(store: Store):
    drain = await begun(store)
    timed, endless = drain.call("waiting", expires_at=later(10)), drain.call("pending", position=1)
    await drain.answer(timed, endless)
    await refused(store, settle(Expire, "th_1", timed.id, later(9.999)), "call")
    await refused(store, settle(Expire, "th_1", endless.id, later(1_000)), "call")


async def test_a_notice_that_is_there_already_refuses_the_settlement(store: Store):
    drain = await begun(store)
    call = drain.call("pending")
    await drain.answer(call)
    await committed(store, post("th_1", f"tr:{call.id}"))
    await refused(store, settle(SubmitResult, "th_1", call.id), "duplicate")


async def test_what_others_wrote_into_a_run_survives_its_next_commit(store: Store):
    drain = await begun(store)
    await committed(store, request_cancel("th_1", drain.run.id))
    await drain.do(drain.unit(Result, {"agent": "wrong", "created_at": later(9), "lives": 2}))
    run = await store.run(drain.run.id)
    assert run is not None
    assert (run.agent, run.created_at) == ("helper", AT)
    assert (run.lives, run.cancel_requested_at) == (2, AT)


async def test_a_wake_keeps_the_earlier_due_and_its_generation_rises(store: Store):
    await create_thread(store)
    await committed(store, replace(post("th_1"), at=later(10)))
    first = await store.wake("th_1")
    assert first is not None
    await committed(store, replace(post("th_1"), at=later(20)))
    second = await store.wake("th_1")
    assert second == replace(first, gen=first.gen + 1)
    await committed(store, replace(post("th_1"), at=later(5)))
    assert await store.wake("th_1") == replace(first, due=later(5), gen=first.gen + 2)


async def test_a_drain_leaves_only_with_the_wake_that_it_saw(store: Store):
    drain = await begun(store)
    wake = await store.wake("th_1")
    assert wake is not None
    await committed(store, post("th_1", "msg_b"))
    assert not (await committed(store, leave("th_1", wake.gen))).left
    parking = drain.unit(Park, {"status": "waiting"}, leaving=Leaving(gen=wake.gen, due=later(60)))
    assert not (await drain.do(parking)).left
    assert await store.wake("th_1") == replace(wake, gen=wake.gen + 1)
    parking = drain.unit(Park, {"status": "waiting"}, leaving=Leaving(gen=wake.gen + 1, due=later(60)))
    assert (await drain.do(parking)).left
    assert await store.wake("th_1") == replace(wake, gen=wake.gen + 1, due=later(60))
    assert (await committed(store, leave("th_1", wake.gen + 1))).left
    assert await store.wake("th_1") is None
    assert not (await committed(store, leave("th_1", wake.gen + 1))).left


async def test_wakes_are_due_in_order(store: Store):
    for number, seconds in enumerate((30, 10, 20)):
        await create_thread(store, f"th_{number}")
        await committed(store, replace(post(f"th_{number}"), at=later(seconds)))
    assert [wake.thread_id for wake in await store.due(later(20), 10)] == ["th_1", "th_2"]
    assert [wake.thread_id for wake in await store.due(later(30), 1)] == ["th_1"]
    assert await store.next_due(later(10)) == later(20)
    assert await store.next_due(later(30)) is None


async def test_old_events_are_pruned_a_few_at_a_time(store: Store):
    drain = await begun(store)
    for second in (1, 2, 3):
        await drain.do(replace(drain.unit(Result, events=(draft("message"),)), at=later(second)))
    topic = Topic(kind="thread", id="th_1")
    assert await store.bounds(topic) == (1, 4)
    unit = Prune(token=token(), at=later(9), before=later(3), limit=2)
    assert (await committed(store, unit)).count == 0  # a run is in progress
    assert await store.bounds(topic) == (1, 4)
    await drain.end(later(3))
    assert (await committed(store, replace(unit, token=token(), before=None))).count == 0
    assert (await committed(store, replace(unit, token=token()))).count == 2
    assert await store.bounds(topic) == (3, 4)
    await committed(store, replace(unit, token=token(), limit=1_000))
    assert await store.bounds(topic) == (4, 4)
    assert await store.bounds(Topic(kind="run", id=drain.run.id)) == (4, 4)
    assert await store.bounds(Topic(kind="run", id=new_id("run"))) == (0, 0)


async def test_a_probe_changes_nothing_and_may_be_made_again(store: Store, journal: Journal):
    await begun(store)
    before, published = await dump(store), list(journal.published)
    for second in (1, 2):
        assert await store.commit(Probe(token=token(), at=later(second))) == Committed()
    assert await dump(store) == before
    assert journal.published == published


async def test_a_closed_store_refuses_units(store: Store):
    await create_thread(store)
    await store.close()
    with pytest.raises(StoreError):
        await store.commit(post("th_1"))


async def test_the_owner_of_a_thread_is_its_user_or_else_its_agent(store: Store):
    for number in range(205):
        await create_thread(store, f"th_{number}", user_id=None if number % 2 else f"user {number}")
    owners = await store.owners([*(f"th_{number}" for number in range(205)), "th_none"])
    assert owners == {f"th_{n}": "helper" if n % 2 else f"user {n}" for n in range(205)}
    assert await store.owners([]) == {}


async def test_a_thread_is_renamed(store: Store):
    await create_thread(store, user_id="ada")
    before = await store.thread("th_1")
    assert before is not None
    for name in ("Trip", "Ünïcode 🦜", None):
        await committed(store, RenameThread(token=token(), at=AT, thread_id="th_1", name=name))
        assert await store.thread("th_1") == replace(before, name=name)
    unit = RenameThread(token=token(), at=AT, thread_id="th_none", name="x")
    assert await store.commit(unit) == Conflict(guard="thread")
