"""External calls in every journal: they join their run, create it, or reopen it, and no other (`PostCall`)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.conftest import Journal
from tests.conformance.test_spaces import act, delivery
from tests.play import AT, Drain, begun, committed, create_thread, draft, dump, new_id, post, token

from toolwright.core.journal.effects import Deliver
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Answer, Conflict, Finish, Leaving, PostCall
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run

pytestmark = pytest.mark.anyio


def asked(thread_id: str = "th_1", run_id: str = "run_1", event_id: str | None = None) -> PostCall:
    """Return an external call that is made in that run."""
    event = InboxEvent(
        thread_id=thread_id,
        event_id=event_id or new_id("ask"),
        type="call",
        content={"callId": "call_1"},
        created_at=AT,
    )
    run = Run(id=run_id, thread_id=thread_id, agent="helper", created_at=AT, calls_only=True)
    return PostCall(token=token(), at=AT, event=event, run=run, queued=draft("run.queued", runId=run_id))


async def over(drain: Drain, status: str = "completed", **fields: Any) -> None:  # fields of the run
    view = await drain.store.view(drain.thread_id)
    assert view is not None and view.wake is not None
    run = {"status": status, "completed_at": AT, "held": False, **fields}
    await drain.do(drain.unit(Finish, run, leaving=Leaving(gen=view.wake.gen)))


async def test_a_call_makes_its_run_and_wakes_the_thread(journal: Journal, store: Store):
    await create_thread(store)
    unit = asked()
    answer = await committed(store, unit)
    assert answer.run_id == "run_1"
    run, thread = await store.run("run_1"), await store.thread("th_1")
    assert run is not None and (run.status, run.calls_only) == ("queued", True)
    assert thread is not None and thread.run_id == "run_1"
    [event] = await store.unread("th_1")
    assert (event.type, event.run_id, event.content) == ("call", "run_1", {"callId": "call_1"})
    assert [each.type for each in journal.published] == ["run.queued"]
    assert await store.wake("th_1") is not None


async def test_calls_join_the_run_while_it_is_open(journal: Journal, store: Store):
    await create_thread(store)
    await asyncio.gather(*[committed(store, asked()) for _ in range(10)])
    events = await store.unread("th_1")
    assert [event.run_id for event in events] == ["run_1"] * 10
    assert [each.type for each in journal.published] == ["run.queued"]
    drain = await begun(store, "th_2")
    await committed(store, asked("th_2", drain.run.id))
    run = await store.run(drain.run.id)
    assert run is not None and (run.status, run.calls_only) == ("running", False)
    answer = await store.commit(drain.unit(Finish, {"status": "completed"}))
    assert answer == Conflict(guard="unread")


async def test_a_completed_run_is_opened_again_as_it_was(journal: Journal, store: Store):
    drain = await begun(store)
    await drain.answer(text="Done.")
    await over(drain, stop_reason="end_turn", output="Done.")
    before = await store.run(drain.run.id)
    del journal.published[:]
    await committed(store, asked(run_id=drain.run.id))
    run, thread = await store.run(drain.run.id), await store.thread("th_1")
    assert before is not None and run == replace(before, status="queued", completed_at=None, calls_only=True)
    assert thread is not None and thread.run_id == drain.run.id
    [queued] = journal.published
    assert (queued.type, queued.run_id) == ("run.queued", drain.run.id)
    view = await store.view("th_1")
    assert view is not None and view.run == run
    await drain.claim([each.event_id for each in view.inbox])
    assert (await store.run(drain.run.id)) is not None


@pytest.mark.parametrize("status", ["failed", "cancelled", "skipped"])
async def test_a_run_that_ended_otherwise_takes_no_calls(store: Store, status: str):
    drain = await begun(store)
    await over(drain, status)
    before = await dump(store)
    assert await store.commit(asked(run_id=drain.run.id)) == Conflict(guard="run")
    assert await dump(store) == before


async def test_another_runs_thread_is_busy_and_nothing_changes(store: Store):
    drain = await begun(store)
    await over(drain)
    first = drain.run.id
    await committed(store, post("th_1"))
    before = await dump(store)
    assert await store.commit(asked(run_id=first)) == Conflict(guard="busy")
    assert await store.commit(asked(run_id="run_new")) == Conflict(guard="busy")
    assert await dump(store) == before


async def test_a_thread_that_is_not_there_another_threads_run_and_a_call_twice_are_refused(store: Store):
    assert await store.commit(asked("nowhere")) == Conflict(guard="thread")
    drain = await begun(store)
    await over(drain)
    await create_thread(store, "th_2")
    before = await dump(store)
    assert await store.commit(asked("th_2", drain.run.id)) == Conflict(guard="run")
    assert await dump(store) == before
    await committed(store, asked("th_2", "run_2", "ask_1"))
    assert await store.commit(asked("th_2", "run_2", "ask_1")) == Conflict(guard="duplicate")


async def test_a_run_that_answers_a_message_asks_the_model_again(store: Store):
    await create_thread(store)
    unit = asked()
    await committed(store, unit)
    drain = Drain(store, "th_1", unit.run)
    await drain.claim([unit.event.event_id])
    await drain.do(drain.unit(Answer, {"calls_only": False, "step_count": 1}))
    run = await store.run("run_1")
    assert run is not None and not run.calls_only


async def test_what_is_delivered_while_a_run_is_open_again_waits_for_another_run(store: Store):
    drain = await begun(store)
    await over(drain)
    await committed(store, asked(run_id=drain.run.id))
    thread = await store.thread("th_1")
    assert thread is not None and thread.begun
    late = delivery("th_1")
    answer = await committed(store, act(Deliver(delivery=late)))
    assert answer.runs == (("th_1", late.run.id),)
    view = await store.view("th_1")
    assert view is not None and view.run is not None
    assert (view.run.id, view.thread.next_run_id) == (drain.run.id, late.run.id)
