"""Calls that hope for a late result, in every journal: nobody reads one whose agent was deleted."""

import asyncio

import pytest
from tests.conformance.test_agents import agent, drop, save
from tests.conformance.test_spaces import act
from tests.play import Drain, begun, change, committed, later, settle

from toolwright.core.journal.child_effects import HandOff
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict, Result, Submit, Unit

pytestmark = pytest.mark.anyio
RACES = 20


async def answered_by(store: Store, number: int) -> Drain:
    """A thread with a run at work, in which a configured agent of that number answers."""
    await committed(store, save(agent(number)))
    drain = await begun(store, f"th_{number}")
    await committed(store, act(HandOff(thread_id=drain.thread_id, agent=f"agt_{number}")))
    return drain


async def statuses(store: Store, drain: Drain) -> list[str]:
    calls = await store.calls(run_id=drain.run.id)
    return [call.status for call in sorted(calls, key=lambda each: each.position)]


async def test_a_deleted_agents_late_results_are_given_up_with_it(store: Store) -> None:
    first, second = await answered_by(store, 1), await answered_by(store, 2)
    its = first.call("pending"), first.call("waiting", position=1)
    await first.answer(*its)
    others = second.call("pending")
    await second.answer(others)
    await committed(store, drop(agent(1)))
    assert await statuses(store, first) == ["cancelled", "waiting"]
    assert await statuses(store, second) == ["pending"]
    given_up = await store.call(its[0].id)
    assert given_up is not None
    assert given_up.completed_at is not None
    assert await store.commit(settle(Submit, "th_1", its[0].id)) == Conflict(guard="call")
    assert await store.unread("th_1") == []
    assert (await committed(store, settle(Submit, "th_1", its[1].id))).route == "inline"
    assert (await committed(store, settle(Submit, "th_2", others.id))).route == "inbox"


async def test_no_call_hopes_for_a_result_any_more_in_the_runs_of_a_deleted_agent(store: Store) -> None:
    drain = await answered_by(store, 1)
    waiting, created = drain.call("waiting"), drain.call(position=1)
    await drain.answer(waiting, created)
    await committed(store, drop(agent(1)))
    moves = [change(each.id, each.status, "pending") for each in (waiting, created)]
    await drain.do(drain.unit(Result, changes=tuple(moves)))
    assert await statuses(store, drain) == ["cancelled"] * 2
    await drain.answer(drain.call("pending", position=2))
    assert await statuses(store, drain) == ["cancelled"] * 3


async def test_a_new_revision_of_an_agent_reads_late_results_still(store: Store) -> None:
    drain = await answered_by(store, 1)
    await drain.answer(drain.call("pending"))
    await committed(store, save(agent(1, 2), was=1))
    await drain.answer(drain.call("pending", position=1))
    assert await statuses(store, drain) == ["pending"] * 2


async def test_a_thread_handed_to_a_deleted_agent_hopes_for_nothing(store: Store) -> None:
    drain = await answered_by(store, 1)
    await drain.answer(drain.call("pending"))
    await committed(store, save(agent(2)))
    await committed(store, drop(agent(2)))
    await committed(store, act(HandOff(thread_id="th_1", agent="agt_2")))
    assert await statuses(store, drain) == ["cancelled"]


async def test_a_result_and_the_end_of_its_agent_have_one_winner(store: Store) -> None:
    drains = [await answered_by(store, number) for number in range(1, RACES + 1)]
    calls = [drain.call("pending", expires_at=later(1000)) for drain in drains]
    for drain, call in zip(drains, calls, strict=True):
        await drain.answer(call)
    units = [
        (settle(Submit, drain.thread_id, call.id), drop(agent(number)))
        for number, (drain, call) in enumerate(zip(drains, calls, strict=True), 1)
    ]
    pairs = [pair if number % 2 else pair[::-1] for number, pair in enumerate(units)]
    answers = await asyncio.gather(*[store.commit(unit) for pair in pairs for unit in pair])
    for (submit, _), drain in zip(units, drains, strict=True):
        place = [unit for pair in pairs for unit in pair].index(submit)
        read = isinstance(answers[place], Committed)
        assert await statuses(store, drain) == ["resolved" if read else "cancelled"]
        assert len(await store.unread(drain.thread_id)) == int(read)


async def test_no_call_becomes_pending_beside_the_end_of_its_agent(store: Store) -> None:
    drains = [await answered_by(store, number) for number in range(1, RACES + 1)]
    pairs = list[tuple[Unit, Unit]]()
    for number, drain in enumerate(drains, 1):
        waiting = drain.call("waiting")
        await drain.answer(waiting)
        flip = drain.unit(Result, changes=(change(waiting.id, "waiting", "pending"),))
        pairs.append((flip, drop(agent(number))) if number % 2 else (drop(agent(number)), flip))
    answers = await asyncio.gather(*[store.commit(unit) for pair in pairs for unit in pair])
    assert all(isinstance(answer, Committed) for answer in answers)
    for drain in drains:
        assert await statuses(store, drain) == ["cancelled"]
