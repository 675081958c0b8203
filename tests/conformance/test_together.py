"""Concurrent units: numbers without gaps, one winner of each race, and no trace of the losers."""

import asyncio

import pytest
from tests.conformance.conftest import Journal
from tests.play import (
    Drain,
    begun,
    change,
    create_thread,
    draft,
    dump,
    later,
    leave,
    post,
    request_cancel,
    said,
    settle,
)

from toolwright.core.journal.store import Store
from toolwright.core.journal.units import (
    Answer,
    CancelCall,
    Committed,
    Conflict,
    Expire,
    Park,
    Result,
    SubmitResult,
    Unit,
)
from toolwright.core.threads.event import Topic

pytestmark = pytest.mark.anyio


async def all_at_once(store: Store, units: list[Unit]) -> list[Committed | Conflict]:
    return await asyncio.gather(*(store.commit(unit) for unit in units))


async def test_fifty_posts_make_exactly_one_run(journal: Journal):
    store = journal.store
    await create_thread(store)
    units = [post("th_1") for _ in range(50)]
    answers = await all_at_once(store, list(units))
    assert len({answer.run_id for answer in answers if isinstance(answer, Committed)}) == 1
    assert len(await store.runs()) == 1
    assert [event.n for event in await store.inbox("th_1", limit=100)] == list(range(1, 51))
    assert [event.n for event in journal.published] == [1]
    wake = await store.wake("th_1")
    assert wake is not None


async def test_posts_that_meet_the_end_of_a_run_lose_nothing(store: Store):
    drain = await begun(store)
    ending = drain.unit(Answer, {"status": "completed"}, messages=(said("bye"),))
    outcomes = await all_at_once(store, [*(post("th_1") for _ in range(10)), ending])
    thread = await store.thread("th_1")
    assert thread is not None
    joined = [event for event in await store.unread("th_1") if event.run_id == drain.run.id]
    if isinstance(outcomes[-1], Committed):
        assert not joined
    else:
        assert outcomes[-1] == Conflict(guard="unread")
        assert thread.run_id == drain.run.id
    assert len(await store.unread("th_1")) == 10


async def test_a_failed_unit_among_fifty_leaves_no_trace(store: Store):
    drains = [await begun(store, f"th_{number:02}") for number in range(50)]
    units = [
        drain.unit(Result, messages=(said("x"),), events=(draft("message"), draft("tool.done")))
        for drain in drains
    ]
    stale = units[17]
    units[17] = drains[17].unit(
        Result,
        changes=(change(drains[17].call("running", id="call_none"), "done"),),
        messages=(said("never"),),
        events=(draft("message"),),
    )
    before = (await dump(store))["th_17"]
    outcomes = await all_at_once(store, list(units))
    assert outcomes[17] == Conflict(guard="call")
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 49
    after = await dump(store)
    assert after["th_17"] == before
    assert all(len(after[drain.thread_id]["messages"]) == 1 for i, drain in enumerate(drains) if i != 17)
    assert await store.commit(stale)


async def test_writers_on_one_thread_number_everything_without_gaps(journal: Journal):
    store = journal.store
    drain = await begun(store)
    calls = [drain.call("pending", position=number) for number in range(20)]
    await drain.answer(*calls)

    async def advance() -> None:
        for _ in range(15):
            await drain.do(
                drain.unit(
                    Result, messages=(said("a"), said("b")), events=(draft("x"), draft("y"), draft("z"))
                )
            )

    others: list[Unit] = [settle(SubmitResult, "th_1", call.id) for call in calls]
    others += [post("th_1") for _ in range(15)]
    await asyncio.gather(advance(), all_at_once(store, others))
    assert [m.seq for m in await store.messages("th_1", limit=500)] == list(range(1, drain.seq + 1))
    assert [event.n for event in await store.inbox("th_1", limit=500)] == list(range(1, 37))
    events = list(await store.events(Topic(kind="thread", id="th_1")))
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    assert journal.published == events


async def test_writers_on_many_threads_publish_each_thread_in_order(journal: Journal):
    store = journal.store
    drains = [await begun(store, f"th_{number:02}") for number in range(50)]

    async def work(drain: Drain) -> None:
        for _ in range(4):
            await drain.do(drain.unit(Result, messages=(said("a"),), events=(draft("x"), draft("y"))))

    await asyncio.gather(*(work(drain) for drain in drains))
    for drain in drains:
        mine = [event for event in journal.published if event.thread_id == drain.thread_id]
        assert [event.n for event in mine] == list(range(1, 10))
        assert mine == list(await store.events(Topic(kind="thread", id=drain.thread_id)))


async def test_of_many_settlements_exactly_one_wins(store: Store):
    drain = await begun(store)
    expires = {"expires_at": later(10)}
    waiting, pending = drain.call("waiting", **expires), drain.call("pending", position=1, **expires)
    await drain.answer(waiting, pending)
    units: list[Unit] = [
        settle(kind, "th_1", call.id, later(seconds))
        for _ in range(8)
        for kind, seconds in ((SubmitResult, 9), (Expire, 10), (CancelCall, 10))
        for call in (waiting, pending)
    ]
    outcomes = await all_at_once(store, units)
    won = [outcome for outcome in outcomes if isinstance(outcome, Committed)]
    assert sorted(str(answer.route) for answer in won) == ["inbox", "inline"]
    assert {outcome for outcome in outcomes if isinstance(outcome, Conflict)} == {Conflict(guard="call")}
    assert [event.event_id for event in await store.unread("th_1")] == [f"tr:{pending.id}"]


async def test_a_flip_and_a_submission_agree_on_the_route(store: Store):
    for number in range(12):
        thread_id = f"th_{number}"
        drain = await begun(store, thread_id)
        call = drain.call("waiting")
        await drain.answer(call)
        flip = drain.unit(Park, {"status": "waiting"}, changes=(change(call, "pending"),))
        submit = settle(SubmitResult, thread_id, call.id)
        units: list[Unit] = [flip, submit] if number % 2 else [submit, flip]
        outcomes = dict(zip(map(id, units), await all_at_once(store, units), strict=True))
        answer = outcomes[id(submit)]
        assert isinstance(answer, Committed)
        flipped = isinstance(outcomes[id(flip)], Committed)
        assert answer.route == ("inbox" if flipped else "inline")
        assert len(await store.unread(thread_id)) == flipped


async def test_of_many_claims_one_gets_the_thread(store: Store):
    drain = await begun(store)
    rivals = [Drain(store, "th_1", drain.run, drain.epoch, drain.seq) for _ in range(10)]
    outcomes = await asyncio.gather(*(rival.store.commit(rival.unit(Result)) for rival in rivals))
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    claims = [rival.unit(Answer, messages=(said("x"),)) for rival in rivals]
    outcomes = await all_at_once(store, list(claims))
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
    assert Conflict(guard="fence") in outcomes


async def test_cancelling_meets_the_end_of_a_run(store: Store):
    for number in range(6):
        thread_id = f"th_{number}"
        drain = await begun(store, thread_id)
        ending = drain.unit(Answer, {"status": "completed"})
        cancel = request_cancel(thread_id, drain.run.id)
        ended, asked = await all_at_once(store, [ending, cancel])
        assert {type(ended), type(asked)} == {Committed, Conflict}
        run = await store.run(drain.run.id)
        assert run is not None
        assert run.over == isinstance(ended, Committed)


async def test_a_wake_that_comes_while_a_drain_leaves_is_not_lost(store: Store):
    for number in range(6):
        thread_id = f"th_{number}"
        await begun(store, thread_id)
        wake = await store.wake(thread_id)
        assert wake is not None
        await all_at_once(store, [leave(thread_id, wake.gen), post(thread_id)])
        assert await store.wake(thread_id) is not None


async def test_a_cancelled_caller_still_learns_the_outcome(store: Store):
    await create_thread(store)
    seen: list[Committed | Conflict] = []

    async def caller() -> None:
        seen.append(await store.commit(post("th_1")))
        await asyncio.Event().wait()

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [type(outcome) for outcome in seen] == [Committed]
    assert len(await store.unread("th_1")) == 1


async def test_a_caller_cancelled_before_it_commits_still_learns_the_outcome(store: Store):
    await create_thread(store)
    seen: list[Committed | Conflict] = []

    async def caller() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        seen.append(await store.commit(post("th_1")))
        await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(caller())
    assert [type(outcome) for outcome in seen] == [Committed]


async def test_a_timeout_around_a_commit_behaves(store: Store):
    await create_thread(store)
    async with asyncio.timeout(0):
        outcome = await store.commit(post("th_1"))
    assert isinstance(outcome, Committed)
    for _ in range(5):
        await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            outcome = await store.commit(post("th_1"))
            await asyncio.Event().wait()
    assert isinstance(outcome, Committed)
    assert task.cancelling() == 0


async def test_a_cancellation_outside_a_timeout_outlives_it(store: Store):
    await create_thread(store)
    passed: list[str] = []

    async def caller() -> None:
        async with asyncio.timeout(0):
            await store.commit(post("th_1"))
        passed.append("commit")
        await asyncio.Event().wait()

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert passed == ["commit"]
