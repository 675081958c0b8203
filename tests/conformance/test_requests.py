"""Requests for values in every store: opened once, owned, answered once, and the threads that they wake."""

import asyncio
from dataclasses import replace

import pytest
from tests.conformance.test_values import put, row
from tests.play import AT, committed, create, later, new_id, token

from toolwright.core.env.env import EnvChange, RequestKind, Variable, VariablesRequest
from toolwright.core.journal.child_effects import (
    CheckRequest,
    ChildLimit,
    CloseRequest,
    FulfillRequest,
    OpenRequest,
    Terminate,
)
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Committed, Conflict, SetEnv
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.child import Link

pytestmark = pytest.mark.anyio

KEY = Variable("KEY", type="secret", description="Über\nall")
REGION = Variable("REGION", scoped=True)


def request(
    thread_id: str, number: int = 1, kind: RequestKind = "run", required: tuple[Variable, ...] = (KEY, REGION)
) -> VariablesRequest:
    child: JSONObject | None = {"threadId": "thr_x", "files": [], "ü": None} if kind == "child" else None
    return VariablesRequest(
        id=f"req_{thread_id}_{number}",
        thread_id=thread_id,
        kind=kind,
        agent="helper",
        required=required,
        child=child,
        expires_at=later(60) if kind == "child" else None,
        created_at=later(number),
    )


def act(*effects: Effect) -> Apply:
    return Apply(token=token(), at=AT, effects=effects)


def opening(asked: VariablesRequest) -> OpenRequest:
    return OpenRequest(thread_id=asked.thread_id, request=asked)


async def a_thread(store: Store) -> str:
    unit = create()
    await committed(store, unit)
    return unit.thread.id


def given(thread_id: str, *names: str, effects: tuple[Effect, ...] = ()) -> SetEnv:
    rows = [row(thread_id, name) for name in names]
    return SetEnv(token=token(), at=AT, thread_id=thread_id, env=put(*rows), effects=effects)


async def test_requests_are_read_as_they_were_opened_once(store: Store) -> None:
    thread_id = await a_thread(store)
    first, second = request(thread_id, 1), request(thread_id, 2, "child")
    await committed(store, act(opening(second), opening(first)))
    await committed(store, act(opening(replace(first, agent="other"))))
    assert await store.children.request(first.id) == first
    assert await store.children.request(second.id) == second
    assert list(await store.children.requests(thread_id)) == [first, second]
    assert await store.children.request("req_none") is None
    assert list(await store.children.requests("thr_none")) == []


async def test_only_what_runs_wait_for_is_asked(store: Store) -> None:
    one, two = sorted([await a_thread(store), await a_thread(store)])
    await committed(store, act(opening(request(two)), opening(request(one, required=(KEY,)))))
    await committed(store, act(opening(request(one, 2, "child", (Variable("OTHER"),)))))
    assert list(await store.children.requested_variables()) == ["KEY", "REGION"]
    assert list(await store.children.waiting_threads("KEY")) == [one, two]
    assert list(await store.children.waiting_threads("REGION")) == [two]
    assert list(await store.children.waiting_threads("OTHER")) == []
    await committed(store, act(CloseRequest(thread_id=two, id=request(two).id)))
    assert list(await store.children.requested_variables()) == ["KEY"]


async def test_a_request_is_taken_once_and_closed_at_any_time(store: Store) -> None:
    thread_id = await a_thread(store)
    asked = request(thread_id)
    await committed(store, act(opening(asked)))
    taking = FulfillRequest(thread_id=thread_id, id=asked.id)
    answers = await asyncio.gather(*[store.commit(act(taking)) for _ in range(5)])
    assert sorted(type(answer).__name__ for answer in answers) == ["Committed", *["Conflict"] * 4]
    assert Conflict(guard="request") in answers
    assert await store.children.request(asked.id) is None
    assert list(await store.children.requested_variables()) == []
    await committed(store, act(CloseRequest(thread_id=thread_id, id=asked.id)))


async def test_expired_requests_are_found_a_few_at_a_time(store: Store) -> None:
    thread_id = await a_thread(store)
    late, early, never = request(thread_id, 1, "child"), request(thread_id, 2, "child"), request(thread_id, 3)
    early = replace(early, expires_at=later(30))
    await committed(store, act(opening(late), opening(early), opening(never)))
    assert list(await store.children.expired(later(29), 10)) == []
    assert list(await store.children.expired(later(30), 10)) == [early]
    assert list(await store.children.expired(later(60), 10)) == [early, late]
    assert list(await store.children.expired(later(60), 1)) == [early]


async def test_a_request_is_taken_with_what_was_given_to_it_or_nothing_is(store: Store) -> None:
    thread_id, child = await a_thread(store), new_id("thr")
    asked = request(thread_id, 1, "child")
    kept, gone = row(child, "KEPT"), row(child, "KEY")
    await committed(store, act(opening(asked)))
    held = CheckRequest(thread_id=thread_id, id=asked.id)
    await committed(store, replace(given(thread_id, effects=(held,)), env=put(kept, gone)))
    drop = EnvChange(owner=child, kind="env", name="KEY", row=None)
    taken = FulfillRequest(thread_id=thread_id, id=asked.id)
    await committed(store, replace(given(thread_id, effects=(taken,)), env=(drop,)))
    assert list(await store.env_of(child)) == [kept]
    assert await store.children.request(asked.id) is None
    again = replace(given(thread_id, effects=(taken,)), env=(replace(drop, name="KEPT"),))
    assert await store.commit(again) == Conflict(guard="request")
    assert list(await store.env_of(child)) == [kept]


async def test_values_are_kept_only_while_their_request_is_open(store: Store) -> None:
    thread_id = await a_thread(store)
    asked = request(thread_id)
    await committed(store, act(opening(asked)))
    held = CheckRequest(thread_id=thread_id, id=asked.id)
    await committed(store, given(thread_id, "KEY", effects=(held,)))
    assert await store.children.request(asked.id) == asked
    assert list(await store.children.waiting_threads("REGION")) == [thread_id]
    taken = FulfillRequest(thread_id=thread_id, id=asked.id)
    await committed(store, given(thread_id, "REGION", effects=(taken,)))
    for effect in (held, taken):
        late = given(thread_id, "LATE", effects=(effect,))
        assert await store.commit(late) == Conflict(guard="request")
    assert [each.name for each in await store.env_of(thread_id)] == ["KEY", "REGION"]


async def test_all_names_at_once_wake_those_that_ask_for_one(store: Store) -> None:
    asking, idle, elsewhere = [await a_thread(store) for _ in range(3)]
    await committed(store, act(opening(request(asking))))
    await committed(store, act(opening(request(idle, required=(Variable("OTHER"),)))))
    assert isinstance(await store.commit(given(elsewhere, "KEY", "REGION", "MORE")), Committed)
    assert await store.wake(asking) is not None
    assert await store.wake(idle) is None
    before = await store.wake(asking)
    assert before is not None
    taken = FulfillRequest(thread_id=asking, id=request(asking).id)
    await committed(store, given(asking, "KEY", "REGION", effects=(taken,)))
    after = await store.wake(asking)
    assert after is not None
    assert after.gen > before.gen, "the unit that takes the request wakes its run"
    await committed(store, given(elsewhere, "KEY"))
    assert await store.wake(asking) == after


async def test_there_is_room_for_so_many_children_that_are_not_terminated(store: Store) -> None:
    parent = await a_thread(store)

    async def child(agent: str) -> str:
        unit = create()
        thread = replace(unit.thread, agent=agent, parent_id=parent, link=Link())
        await committed(store, replace(unit, thread=thread))
        return thread.id

    room = act(ChildLimit(thread_id=parent, agent="scout", most=2))
    first = await child("scout")
    await child("other")
    await committed(store, room)
    await child("scout")
    assert await store.commit(replace(room, token=token())) == Conflict(guard="child_limit")
    await committed(store, act(Terminate(thread_id=first)))
    await committed(store, replace(room, token=token()))
