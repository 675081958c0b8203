"""Calls that await a late result, in every journal: calls of a deleted agent have no reader."""

import asyncio
import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.conftest import Journal
from tests.conformance.test_agents import agent, drop, save
from tests.conformance.test_spaces import ALL, HERE, act, joins, made, member, space
from tests.databases import database, opened
from tests.play import AT, Drain, begun, change, committed, draft, later, new_id, settle, step, token
from tests.postgres_server import fresh_database

from toolwright.adapters.memory import MemoryCipher, MemoryFiles
from toolwright.adapters.store.opening import open_postgres
from toolwright.adapters.store.postgres.connection import connect
from toolwright.core.journal.agent_effects import SetTimer
from toolwright.core.journal.child_effects import Close, HandOff
from toolwright.core.journal.space_effects import DropMember, Erase, Post, Source
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import (
    Answer,
    CancelCall,
    CancelOrphans,
    Committed,
    Conflict,
    DropAgent,
    Result,
    SubmitResult,
    Unit,
)
from toolwright.core.results import CALL_CANCELLED
from toolwright.core.spaces import Entity
from toolwright.core.threads.call import Call, timer_of
from toolwright.core.threads.event import Event, Topic
from toolwright.runtime.calls.visible import result_message
from toolwright.runtime.env import Environment, Keys
from toolwright.runtime.housekeeping import Housekeeper
from toolwright.runtime.pending.pending import Settling, settlement
from toolwright.runtime.threads.deletion import Deletion
from toolwright.testing import ManualClock, ManualMotor, MemoryBus
from toolwright.wire.call import call_message_id, visible_call_message

pytestmark = pytest.mark.anyio
RACES = 20


async def answered_by(store: Store, number: int) -> Drain:
    """Create a thread with a run in progress, in which the configured agent of that number is active."""
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
    assert await store.commit(settle(SubmitResult, "th_1", its[0].id)) == Conflict(guard="call")
    assert await store.unread("th_1") == []
    assert (await committed(store, settle(SubmitResult, "th_1", its[1].id))).route == "inline"
    assert (await committed(store, settle(SubmitResult, "th_2", others.id))).route == "inbox"


async def test_no_call_hopes_for_a_result_any_more_in_the_runs_of_a_deleted_agent(store: Store) -> None:
    drain = await answered_by(store, 1)
    waiting, created = drain.call("waiting"), drain.call(position=1)
    await drain.answer(waiting, created)
    await committed(store, drop(agent(1)))
    moves = [change(each, "pending") for each in (waiting, created)]
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
        (settle(SubmitResult, drain.thread_id, call.id), drop(agent(number)))
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
        flip = drain.unit(Result, changes=(change(waiting, "pending"),))
        pairs.append((flip, drop(agent(number))) if number % 2 else (drop(agent(number)), flip))
    answers = await asyncio.gather(*[store.commit(unit) for pair in pairs for unit in pair])
    assert all(isinstance(answer, Committed) for answer in answers)
    for drain in drains:
        assert await statuses(store, drain) == ["cancelled"]


async def test_calls_become_pending_beside_a_new_revision_of_their_agent(store: Store) -> None:
    drains = [await answered_by(store, number) for number in range(1, RACES + 1)]
    units = list[Unit]()
    for number, drain in enumerate(drains, 1):
        waiting = drain.call("waiting")
        await drain.answer(waiting)
        units.append(drain.unit(Result, changes=(change(waiting, "pending"),)))
        units.append(save(agent(number, 2), was=1))
    answers = await asyncio.gather(*[store.commit(unit) for unit in units])
    assert all(isinstance(answer, Committed) for answer in answers)
    for drain in drains:
        assert await statuses(store, drain) == ["pending"]


async def test_calls_become_pending_in_one_statement_on_postgres() -> None:
    async with fresh_database() as url:
        store = await open_postgres(url, list[Event]().extend)
        drain = await answered_by(store, 1)
        waiting = drain.call("waiting")
        await drain.answer(waiting, drain.call("pending", position=1))
        flip = drain.unit(Result, changes=(change(waiting, "pending"),))
        await drain.do(flip)
        assert (await store.commit(flip)) == await store.commit(flip)  # its token is recorded
        connection = await connect(url)
        recorded = await connection.fetchval("SELECT answer FROM commits WHERE token = $1", flip.token)
        await connection.close()
        assert isinstance(json.loads(recorded), list)  # the rows of one statement
        assert await statuses(store, drain) == ["pending"] * 2
        await store.close()


async def room(store: Store) -> None:
    """Create a space in which calls are shown."""
    await committed(store, act(made(space()), joins(member("ent_ann"), 0)))


def shows(call: Call) -> Post:
    """Return the message of a visible call at its start."""
    message = visible_call_message(call, "spc_1", "requires_action")
    told = draft("space.message", message={"id": message.id})
    return Post(space_id="spc_1", message=message, events=(told,))


def visible(drain: Drain, number: int, **fields: Any) -> Call:  # fields of Call
    given: dict[str, Any] = {
        "id": f"call_{drain.thread_id}_{number}",
        "agent": drain.thread_id.replace("th", "agt"),
        "position": number,
        "arguments": '{"q": 1}',
    }
    return replace(drain.call("pending"), **{**given, "visible": True, "space_id": "spc_1", **fields})


async def shown_by(store: Store, number: int, count: int = 1, **fields: Any) -> tuple[Drain, list[Call]]:
    """Create a thread in which the configured agent of that number is active, with that many visible pending calls."""
    drain = await answered_by(store, number)
    calls = [visible(drain, each, **fields) for each in range(count)]
    await drain.answer(*calls)
    await committed(store, act(*[shows(call) for call in calls]))
    return drain, calls


def author_of(call: Call) -> Entity:
    assert call.agent is not None
    return Entity(id=call.agent.replace("agt", "ent"), type="agent", display_name="scout", metadata={})


def cancel(call: Call) -> CancelCall:
    """The unit that the runtime commits when a service withdraws the call."""
    source = Source(thread_id=call.thread_id, run_id=call.run_id, agent=call.agent)
    shown = result_message(call, CALL_CANCELLED, author_of(call), source)
    return settlement(CancelCall, call, CALL_CANCELLED, Settling(token=token(), at=AT, shown=shown))


def delete(number: int) -> DropAgent:
    entity = Entity(id=f"ent_{number}", type="agent", display_name="scout", metadata={})
    return DropAgent(token=token(), at=AT, agent_id=f"agt_{number}", entity_id=entity.id, author=entity)


async def thread_events(store: Store, thread_id: str) -> Sequence[Event]:
    return await store.events(Topic(kind="thread", id=thread_id), limit=10_000)


async def status_shown(store: Store, call: Call) -> Any:
    message = await store.spaces.message(call_message_id(call.id))
    return None if message is None else message.metadata["status"]


async def test_a_deleted_agents_call_ends_as_if_it_was_cancelled(journal: Journal) -> None:
    store = journal.store
    await room(store)
    ends: list[Any] = []
    for number in (1, 2):
        _, [call] = await shown_by(store, number, expires_at=later(9))
        await committed(store, act(SetTimer(name=timer_of(call.id), due=later(9))))
        before = len(await store.events(HERE)), len(await thread_events(store, f"th_{number}"))
        posted = len(journal.published)
        await committed(store, cancel(call) if number == 1 else delete(2))
        stored, message = await store.call(call.id), await store.spaces.message(call_message_id(call.id))
        assert stored is not None and message is not None
        told = (
            (await store.events(HERE))[before[0] :],
            (await thread_events(store, f"th_{number}"))[before[1] :],
        )
        assert [each.n for each in told[1]] == [before[1] + 1]
        assert [each.run_id for each in (*told[0], *told[1])] == [call.run_id] * 3
        ends.append(
            [
                (stored.status, stored.result, stored.completed_at),
                (message.content, message.metadata | {"toolCallId": "", "runId": ""}, message.edited_at),
                [(each.type, str(each.payload).replace(call.run_id, "RUN")) for each in (*told[1], *told[0])],
                [each.type for each in journal.published[posted:]],
                await store.wake(timer_of(call.id)),
                (await store.wake(f"th_{number}")) is not None,
            ]
        )
    assert len({re.sub(r"(th|agt|ent)_[12]|'seq': [12]", "", str(end)) for end in ends}) == 1
    assert [name for name, _ in ends[1][2]] == ["tool.error", "tool.error", "message_updated"]
    assert ends[1][1][1]["status"] == "error"
    assert await store.unread("th_2") == []  # no run reads it


async def test_the_message_of_a_deleted_agents_call_is_ended_before_the_agent_leaves(store: Store) -> None:
    await room(store)
    await committed(store, act(joins(member("ent_1", type="agent"), 1)))
    await shown_by(store, 1, 2)
    before = len(await store.events(HERE))
    left = DropMember(space_id="spc_1", entity_id="ent_1", events=(draft("member_removed"),))
    unit = DropAgent(token=token(), at=AT, agent_id="agt_1", entity_id="ent_1", told=left.events)
    await committed(store, unit)
    types = [each.type for each in (await store.events(HERE))[before:]]
    assert types == [*["tool.error", "message_updated"] * 2, "member_removed"]
    numbers = [each.n for each in await store.events(ALL)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_six_hundred_calls_of_a_deleted_agent_end_in_one_unit(store: Store) -> None:
    await room(store)
    drains = [(await shown_by(store, number, 100))[0] for number in range(1, 3)]
    calls = [visible(drains[0], each) for each in range(100, 600)]
    await drains[0].answer(*calls)
    for first in range(0, len(calls), 500):
        await committed(store, act(*[shows(call) for call in calls[first : first + 500]]))
    before = await thread_events(store, "th_1"), await thread_events(store, "th_2")
    last = (await store.events(ALL, limit=10_000))[-1].n
    await committed(store, delete(1))
    stored = await store.calls(run_id=drains[0].run.id, limit=10_000)
    assert [each.status for each in stored] == ["cancelled"] * 600
    assert {await status_shown(store, call) for call in stored} == {"error"}
    events = (await thread_events(store, "th_1"))[len(before[0]) :]
    assert [each.n for each in events] == [len(before[0]) + each for each in range(1, 601)]
    assert await thread_events(store, "th_2") == before[1]
    in_space = await store.events(HERE, after=last or 0, limit=10_000)
    assert [each.type for each in in_space] == ["tool.error", "message_updated"] * 600
    assert [each.n for each in in_space] == [(last or 0) + each for each in range(1, 1201)]


async def test_a_message_that_is_gone_stays_gone_when_the_agent_of_its_call_is_deleted(store: Store) -> None:
    await room(store)
    _, [call] = await shown_by(store, 1)
    await committed(store, act(Erase(space_id="spc_1", message_id=call_message_id(call.id))))
    before = await store.events(HERE)
    await committed(store, delete(1))
    assert await status_shown(store, call) is None
    assert await store.events(HERE) == before
    assert [each.type for each in await thread_events(store, "th_1")][-1] == "tool.error"


async def test_a_visible_call_that_becomes_pending_after_its_agents_end_is_shown_cancelled(
    store: Store,
) -> None:
    await room(store)
    drain = await answered_by(store, 1)
    timed = visible(drain, 0, status="waiting", kind="space")
    await drain.answer(timed)
    await committed(store, act(shows(timed)))
    await committed(store, delete(1))
    flip = change(timed, "pending", expires_at=later(5))
    timer = SetTimer(name=timer_of(timed.id), due=later(5))
    await drain.do(drain.unit(Result, changes=(flip,), events=(draft("step.done"),), effects=(timer,)))
    assert await status_shown(store, timed) == "error"
    assert await store.wake(timer_of(timed.id)) is None
    new, below = visible(drain, 1), visible(drain, 2, parent_id=timed.id)
    number = drain.run.step_count + 1
    shown = {"effects": (shows(new), shows(below)), "events": (draft("step.done"),)}
    unit = drain.unit(
        Answer,
        {"step_count": number},
        calls=(new,),
        nested=(below,),
        step=step(drain.run.id, number),
        **shown,
    )
    await drain.do(unit)
    assert [await status_shown(store, call) for call in (new, below)] == ["error"] * 2
    assert await statuses(store, drain) == ["cancelled"] * 3
    for call in (timed, new, below):
        stored = await store.call(call.id)
        assert stored is not None
        assert stored.result == {"status": "error", "error": "Tool call cancelled"}
    events = await thread_events(store, "th_1")
    assert [each.n for each in events] == list(range(1, len(events) + 1))
    assert [each.type for each in events][-5:] == [
        "step.done",
        "tool.error",
        "step.done",
        *["tool.error"] * 2,
    ]
    in_space = [each.type for each in await store.events(HERE)]
    assert in_space[-6:] == ["space.message", "tool.error", "message_updated"] * 2


async def test_who_answers_after_a_units_own_hand_off_says_whether_a_result_is_hoped_for(
    store: Store,
) -> None:
    await room(store)
    drain = await answered_by(store, 1)
    first, second = drain.call("waiting"), visible(drain, 1, status="waiting")
    await drain.answer(first, second)
    await committed(store, act(shows(second)))
    for number in (2, 3):
        await committed(store, save(agent(number)))
    await committed(store, delete(2))
    gone, living = (HandOff(thread_id="th_1", agent=f"agt_{number}") for number in (2, 3))
    await drain.do(drain.unit(Result, changes=(change(first, "pending"),), effects=(gone,)))
    assert await statuses(store, drain) == ["cancelled", "waiting"]
    await drain.do(drain.unit(Result, changes=(change(second, "pending"),), effects=(living,)))
    assert await statuses(store, drain) == ["cancelled", "pending"]
    await committed(store, act(gone))
    assert await statuses(store, drain) == ["cancelled"] * 2
    assert await status_shown(store, second) == "error"
    assert [each.type for each in await thread_events(store, "th_1")][-2:] == ["tool.error"] * 2


async def test_a_visible_call_of_a_thread_that_is_over_is_shown_cancelled(store: Store) -> None:
    await room(store)
    _, [call] = await shown_by(store, 1)
    await committed(store, act(Close(thread_id="th_1")))
    assert await status_shown(store, call) == "error"
    assert [each.type for each in await store.events(HERE)][-2:] == ["tool.error", "message_updated"]


async def test_a_visible_call_and_the_end_of_its_agent_have_one_winner(store: Store) -> None:
    await room(store)
    pairs = [await shown_by(store, number) for number in range(1, RACES + 1)]
    units: list[Unit] = []
    for number, (_, [call]) in enumerate(pairs, 1):
        both: list[Unit] = [cancel(call), delete(number)]
        units += both if number % 2 else both[::-1]
    await asyncio.gather(*[store.commit(unit) for unit in units])
    for _, [call] in pairs:
        assert await status_shown(store, call) == "error"
        told = [each.type for each in await thread_events(store, call.thread_id)]
        assert told.count("tool.error") == 1
    in_space = [each.type for each in await store.events(HERE, limit=10_000)]
    assert [in_space.count(name) for name in ("tool.error", "message_updated")] == [RACES] * 2


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_calls_of_agents_deleted_before_deletion_cancelled_them_are_settled(
    kind: str, tmp_path: Path
) -> None:
    async with database(kind, tmp_path) as url:
        store = await opened(url, MemoryBus())
        await room(store)
        gone = [(await shown_by(store, number))[1][0] for number in (1, 2, 3)]
        _, [kept] = await shown_by(store, 4)
        await store.close()
        orphaned = "DELETE FROM agents WHERE id IN ('agt_1', 'agt_2', 'agt_3')"
        if kind == "sqlite":
            with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as file:
                file.execute(orphaned)
        else:
            connection = await connect(url)
            await connection.execute(orphaned)
            await connection.close()
        store = await opened(url, MemoryBus())
        assert len(await store.agents.orphans(limit=2)) == 2
        assert sorted(await store.agents.orphans()) == ["th_1", "th_2", "th_3"]
        clock = ManualClock()
        keys = Keys(store, Environment(MemoryCipher()), clock, new_id)
        motor, files = ManualMotor(store, clock), MemoryFiles()
        deletion = Deletion(store, motor.wake, MemoryBus(), files, clock, new_id)
        keeper = Housekeeper(store, motor, keys, files, clock, new_id, deletion)
        assert [await keeper.cancel_orphans(), await keeper.cancel_orphans()] == [3, 0]
        unit = CancelOrphans(token=token(), at=AT, thread_ids=("th_1", "th_4", "th_9"))
        assert (await committed(store, unit)).count == 1  # an existing agent keeps its calls
        assert [await status_shown(store, call) for call in (*gone, kept)] == [
            *["error"] * 3,
            "requires_action",
        ]
        assert [call.id for call in await store.calls(status=["pending"])] == [kept.id]
        assert [each.type for each in await thread_events(store, "th_3")][-1] == "tool.error"
        await store.close()
