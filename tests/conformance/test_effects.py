"""Effects of one unit are applied in order, each to the result of the previous ones: all of them, or none."""

from typing import Any

import pytest
from tests.conformance.test_children import spawn
from tests.conformance.test_spaces import act, delivery, joins, made, member, message, says, space
from tests.play import AT, begun, committed, draft, dump, said

from toolwright.core.agents.mind import Plan
from toolwright.core.journal.agent_effects import FirePlan, SetPlan
from toolwright.core.journal.child_effects import ChildLimit
from toolwright.core.journal.effects import Deliver, Effect
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.space_effects import DropMember, DropSpace, Erase, MarkRead, Post, React
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict, Result
from toolwright.core.spaces import Reaction
from toolwright.core.threads.event import Topic

pytestmark = pytest.mark.anyio

MESSAGE = message(id="msg_known")
NEW = message(id="msg_new")
PLAN = Plan(agent_id="agt_1", id="pln_1", name="p", instruction="i", next_run_at=AT, created_at=AT)


@pytest.fixture
async def room(store: Store) -> Store:
    """A journal with one space, in which Ann is a member and has posted, and with one plan."""
    await committed(store, act(made(space()), joins(member("ent_ann"), 0)))
    await committed(store, act(says(MESSAGE), SetPlan(plan=PLAN)))
    return store


async def everything(store: Store) -> dict[str, Any]:  # values of all kinds
    """Return all data that the effects here can change."""
    return {
        **await dump(store),
        "spaces": list(await store.spaces.spaces()),
        "members": list(await store.spaces.members("spc_1")),
        "said": list(await store.spaces.messages("spc_1")),
        "reactions": list(await store.spaces.reactions([MESSAGE.id, NEW.id])),
        "told": list(await store.events(Topic(kind="spaces", id=""))),
        "plans": list(await store.records.list(Plan, "agt_1")),
        "timer": await store.wake(PLAN.timer),
    }


def reacts(message_id: str) -> React:
    reaction = Reaction(message_id=message_id, entity_id="ent_ann", emoji="+", created_at=AT)
    return React(space_id="spc_1", reaction=reaction)


def leaves(entity_id: str) -> DropMember:
    return DropMember(space_id="spc_1", entity_id=entity_id)


def reads(entity_id: str) -> MarkRead:
    return MarkRead(space_id="spc_1", entity_id=entity_id, seq=1)


def fires() -> FirePlan:
    return FirePlan(plan=PLAN, then=None, delivery=delivery())


def says_to_seen(revision: int) -> Post:
    return says(NEW, revision=revision)


REFUSED: list[tuple[Guard, tuple[Effect, ...]]] = [
    ("member", (leaves("ent_ann"), leaves("ent_ann"))),
    ("member", (leaves("ent_ann"), reads("ent_ann"))),
    ("message", (Erase(space_id="spc_1", message_id=MESSAGE.id), reacts(MESSAGE.id))),
    ("space", (DropSpace(space_id="spc_1"), says(NEW))),
    ("space", (DropSpace(space_id="spc_1"), DropSpace(space_id="spc_1"))),
    ("space", (leaves("ent_ann"), says_to_seen(1))),
    ("duplicate", (Deliver(delivery=delivery(event_id="e")), Deliver(delivery=delivery(event_id="e")))),
    ("plan", (fires(), fires())),
]
DONE: list[tuple[Effect, ...]] = [
    (joins(member("ent_bob"), 1), reads("ent_bob")),
    (leaves("ent_ann"), says_to_seen(2)),
]


@pytest.mark.parametrize(("guard", "effects"), REFUSED)
async def test_an_effect_that_those_before_it_have_made_impossible_leaves_no_trace(
    room: Store, guard: Guard, effects: tuple[Effect, ...]
) -> None:
    before = await everything(room)
    assert await room.commit(act(*effects)) == Conflict(guard=guard)
    assert await everything(room) == before
    assert isinstance(await room.commit(act(effects[0])), Committed)


@pytest.mark.parametrize("effects", DONE)
async def test_an_effect_may_need_what_those_before_it_have_done(
    room: Store, effects: tuple[Effect, ...]
) -> None:
    assert isinstance(await room.commit(act(*effects)), Committed)


async def test_what_a_drain_writes_beside_refused_effects_is_not_there_either(room: Store) -> None:
    drain = await begun(room)
    await drain.answer(drain.call("running"))
    before = await everything(room)
    refused = drain.unit(
        Result,
        {"turn": 1},
        messages=(said("x"),),
        dropped=(1,),
        calls=(drain.call(position=1),),
        events=(draft("message"),),
        effects=(Deliver(delivery=delivery()), leaves("ent_ann"), leaves("ent_ann")),
    )
    assert await room.commit(refused) == Conflict(guard="member")
    assert await everything(room) == before
    [event] = [each for each in await room.events(Topic(kind="spaces", id="")) if each.n == 1]
    assert event.type == "space.message"
    await drain.do(drain.unit(Result, messages=(said("y"),), effects=(leaves("ent_ann"),)))
    assert [each.content for each in await room.messages("th_1")][-1] == "y"


async def test_no_more_children_are_made_than_there_may_be_counting_those_of_the_unit(room: Store) -> None:
    drain = await begun(room)
    limit = ChildLimit(thread_id="th_1", agent="worker", most=1)
    before = await everything(room)
    child = spawn("th_2", "th_1")
    assert await room.commit(act(child, limit)) == Conflict(guard="child_limit")
    assert await everything(room) == before
    assert drain.run.status == "running"
    assert isinstance(await room.commit(act(limit, child)), Committed)
