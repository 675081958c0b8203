"""Failed runs that are retried: every implementation of the unit returns the same."""

from dataclasses import replace

import pytest
from tests.conformance.conftest import Journal
from tests.play import AT, Drain, begun, committed, create_thread, dump, later, new_id, post, retry_run

from toolwright.core.journal.child_effects import BackOff, Close
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict, Finish, Leaving
from toolwright.core.threads.run import RunStatus

pytestmark = pytest.mark.anyio


async def ended(store: Store, status: RunStatus = "failed", **fields: object) -> Drain:
    """Create a thread whose run has ended, with the rows that an error leaves in the run and its thread."""
    drain = await begun(store)
    await drain.answer(text="Half")
    view = await store.view("th_1")
    assert view is not None and view.wake is not None
    run = {
        "status": status,
        "completed_at": AT,
        "held": False,
        "error": "The model failed.",
        "error_code": "model_error",
        "lives": 4,
        **fields,
    }
    effects = (BackOff(thread_id="th_1", faults=3, until=later(60)),)
    await drain.do(drain.unit(Finish, run, effects=effects, leaving=Leaving(gen=view.wake.gen)))
    return drain


async def refused(store: Store, run_id: str, guard: Guard, thread_id: str = "th_1") -> None:
    before = await dump(store)
    assert await store.commit(retry_run(thread_id, run_id)) == Conflict(guard=guard)
    assert await dump(store) == before


async def test_a_failed_run_is_open_again_without_its_error(journal: Journal, store: Store) -> None:
    drain = await ended(store)
    before, thread = await store.run(drain.run.id), await store.thread("th_1")
    assert before is not None and thread is not None and await store.wake("th_1") is None
    del journal.published[:]
    assert (await committed(store, retry_run("th_1", drain.run.id))).run_id == drain.run.id
    run = await store.run(drain.run.id)
    assert run is not None
    assert run == replace(
        before, status="queued", error=None, error_code=None, completed_at=None, lives=0, waiting=None
    )
    assert run.is_reopened
    expected = replace(
        thread, run_id=run.id, begun=True, faults=0, not_before=None, ev=thread.ev + 1, report=None
    )
    assert await store.thread("th_1") == expected
    assert [(each.type, each.run_id, each.n) for each in journal.published] == [
        ("run.queued", run.id, thread.ev + 1)
    ]
    assert await store.wake("th_1") is not None
    view = await store.view("th_1")
    assert view is not None and view.run == run
    await refused(store, run.id, "busy")


@pytest.mark.parametrize("status", ["completed", "cancelled", "skipped"])
async def test_a_run_that_ended_otherwise_is_not_retried(store: Store, status: RunStatus) -> None:
    drain = await ended(store, status)
    await refused(store, drain.run.id, "run")


async def test_what_came_later_is_not_overtaken(store: Store) -> None:
    drain = await ended(store)
    later_run = post("th_1")
    await committed(store, replace(later_run, run=replace(later_run.run, created_at=later(1))))
    await refused(store, drain.run.id, "busy")
    second = Drain(store, "th_1", replace(later_run.run, status="running"), drain.epoch, drain.seq)
    await second.claim([later_run.event.event_id])
    await second.do(second.unit(Finish, {"status": "failed", "completed_at": AT, "held": False}))
    await refused(store, drain.run.id, "run")
    await committed(store, retry_run("th_1", second.run.id))


async def test_unknown_foreign_and_closed_ones_are_refused(store: Store) -> None:
    drain = await ended(store)
    await create_thread(store, "th_2")
    await refused(store, drain.run.id, "run", "th_2")
    await refused(store, new_id("run"), "run")
    await refused(store, drain.run.id, "thread", "th_none")
    await committed(store, retry_run("th_1", drain.run.id))
    await drain.claim()
    closed = {"status": "failed", "completed_at": AT, "held": False}
    await drain.do(drain.unit(Finish, closed, effects=(Close(thread_id="th_1"),)))
    await refused(store, drain.run.id, "terminated")
