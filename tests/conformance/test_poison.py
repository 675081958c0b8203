"""Inbox events that pass through failing runs: every implementation of the units returns the same."""

from dataclasses import replace

import pytest
from tests.play import (
    AT,
    Drain,
    begun,
    committed,
    dump,
    later,
    retry_event,
    said,
    settle,
    token,
)

from toolwright.core.journal.child_effects import BackOff
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import (
    Advance,
    Apply,
    Claim,
    Conflict,
    Finish,
    Release,
    SubmitResult,
    Takeover,
    Unit,
)
from toolwright.core.threads.inbox import InboxChange, InboxEvent
from toolwright.core.threads.run import Run

pytestmark = pytest.mark.anyio


async def refused(store: Store, unit: Unit, guard: Guard) -> None:
    """Check that the guard rejects the unit, and that the journal is unchanged."""
    before = await dump(store)
    assert await store.commit(unit) == Conflict(guard=guard)
    assert await dump(store) == before


async def idle(store: Store, events: int) -> tuple[Drain, list[InboxEvent]]:
    """Create a thread without an open run, whose inbox holds that many late results."""
    drain = await begun(store)
    calls = [drain.call("pending", position=n) for n in range(events)]
    await drain.answer(*calls)
    await drain.do(drain.unit(Finish, {"status": "completed", "completed_at": AT}))
    for call in calls:
        await committed(store, settle(SubmitResult, "th_1", call.id))
    return drain, list(await store.unread("th_1"))


def opening(drain: Drain, run_id: str, **fields: object) -> Claim:
    run = Run(id=run_id, thread_id="th_1", agent="helper", status="running", held=True, created_at=later(1))
    return replace(drain.unit(Claim, opens=True), run=run, **fields)  # type: ignore[arg-type]  # fields of Claim


async def statuses(store: Store) -> list[tuple[str, int, str | None]]:
    events = await store.inbox("th_1")
    return [(event.status, event.attempts, event.run_id) for event in events[1:]]


async def test_what_a_run_reads_is_its_own_until_it_is_over(store: Store) -> None:
    drain, events = await idle(store, 2)
    await drain.do(opening(drain, "run_2", inbox=tuple(event.as_read_by("run_2") for event in events)))
    view = await store.view("th_1")
    assert view is not None
    assert (view.inbox, [event.event_id for event in view.reading]) == ((), [e.event_id for e in events])
    assert await store.unread("th_1") == []
    await drain.do(drain.unit(Release, {"status": "queued", "held": False}))
    await drain.do(drain.unit(Takeover, {"status": "running"}))
    view = await store.view("th_1")
    assert view is not None
    assert {event.run_id for event in view.reading} == {"run_2"}
    over = drain.unit(
        Finish, {"status": "completed"}, inbox=tuple(event.processed() for event in view.reading)
    )
    await drain.do(over)
    assert await statuses(store) == [("processed", 0, "run_2")] * 2


async def test_a_failed_run_releases_what_it_read_and_its_rows_stay_in_the_records(store: Store) -> None:
    drain, events = await idle(store, 3)
    first_run = drain.run.id
    messages = tuple(said(event.event_id, "run_2") for event in events)
    taken = tuple(event.as_read_by("run_2") for event in events)
    await drain.do(opening(drain, "run_2", inbox=taken, messages=messages))
    view = await store.view("th_1")
    assert view is not None
    first, second, third = view.reading
    back = (first.requeued(1), replace(second, attempts=2).requeued(1), third.requeued(0))
    dropped = tuple(m.seq for m in view.messages if m.run_id == "run_2" and m.seq is not None)
    assert len(dropped) == 3
    last = replace(said("never mind", "run_2"), kept=False)
    await drain.do(drain.unit(Finish, {"status": "failed"}, inbox=back, dropped=dropped, messages=(last,)))
    assert await statuses(store) == [("pending", 1, None), ("failed", 3, None), ("pending", 0, None)]
    assert [event.event_id for event in await store.unread("th_1")] == [first.event_id, third.event_id]
    view = await store.view("th_1")
    assert view is not None
    assert [event.event_id for event in view.inbox] == [first.event_id, third.event_id]
    assert {message.run_id for message in view.messages} == {first_run}
    kept = [message.kept for message in await store.run_messages("run_2")]
    assert kept == [False] * 4
    assert [m.seq for m in await store.messages("th_1")] == list(range(1, view.thread.seq + 1))


async def test_a_run_may_be_over_before_it_began(store: Store) -> None:
    drain, events = await idle(store, 1)
    unit = opening(drain, "run_2", inbox=tuple(event.requeued(1) for event in events))
    unit = replace(unit, run=replace(unit.run, status="failed", error="It cannot begin.", held=False))
    await drain.do(unit)
    thread = await store.thread("th_1")
    assert thread is not None
    assert (thread.run_id, thread.epoch) == (None, drain.epoch)
    run = await store.run("run_2")
    assert run is not None
    assert (run.status, run.error) == ("failed", "It cannot begin.")
    assert await statuses(store) == [("pending", 1, None)]


@pytest.mark.parametrize(
    "change",
    [
        InboxChange(event_id="none", was="pending", now="processing"),
        InboxChange(event_id="tr", was="processing", now="processed"),
        InboxChange(event_id="tr", was="failed", now="pending"),
    ],
)
async def test_an_event_in_another_status_is_not_changed(store: Store, change: InboxChange) -> None:
    drain, [event] = await idle(store, 1)
    if change.event_id == "tr":
        change = replace(change, event_id=event.event_id)
    await refused(store, opening(drain, "run_2", inbox=(change,)), "inbox")


async def test_a_parked_event_is_tried_again_once_it_is_asked_for(store: Store) -> None:
    drain, [event] = await idle(store, 1)
    await refused(store, retry_event("th_1", event.event_id), "inbox")
    await refused(store, retry_event("th_1", "none"), "inbox")
    await refused(store, retry_event("th_none", event.event_id), "inbox")
    parked = opening(drain, "run_2", inbox=(event.parked(),))
    await drain.do(replace(parked, run=replace(parked.run, status="failed", held=False)))
    assert await statuses(store) == [("failed", 3, None)]
    assert await store.unread("th_1") == []
    before = await store.wake("th_1")
    assert before is not None
    await committed(store, retry_event("th_1", event.event_id, later(9)))
    after = await store.wake("th_1")
    assert after is not None
    assert after.gen == before.gen + 1
    assert await statuses(store) == [("pending", 0, None)]
    assert await store.inbox_event("th_1", event.event_id) == (await store.unread("th_1"))[0]
    assert await store.inbox_event("th_1", "none") is None
    assert await store.inbox_event("th_none", event.event_id) is None


async def test_a_thread_is_left_alone_until_its_model_is_to_be_asked_again_or_a_retry(
    store: Store,
) -> None:
    drain, [event] = await idle(store, 1)
    parked = opening(drain, "run_2", inbox=(event.parked(),))
    await drain.do(replace(parked, run=replace(parked.run, status="failed", held=False)))
    resting = BackOff(thread_id="th_1", faults=2, until=later(7))
    await committed(store, Apply(token=token(), at=AT, effects=(resting,)))
    thread = await store.thread("th_1")
    assert thread is not None
    assert (thread.faults, thread.not_before) == (2, later(7))
    await committed(store, retry_event("th_1", event.event_id))
    thread = await store.thread("th_1")
    assert thread is not None
    assert (thread.faults, thread.not_before) == (2, None)


async def test_a_stale_owner_gives_nothing_back(store: Store) -> None:
    drain, events = await idle(store, 1)
    await drain.do(opening(drain, "run_2", inbox=(events[0].as_read_by("run_2"),)))
    stale = Drain(store, "th_1", drain.run, drain.epoch, drain.seq)
    await drain.do(drain.unit(Takeover, {"lives": 1}))
    reading = events[0].changed(events[0].as_read_by("run_2"))
    unit: Advance = stale.unit(Finish, {"status": "failed"}, inbox=(reading.requeued(1),))
    await refused(store, unit, "fence")
