"""Spaces in every journal: positions without gaps, events in one sequence, deliveries to agents, all or nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.conftest import Journal
from tests.conformance.test_entities import drop, human, save
from tests.play import AT, Drain, begun, committed, draft, later, new_id, post, settle, token

from toolwright.core.journal.agent_effects import DropTimer, SetTimer
from toolwright.core.journal.child_effects import Close
from toolwright.core.journal.effects import Deliver, Effect
from toolwright.core.journal.retention import Prune, SweepThreads
from toolwright.core.journal.space_effects import (
    Announce,
    DropMember,
    DropSpace,
    Edit,
    Enter,
    Erase,
    MarkRead,
    Post,
    React,
    SaveMember,
    SaveSpace,
    Source,
    Unreact,
)
from toolwright.core.journal.store import CallVisibility, Store
from toolwright.core.journal.units import (
    Answer,
    Apply,
    Claim,
    Committed,
    Conflict,
    Finish,
    LeaseCall,
    Result,
    SubmitResult,
)
from toolwright.core.spaces import DeliveryOrder, Member, Reaction, Space, SpaceMessage
from toolwright.core.threads.event import Topic
from toolwright.core.threads.inbox import Delivery, InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.wire.call import call_message_id

pytestmark = pytest.mark.anyio

HERE = Topic(kind="space", id="spc_1")
SWEEP = SweepThreads(token="swept", at=AT)
ALL = Topic(kind="spaces", id="")


def act(*effects: Effect) -> Apply:
    return Apply(token=token(), at=AT, effects=effects)


def space(space_id: str = "spc_1", **fields: Any) -> Space:  # fields of Space
    given: dict[str, Any] = {"kind": "private", "metadata": {}, "created_at": AT, "updated_at": AT}
    return Space(id=space_id, **{**given, **fields})


def made(new: Space) -> SaveSpace:
    return SaveSpace(space_id=new.id, space=new)


def member(entity_id: str, space_id: str = "spc_1", **fields: Any) -> Member:  # fields of Member
    return Member(space_id=space_id, entity_id=entity_id, joined_at=fields.pop("joined_at", AT), **fields)


def joins(one: Member, revision: int) -> SaveMember:
    return SaveMember(space_id=one.space_id, member=one, revision=revision)


def message(space_id: str = "spc_1", **fields: Any) -> SpaceMessage:  # fields of SpaceMessage
    given: dict[str, Any] = {"id": new_id("msg"), "entity_id": "ent_ann", "role": "user", "content": "Hi"}
    return SpaceMessage(space_id=space_id, metadata={}, created_at=AT, **{**given, **fields})


def says(one: SpaceMessage, **fields: Any) -> Post:  # fields of Post
    event = draft("space.message", message={"id": one.id, "content": one.content})
    given: dict[str, Any] = {"events": (event,), **fields}
    return Post(space_id=one.space_id, message=one, **given)


def delivery(thread_id: str = "thr_home", event_id: str | None = None, **fields: Any) -> Delivery:
    """Return an event for the home thread of an agent."""
    event = InboxEvent(
        thread_id=thread_id,
        event_id=event_id or new_id("evt"),
        type="space_message",
        content={"text": "Hi"},
        created_at=AT,
        **fields,
    )
    return Delivery(
        thread=Thread(id=thread_id, agent="agt_1", created_at=AT),
        event=event,
        run=Run(id=new_id("run"), thread_id=thread_id, agent="agt_1", created_at=AT),
        queued=draft("run.queued"),
    )


@pytest.fixture
async def room(store: Store) -> Store:
    """A journal with one space, of which Ann is a member."""
    await committed(store, act(made(space()), joins(member("ent_ann"), 0)))
    return store


async def told(store: Store, topic: Topic = HERE) -> list[tuple[int | None, str]]:
    return [(event.n, event.type) for event in await store.events(topic)]


async def test_messages_get_places_and_events_numbers(journal: Journal, room: Store):
    await committed(room, act(made(space("spc_2"))))
    first, elsewhere, second = message(content="a\x00\ud800\u2028"), message("spc_2"), message(parent_id="m")
    source = Source(thread_id="thr_1", run_id="run_1", agent="agt_1")
    assert (await committed(room, act(says(first, source=source)))).seq == 1
    assert (await committed(room, act(says(elsewhere)))).seq == 1
    assert (await committed(room, act(says(second)))).seq == 2
    assert list(await room.spaces.messages("spc_1")) == [replace(first, seq=1), replace(second, seq=2)]
    assert await room.spaces.message(first.id) == replace(first, seq=1)
    [event, _] = await room.events(HERE)
    assert (event.space_id, event.thread_id, event.run_id, event.agent) == (
        "spc_1",
        "thr_1",
        "run_1",
        "agt_1",
    )
    assert event.payload == {"message": {"id": first.id, "content": first.content, "seq": 1}}
    assert [event.n for event in await room.events(HERE)] == [1, 3]
    assert [event.n for event in await room.events(ALL, after=1)] == [2, 3]
    assert (await room.bounds(HERE), await room.bounds(ALL)) == ((1, 3), (1, 3))
    assert [event.n for event in journal.published] == [1, 2, 3]
    assert list(await room.events(ALL)) == journal.published


async def test_fifty_writers_leave_no_gap(journal: Journal, room: Store):
    writes = [
        committed(room, act(says(message(content=str(n)), events=(draft("a"), draft("b")))))
        for n in range(50)
    ]
    answers = await asyncio.gather(*writes)
    assert sorted(answer.seq or 0 for answer in answers) == list(range(1, 51))
    assert [one.seq for one in await room.spaces.messages("spc_1", limit=100)] == list(range(1, 51))
    assert [event.n for event in journal.published] == list(range(1, 101))
    assert list(await room.events(ALL)) == journal.published


async def test_messages_are_read_by_page(room: Store):
    for number in range(1, 8):
        await committed(room, act(says(message(content=str(number)))))

    def texts(found: Any) -> list[str]:  # the rows of a page
        return [one.content for one in found]

    assert texts(await room.spaces.messages("spc_1", limit=3)) == ["5", "6", "7"]
    assert texts(await room.spaces.messages("spc_1", after=2, limit=3)) == ["3", "4", "5"]
    assert texts(await room.spaces.messages("spc_1", after=0, limit=1)) == ["1"]
    assert texts(await room.spaces.messages("spc_1", before=3, limit=5)) == ["1", "2"]
    assert texts(await room.spaces.newest("spc_1", 2, 3)) == ["3", "4"]
    assert texts(await room.spaces.newest("spc_1", 5, 6)) == ["1"]
    assert texts(await room.spaces.messages("spc_none")) == []


async def test_a_message_is_for_the_members_that_were_seen(room: Store):
    await committed(room, act(joins(member("ent_bob"), 1)))
    assert await room.commit(act(says(message(), revision=1))) == Conflict(guard="space")
    assert await room.commit(act(says(message("spc_none")))) == Conflict(guard="space")
    assert list(await room.spaces.messages("spc_1")) == []
    await committed(room, act(says(message(), revision=2)))


async def test_who_writes_to_a_public_space_joins_it_once(room: Store):
    await committed(room, act(made(space("spc_2", kind="public"))))
    joining = member("ent_bob", "spc_2")
    for _ in range(2):
        await committed(room, act(says(message("spc_2"), joining=joining)))
    assert list(await room.spaces.members("spc_2")) == [joining]
    found = await room.spaces.space("spc_2")
    assert found is not None and (found.revision, found.seq) == (1, 2)


async def test_members_come_and_go(room: Store):
    bob = member("ent_bob", role="owner", joined_at=later(1))
    assert await room.commit(act(joins(bob, 0))) == Conflict(guard="space")
    await committed(room, act(joins(bob, 1)))
    await committed(room, act(MarkRead(space_id="spc_1", entity_id="ent_bob", seq=4)))
    await committed(room, act(MarkRead(space_id="spc_1", entity_id="ent_bob", seq=2)))
    await committed(room, act(joins(replace(bob, role="guest", joined_at=later(9)), 2)))
    now = replace(bob, role="guest", read_seq=4)
    assert list(await room.spaces.members("spc_1")) == [member("ent_ann"), now]
    assert await room.spaces.member("spc_1", "ent_bob") == now
    assert list(await room.spaces.memberships("ent_bob")) == [now]
    await committed(room, act(DropMember(space_id="spc_1", entity_id="ent_bob")))
    assert await room.commit(act(DropMember(space_id="spc_1", entity_id="ent_bob"))) == Conflict(
        guard="member"
    )
    mark = MarkRead(space_id="spc_1", entity_id="ent_bob", seq=4)
    assert await room.commit(act(mark)) == Conflict(guard="member")
    found = await room.spaces.space("spc_1")
    assert found is not None and found.revision == 4


async def test_spaces_are_seen_by_members_and_public_ones_by_all(room: Store):
    await committed(room, act(made(space("spc_2", kind="public", created_at=later(2)))))
    await committed(room, act(made(space("spc_3", created_at=later(3)))))
    assert [one.id for one in await room.spaces.spaces()] == ["spc_1", "spc_2", "spc_3"]
    assert [one.id for one in await room.spaces.spaces(limit=1, offset=1)] == ["spc_2"]
    assert [one.id for one in await room.spaces.spaces(seen_by="ent_ann")] == ["spc_1", "spc_2"]
    assert [one.id for one in await room.spaces.spaces(seen_by="ent_bob")] == ["spc_2"]


async def test_an_entity_knows_its_company(room: Store):
    await committed(room, save(replace(human(1), id="ent_ann", display_name="Ann\x00")))
    bob, bot = member("ent_bob", "spc_2", joined_at=later(2)), member("ent_bot", "spc_2", type="agent")
    later_one = space("spc_2", created_at=later(1))
    await committed(
        room, act(made(later_one), joins(member("ent_ann", "spc_2"), 0), joins(bob, 1), joins(bot, 2))
    )
    await committed(room, act(made(space("spc_3"))))
    assert [one.id for one in await room.spaces.spaces_of("ent_ann", 9)] == ["spc_1", "spc_2"]
    assert [one.id for one in await room.spaces.spaces_of("ent_ann", 1)] == ["spc_1"]
    for one, other in (("ent_ann", bob.entity_id), (bob.entity_id, "ent_ann")):
        assert [each.id for each in await room.spaces.spaces_of(one, 9, other)] == ["spc_2"]
        assert list(await room.spaces.spaces_of(one, 0, other)) == []
    assert list(await room.spaces.spaces_of("ent_ann", 9, "ent_none")) == []
    ann = member("ent_ann"), "Ann\x00"
    here = [(member("ent_ann", "spc_2"), "Ann\x00"), (bot, None), (bob, None)]
    assert list(await room.spaces.company("ent_ann", 9)) == [ann, *here]
    assert list(await room.spaces.company("ent_ann", 2)) == [ann, here[0]]
    assert list(await room.spaces.company("ent_eve", 9)) == []


async def test_a_space_is_changed_by_compare_and_set_and_deleted_whole(room: Store):
    was = await room.spaces.space("spc_1")
    assert was is not None
    said = message()
    await committed(room, act(says(said)))
    await committed(room, act(React(space_id="spc_1", reaction=reaction(said.id))))
    new = replace(was, name="Tea\x00", description="\ud800", metadata={"a": [1]}, updated_at=later(1))
    change = SaveSpace(space_id="spc_1", space=new, was=was)
    await committed(room, act(change))
    found = await room.spaces.space("spc_1")
    assert found == replace(new, seq=1)
    assert await room.commit(act(change)) == Conflict(guard="space")
    assert await room.commit(act(made(space()))) == Conflict(guard="duplicate")
    await committed(room, act(DropSpace(space_id="spc_1", events=(draft("space.deleted"),))))
    assert await room.spaces.space("spc_1") is None
    await committed(room, SWEEP)
    assert [*await room.spaces.members("spc_1"), *await room.spaces.messages("spc_1")] == []
    assert list(await room.spaces.reactions([said.id])) == []
    assert await room.commit(act(DropSpace(space_id="spc_1"))) == Conflict(guard="space")


async def test_a_space_keeps_in_which_order_its_agents_hear(room: Store):
    was = await room.spaces.space("spc_1")
    assert was is not None and was.delivery == "all"
    await committed(room, act(made(space("spc_2", delivery="sequential"))))
    assert [one.delivery for one in await room.spaces.spaces()] == ["all", "sequential"]
    there = [await room.spaces.space("spc_2"), *await room.spaces.spaces(seen_by="ent_ann")]
    assert [one and one.delivery for one in there] == ["sequential", "all"]
    orders: Sequence[DeliveryOrder] = ("sequential", "all")
    for n, order in enumerate(orders, 1):
        new = replace(was, delivery=order, updated_at=later(n))
        await committed(room, act(SaveSpace(space_id="spc_1", space=new, was=was)))
        assert await room.spaces.space("spc_1") == new
        was = new


async def test_a_message_and_its_answers_are_read_together(room: Store):
    root, other = message(content="root"), message(content="other")
    answers = [message(content=str(n), parent_id=root.id) for n in range(3)]
    below = message(content="below", parent_id=answers[0].id)
    for one in (root, other, *answers, below, message(content="elsewhere", parent_id=other.id)):
        await committed(room, act(says(one)))

    async def texts(message_id: str, limit: int = 9) -> list[str]:
        return [one.content for one in await room.spaces.answers(message_id, limit)]

    assert await texts(root.id) == ["root", "0", "1", "2"]
    assert await texts(root.id, 4) == ["root", "0", "1", "2"]
    assert await texts(root.id, 2) == ["1", "2"]
    assert await texts(root.id, 0) == []
    assert await texts(answers[0].id) == ["0", "below"]
    assert await texts(below.id) == ["below"]
    assert [one.seq for one in await room.spaces.answers(root.id, 9)] == [1, 3, 4, 5]
    await committed(room, act(Erase(space_id="spc_1", message_id=root.id)))
    assert await texts(root.id) == ["0", "1", "2"]
    assert await texts(root.id, 1) == ["2"]
    assert await texts("msg_none") == []
    await committed(room, act(DropSpace(space_id="spc_1")))
    assert await texts(root.id) == []


def reaction(message_id: str, emoji: str = "👍", entity_id: str = "ent_ann") -> Reaction:
    return Reaction(message_id=message_id, entity_id=entity_id, emoji=emoji, created_at=AT)


async def test_messages_are_edited_and_deleted(room: Store):
    said = message()
    await committed(room, act(says(said)))
    edited = replace(said, content="Hello", metadata={"a": 1}, edited_at=later(1))
    news = (draft("message_updated", message={"id": said.id}),)
    assert (await committed(room, act(Edit(space_id="spc_1", message=edited, events=news)))).count == 1
    assert await room.spaces.message(said.id) == replace(edited, seq=1)
    [_, event] = await room.events(HERE)
    assert event.payload == {"message": {"id": said.id, "seq": 1}}
    gone = Erase(space_id="spc_1", message_id=said.id, events=(draft("message_deleted"),))
    assert (await committed(room, act(gone))).count == 1
    late = Edit(space_id="spc_1", message=edited, events=news)
    for refused in (gone, late):
        assert await room.commit(act(refused)) == Conflict(guard="message")
    assert (await committed(room, act(replace(late, if_there=True)))).count == 0
    assert [type for _, type in await told(room)] == ["space.message", "message_updated", "message_deleted"]
    assert (await committed(room, act(says(message())))).seq == 2


async def test_a_reaction_counts_once_until_it_is_removed(room: Store):
    said = message()
    await committed(room, act(says(said)))
    added = React(space_id="spc_1", reaction=reaction(said.id), events=(draft("reaction_added"),))
    taken = Unreact(
        space_id="spc_1",
        message_id=said.id,
        entity_id="ent_ann",
        emoji="👍",
        events=(draft("reaction_removed"),),
    )
    assert [(await committed(room, act(added))).count for _ in range(2)] == [1, 0]
    again = replace(added, reaction=replace(added.reaction, created_at=later(1)))
    assert (await committed(room, act(again, again))).count == 0
    assert list(await room.spaces.reactions([said.id])) == [added.reaction]
    other = reaction(said.id, "🎉")
    await committed(room, act(React(space_id="spc_1", reaction=other)))
    assert set(await room.spaces.reactions([said.id, "msg_none"])) == {added.reaction, other}
    assert [(await committed(room, act(taken))).count for _ in range(2)] == [1, 0]
    assert list(await room.spaces.reactions([said.id])) == [other]
    lost = React(space_id="spc_1", reaction=reaction("msg_none"))
    assert await room.commit(act(lost)) == Conflict(guard="message")
    assert (await committed(room, act(again, again))).count == 1
    assert [type for _, type in await told(room)] == [
        "space.message",
        *("reaction_added", "reaction_removed", "reaction_added"),
    ]


async def test_what_is_delivered_waits_for_the_next_run_of_a_home_thread(journal: Journal, room: Store):
    first, second, third = (delivery(author="ent_ann") for _ in range(3))
    [(_, run_1)] = (await committed(room, act(Deliver(delivery=first)))).runs
    [(_, run_2)] = (await committed(room, act(Deliver(delivery=second)))).runs
    assert run_1 == run_2 == first.run.id
    assert [event.type for event in journal.published] == ["run.queued"]
    view = await room.view("thr_home")
    assert view is not None and view.run is not None and view.run.id == run_1 and view.wake is not None
    assert [event.promised for event in view.inbox] == [run_1, run_1]

    drain = Drain(room, "thr_home", view.run)
    await drain.claim([event.event_id for event in view.inbox])
    [(_, run_3)] = (await committed(room, act(says(message(), deliveries=(third,))))).runs
    assert run_3 == third.run.id
    [(_, run_4)] = (await committed(room, act(Deliver(delivery=delivery())))).runs
    assert run_4 == run_3
    queued = await room.run(run_3)
    assert queued is not None and queued.status == "queued"
    joined = await committed(room, post("thr_home"))
    assert joined.run_id == run_1

    view = await room.view("thr_home")
    assert view is not None
    own = [event.event_id for event in view.inbox if event.run_id == run_1]
    await drain.do(drain.unit(Finish, {"status": "completed"}, read=tuple(own)))
    view = await room.view("thr_home")
    assert view is not None and view.run is not None
    assert (view.run.id, view.thread.begun, view.thread.next_run_id) == (run_3, False, None)
    again = await committed(room, act(Deliver(delivery=delivery())))
    assert again.runs == (("thr_home", run_3),)
    assert await room.spaces.caused(run_3, "ent_ann")
    assert not await room.spaces.caused(run_3, "ent_bob")
    assert not await room.spaces.caused("run_none", "ent_ann")


async def test_a_required_delivery_fails_without_a_receiver(room: Store):
    drain = await begun(room)
    await drain.do(drain.unit(Finish, {"status": "completed"}, effects=(Close(thread_id="th_1"),)))
    lost = delivery("th_1")
    assert (await committed(room, act(Deliver(delivery=lost)))).runs == ()
    required = replace(lost, required=True)
    for effects in ((Deliver(delivery=required),), (says(message(), deliveries=(required,)),)):
        assert await room.commit(act(*effects)) == Conflict(guard="terminated")
    assert list(await room.spaces.messages("spc_1")) == []
    there = replace(delivery("thr_home"), required=True)
    assert len((await committed(room, act(Deliver(delivery=there)))).runs) == 1


async def test_an_event_is_delivered_once(room: Store):
    once = delivery(event_id="evt_1")
    await committed(room, act(Deliver(delivery=once)))
    twice = says(message(), deliveries=(delivery(event_id="evt_1"), delivery("thr_other")))
    assert await room.commit(act(twice)) == Conflict(guard="duplicate")
    assert list(await room.spaces.messages("spc_1")) == []
    assert await room.thread("thr_other") is None


async def test_a_run_that_opens_by_itself_is_running_at_once(room: Store):
    drain = await begun(room, "thr_1")
    call = drain.call("pending")
    await drain.answer(call)
    await drain.do(drain.unit(Finish, {"status": "completed"}))
    await committed(room, settle(SubmitResult, "thr_1", call.id))
    opening = Drain(
        room, "thr_1", Run(id="run_2", thread_id="thr_1", agent="helper", created_at=AT), 1, drain.seq
    )
    await opening.do(opening.unit(Claim, {"status": "running", "started_at": AT}, opens=True))
    [(_, run_id)] = (await committed(room, act(Deliver(delivery=delivery("thr_1"))))).runs
    assert run_id != "run_2"


async def test_a_drain_writes_spaces_with_its_own_unit(journal: Journal, room: Store):
    drain = await begun(room)
    journal.published.clear()
    call = drain.call("waiting", visible=True, space_id="spc_1", repeatable=True)
    said = message(id=call_message_id(call.id), role="assistant", entity_id="ent_agent")
    source = Source(thread_id="th_1", run_id=drain.run.id, agent="helper")
    effects = (
        Enter(thread_id="th_1", space_id="spc_1"),
        Announce(space_id="spc_1", source=source, events=(draft("agent.active"),)),
        says(said, source=source, deliveries=(delivery(),)),
        SetTimer(name="call:1", due=later(60)),
    )
    unit = drain.unit(
        Answer, {"step_count": 1}, calls=(call,), events=(draft("tool.started"),), effects=effects
    )
    answer = await drain.do(unit)
    assert answer.seq == 1 and [thread for thread, _ in answer.runs] == ["thr_home"]
    thread, timer = await room.thread("th_1"), await room.wake("call:1")
    assert thread is not None and thread.space_id == "spc_1"
    assert timer is not None and timer.due == later(60)
    types = [event.type for event in journal.published]
    assert sorted(types) == ["agent.active", "run.queued", "space.message", "tool.started"]
    [found] = await room.calls(
        sees=CallVisibility(users=["ent_ann"], entity_id="ent_ann"), status=["waiting"]
    )
    assert found == call
    assert list(await room.calls(sees=CallVisibility(users=["ent_bob"], entity_id="ent_bob"))) == []
    assert list(await room.calls(space_id="spc_2")) == []
    assert [one.id for one in await room.calls(space_id="spc_1", agent="helper")] == [call.id]

    shown = Edit(space_id="spc_1", message=replace(said, content="done"), events=(draft("message_updated"),))
    settled = replace(settle(SubmitResult, "th_1", call.id), effects=(shown, DropTimer(name="call:1")))
    await committed(room, settled)
    assert await room.wake("call:1") is None
    assert [type for _, type in await told(room)] == ["agent.active", "space.message", "message_updated"]
    assert isinstance(await room.commit(replace(settled, token=token())), Conflict)

    sight = CallVisibility(users=["ent_ann"], entity_id="ent_ann")
    assert [one.id for one in await room.calls(sees=sight)] == [call.id]
    await committed(room, act(Erase(space_id="spc_1", message_id=said.id)))
    assert list(await room.calls(sees=sight)) == []
    assert list(await room.calls(sees=CallVisibility(users=["ent_owner"], entity_id="ent_ann"))) == []
    assert [one.id for one in await room.calls()] == [call.id]


async def test_a_refused_unit_says_nothing_in_spaces(journal: Journal, room: Store):
    drain = await begun(room)
    journal.published.clear()
    unit = drain.unit(Answer, {"step_count": 1}, effects=(says(message(), deliveries=(delivery(),)),))
    assert await room.commit(replace(unit, epoch=7)) == Conflict(guard="fence")
    assert await room.commit(replace(unit, effects=(*unit.effects, says(message("spc_none"))))) == Conflict(
        guard="space"
    )
    assert journal.published == [] and await told(room) == []
    assert await room.thread("thr_home") is None
    await drain.do(unit)


async def test_timers_are_set_again_and_dropped(store: Store):
    await committed(store, act(SetTimer(name="plan:1", due=later(5))))
    first = await store.wake("plan:1")
    await committed(store, act(SetTimer(name="plan:1", due=later(9))))
    second = await store.wake("plan:1")
    assert first is not None and second is not None and second.gen > first.gen
    assert (second.due, await store.next_due(AT)) == (later(9), later(9))
    await committed(store, act(DropTimer(name="plan:1"), DropTimer(name="plan:2")))
    assert await store.wake("plan:1") is None


def lease(call_id: str, worker: str, at: float, until: float) -> LeaseCall:
    return LeaseCall(token=token(), at=later(at), call_id=call_id, worker=worker, until=later(until))


async def test_a_call_is_claimed_by_one_worker_until_its_lease_is_over(store: Store):
    drain = await begun(store)
    once, again = (
        drain.call("waiting"),
        drain.call("pending", repeatable=True, position=1, expires_at=later(99)),
    )
    await drain.answer(once, again)
    for call in (once, again):
        await committed(store, lease(call.id, "a", 0, 10))
        assert await store.commit(lease(call.id, "b", 5, 15)) == Conflict(guard="call")
        await committed(store, lease(call.id, "a", 5, 15))
    assert await store.commit(lease(once.id, "b", 20, 30)) == Conflict(guard="call")
    await committed(store, lease(again.id, "b", 20, 30))
    found = await store.call(again.id)
    assert found is not None and (found.worker, found.leased_until) == ("b", later(30))
    assert await store.commit(lease(again.id, "b", 99, 120)) == Conflict(guard="call")
    await committed(store, settle(SubmitResult, "th_1", once.id))
    assert await store.commit(lease(once.id, "a", 20, 30)) == Conflict(guard="call")
    assert await store.commit(lease("call_none", "a", 20, 30)) == Conflict(guard="call")


async def test_a_deleted_entity_is_a_member_nowhere(room: Store):
    await committed(room, save(replace(human(1), id="ent_ann")))
    await committed(room, act(made(space("spc_2")), joins(member("ent_ann", "spc_2"), 0)))
    await committed(room, replace(drop("ent_ann"), told=(draft("member_removed", entityId="ent_ann"),)))
    for space_id in ("spc_1", "spc_2"):
        found = await room.spaces.space(space_id)
        assert found is not None and found.revision == 2
        assert list(await room.spaces.members(space_id)) == []
    gone = [(event.space_id, event.type, event.payload) for event in await room.events(ALL)]
    assert gone == [(one, "member_removed", {"entityId": "ent_ann"}) for one in ("spc_1", "spc_2")]


async def test_old_events_of_spaces_are_deleted_too(room: Store):
    for _ in range(3):
        await committed(room, act(says(message())))
    for expected in (2, 1, 0):
        prune = Prune(token=token(), at=AT, before=later(1), limit=2)
        answer = await room.commit(prune)
        assert isinstance(answer, Committed) and answer.count >= min(expected, 1)
    assert await told(room) == []
    await committed(room, act(says(message())))
    assert await told(room) == [(4, "space.message")]


async def test_two_threads_that_write_to_each_other_do_not_stand_in_each_others_way(room: Store):
    one, two = await begun(room, "thr_a"), await begun(room, "thr_b")
    for n in range(5):
        there = one.unit(Result, {"lives": n}, effects=(says(message(), deliveries=(delivery("thr_b"),)),))
        back = two.unit(Result, {"lives": n}, effects=(says(message(), deliveries=(delivery("thr_a"),)),))
        await asyncio.gather(one.do(there), two.do(back))
    assert [one.seq for one in await room.spaces.messages("spc_1")] == list(range(1, 11))
    assert (len(await room.unread("thr_a")), len(await room.unread("thr_b"))) == (5, 5)
