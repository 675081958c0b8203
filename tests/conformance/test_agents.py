"""Configured agents and minds in every journal: revisions, unique names, plans that fire once."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.test_spaces import act, delivery, joins, made, member, space
from tests.play import AT, committed, later, token

from toolwright.core.agents.agent import keeper_of, user_of_keeper
from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.agents.memory import Block, Passage, read_query
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.env.env import EnvChange, EnvRow
from toolwright.core.journal.agent_effects import (
    AddPassage,
    DropBlock,
    DropMind,
    DropPassage,
    DropPlan,
    FirePlan,
    SetBlock,
    SetPlan,
)
from toolwright.core.journal.effects import Deliver
from toolwright.core.journal.rows import Delete, Put
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict, DropAgent, SaveAgent

pytestmark = pytest.mark.anyio


def agent(number: int = 1, revision: int = 1, **fields: Any) -> ConfiguredAgent:  # fields of ConfiguredAgent
    given: dict[str, Any] = {"name": f"agent-{number}", "description": "a\ud800", "config": {"n": [revision]}}
    given |= {"created_at": later(number), "updated_at": later(number + revision)}
    return ConfiguredAgent(id=f"agt_{number}", revision=revision, **{**given, **fields})


def save(one: ConfiguredAgent, was: int | None = None, env: tuple[EnvChange, ...] = ()) -> SaveAgent:
    return SaveAgent(token=token(), at=AT, agent=one, was=was, env=env)


def drop(one: ConfiguredAgent) -> DropAgent:
    entity_id = one.id.replace("agt", "ent")
    return DropAgent(token=token(), at=AT, agent_id=one.id, entity_id=entity_id)


async def test_an_agent_is_found_by_id_and_name_in_its_newest_revision(store: Store):
    first, second = agent(1), agent(1, 2, name="renamed")
    row = EnvRow(owner=first.owner, kind="env", name="KEY", type="text", value="v", updated_at=AT)
    change = EnvChange(owner=row.owner, kind=row.kind, name=row.name, row=row)
    await committed(store, save(first, env=(change,)))
    await committed(store, save(second, was=1))
    now = replace(second, created_at=first.created_at)
    assert await store.agents.agent("agt_1") in (second, now)
    assert await store.agents.named("renamed") == await store.agents.agent("agt_1")
    assert await store.agents.named("agent-1") is None
    before = await store.agents.agent("agt_1", 1)
    assert before is not None and (before.name, before.config) == (first.name, first.config)
    assert await store.agents.agent("agt_1", 3) is None
    assert list(await store.env_of(first.owner)) == [row]


async def test_a_name_is_there_once_and_a_revision_is_replaced_once(store: Store):
    await committed(store, save(agent(1)))
    assert await store.commit(save(agent(2, name="agent-1"))) == Conflict(guard="duplicate")
    assert await store.commit(save(agent(1))) == Conflict(guard="duplicate")
    answers = await asyncio.gather(
        *(store.commit(save(agent(1, 2, config={"by": n}), was=1)) for n in range(5))
    )
    assert sum(isinstance(answer, Committed) for answer in answers) == 1
    assert all(answer == Conflict(guard="agent") for answer in answers if isinstance(answer, Conflict))


async def test_agents_are_listed_and_deleted_but_their_revisions_stay(store: Store):
    for number in (3, 1, 2):
        await committed(store, save(agent(number)))
    await committed(store, act(made(space()), joins(member("ent_1"), 0)))
    goal = Goal(agent_id="agt_1", id="g", description="", status="", priority="", created_at=AT)
    await committed(store, act(Put(record=goal), SetPlan(plan=plan()), SetPlan(plan=plan(agent_id="agt_11"))))
    assert [one.id for one in await store.agents.agents(limit=2, offset=1)] == ["agt_2", "agt_3"]
    await committed(store, drop(agent(1)))
    assert await store.commit(drop(agent(1))) == Conflict(guard="agent")
    assert [one.id for one in await store.agents.agents()] == ["agt_2", "agt_3"]
    assert list(await store.spaces.members("spc_1")) == []
    assert [*await store.records.list(Goal, "agt_1"), *await store.records.list(Plan, "agt_1")] == []
    assert await store.wake(plan().timer) is None
    assert await store.wake(plan(agent_id="agt_11").timer) is not None
    kept = await store.agents.agent("agt_1", 1)
    assert kept is not None and kept.config == {"n": [1]}


async def test_goals_and_memories_are_kept_by_agent(store: Store):
    one = Goal(agent_id="agt_1", id="g1", description="a\x00", status="", priority="high", created_at=AT)
    two = replace(one, id="g2", created_at=later(1))
    await committed(store, act(Put(record=two), Put(record=one)))
    await committed(store, act(Put(record=replace(one, status="done", created_at=later(9)))))
    assert list(await store.records.list(Goal, "agt_1")) == [replace(one, status="done"), two]
    await committed(
        store, act(Delete(kind=Goal, key=("agt_1", "g1")), Delete(kind=Goal, key=("agt_2", "g2")))
    )
    assert list(await store.records.list(Goal, "agt_1")) == [two]
    tea = Memory(agent_id="agt_1", key="tea\u2028", value="\ud800", updated_at=AT)
    await committed(store, act(Put(record=tea), Put(record=replace(tea, key="a"))))
    await committed(store, act(Put(record=replace(tea, value="green", updated_at=later(1)))))
    assert [(m.key, m.value) for m in await store.records.list(Memory, "agt_1")] == [
        ("a", "\ud800"),
        ("tea\u2028", "green"),
    ]
    await committed(store, act(Delete(kind=Memory, key=("agt_1", "a"))))
    assert len(await store.records.list(Memory, "agt_1")) == 1
    assert list(await store.records.list(Memory, "agt_2")) == []


def plan(**fields: Any) -> Plan:  # fields of Plan
    given: dict[str, Any] = {
        "agent_id": "agt_1",
        "id": "p1",
        "name": "Tea",
        "instruction": "Make tea.",
        "next_run_at": later(5),
    }
    return Plan(created_at=AT, **{**given, **fields})


async def test_a_plan_that_fires_as_it_was_keeps_what_was_changed_of_it(store: Store):
    tea = plan(cron="0 16 * * *")
    new = replace(tea, name="Late tea", instruction="Make it green.")
    await committed(store, act(SetPlan(plan=tea)))
    await committed(store, act(SetPlan(plan=new)))
    then = replace(tea, next_run_at=later(100))
    await committed(store, act(FirePlan(plan=tea, then=then, delivery=delivery())))
    assert await store.records.one(Plan, "agt_1", "p1") == replace(new, next_run_at=later(100))


async def test_a_plan_has_a_timer_and_fires_once(store: Store):
    tea = plan(cron="0 16 * * *", timezone="Europe/Vienna")
    await committed(store, act(SetPlan(plan=tea), SetPlan(plan=plan(id="p0", next_run_at=later(50)))))
    assert [one.id for one in await store.records.list(Plan, "agt_1")] == ["p1", "p0"]
    timer = await store.wake(tea.timer)
    assert timer is not None and timer.due == later(5)
    then = replace(tea, next_run_at=later(100))
    fires = [act(FirePlan(plan=tea, then=then, delivery=delivery())) for _ in range(3)]
    answers = await asyncio.gather(*(store.commit(one) for one in fires))
    assert sum(isinstance(answer, Committed) for answer in answers) == 1
    assert {answer.guard for answer in answers if isinstance(answer, Conflict)} == {"plan"}
    assert len(await store.unread("thr_home")) == 1
    assert await store.records.one(Plan, "agt_1", "p1") == then
    timer = await store.wake(tea.timer)
    assert timer is not None and timer.due == later(100)
    await committed(store, act(FirePlan(plan=then, then=None, delivery=delivery())))
    assert await store.records.one(Plan, "agt_1", "p1") is None
    assert await store.wake(tea.timer) is None
    await committed(store, act(DropPlan(agent_id="agt_1", id="p0"), DropPlan(agent_id="agt_1", id="p9")))
    assert list(await store.records.list(Plan, "agt_1")) == []
    assert await store.wake("plan:agt_1:p0") is None


ADA, BOB = keeper_of("agt_1", "ent_ada"), keeper_of("agt_1", "tenant:7/x%")


async def test_what_is_kept_for_a_person_is_found_by_agent_and_person_and_by_no_other_query(store: Store):
    """An id that is only a prefix or suffix of another is not part of it."""
    own = Goal(agent_id="agt_1", id="g", description="own", status="", priority="", created_at=AT)
    keepers = ["agt_1", ADA, BOB, keeper_of("agt_11", "ent_ada"), keeper_of("agt_1", "my_ent_ada")]
    for each in keepers:
        goal = replace(own, agent_id=each, description=each)
        await committed(store, act(Put(record=goal), SetPlan(plan=plan(agent_id=each))))
    for each in keepers:
        assert [one.description for one in await store.records.list(Goal, each)] == [each]
        assert [one.agent_id for one in await store.records.list(Plan, each)] == [each]
    assert await store.agents.keepers_of_agent("agt_1") == sorted([ADA, BOB, keepers[4]])
    assert await store.agents.keepers_of_agent("agt_1", limit=1) == sorted([ADA, BOB, keepers[4]])[:1]
    assert await store.agents.keepers_of_user("ent_ada") == sorted([ADA, keepers[3]])
    assert await store.agents.keepers_of_user("tenant:7/x%") == [BOB]
    assert (user_of_keeper(BOB), user_of_keeper("agt_1")) == ("tenant:7/x%", None)
    assert await store.agents.keepers_of_agent("agt_2") == await store.agents.keepers_of_user("x%") == []


async def test_all_that_is_kept_for_a_person_is_deleted_at_once_and_nothing_else(store: Store):
    for each in (ADA, BOB, "agt_1", keeper_of("agt_1", "ent_ada:x")):
        goal = Goal(agent_id=each, id="g", description="", status="", priority="", created_at=AT)
        memory = Memory(agent_id=each, key="k", value="v", updated_at=AT)
        block = Block(agent_id=each, label="l", content="c", updated_at=AT)
        passage = Passage(agent_id=each, id="p", content="tea and cake", created_at=AT)
        effects = (
            Put(record=goal),
            Put(record=memory),
            SetBlock(block=block),
            AddPassage(passage=passage),
        )
        await committed(store, act(*effects, SetPlan(plan=plan(agent_id=each))))
    await committed(store, act(DropMind(agent_id=ADA)))

    async def kept(keeper: str) -> list[int]:
        reads = store.agents
        rows: list[Sequence[object]] = [
            await store.records.list(kind, keeper) for kind in (Goal, Memory, Plan)
        ]
        rows += [await reads.blocks(keeper), await reads.passages(keeper)]
        rows += [await reads.matches(keeper, read_query("cake"), limit=9)]
        return [len(each) for each in rows] + [int(await store.wake(plan(agent_id=keeper).timer) is not None)]

    assert await kept(ADA) == [0] * 7
    for each in (BOB, "agt_1", keeper_of("agt_1", "ent_ada:x")):
        assert await kept(each) == [1] * 7
    assert ADA not in await store.agents.keepers_of_agent("agt_1")


@pytest.mark.parametrize("kind", ["goal", "memory", "plan", "block", "passage"])
async def test_who_has_given_up_all_that_was_kept_is_no_keeper_in_use(store: Store, kind: str):
    goal = Goal(agent_id=ADA, id="g", description="", status="", priority="", created_at=AT)
    memory = Memory(agent_id=ADA, key="k", value="v", updated_at=AT)
    block = Block(agent_id=ADA, label="l", content="c", updated_at=AT)
    passage = Passage(agent_id=ADA, id="p", content="tea and cake", created_at=AT)
    keep, give_up = {
        "goal": (Put(record=goal), Delete(kind=Goal, key=(ADA, "g"))),
        "memory": (Put(record=memory), Delete(kind=Memory, key=(ADA, "k"))),
        "plan": (SetPlan(plan=plan(agent_id=ADA)), DropPlan(agent_id=ADA, id="p1")),
        "block": (SetBlock(block=block), DropBlock(agent_id=ADA, label="l")),
        "passage": (AddPassage(passage=passage), DropPassage(agent_id=ADA, id="p")),
    }[kind]
    await committed(store, act(keep))
    assert await store.agents.keepers_in_use("agt_1") == [ADA]
    await committed(store, act(give_up))
    assert await store.agents.keepers_in_use("agt_1") == []


async def test_a_plan_keeps_the_thread_that_it_wakes(store: Store):
    await committed(store, act(SetPlan(plan=plan(agent_id=ADA, thread_id="thr_1"))))
    assert [each.thread_id for each in await store.records.list(Plan, ADA)] == ["thr_1"]
    await committed(store, act(SetPlan(plan=plan(agent_id=ADA, thread_id="thr_2"))))
    assert [each.thread_id for each in await store.records.list(Plan, ADA)] == ["thr_2"]


async def test_a_delivery_for_a_thread_that_is_gone_makes_none(store: Store):
    tea = plan(agent_id=ADA, thread_id="thr_home")
    await committed(store, act(SetPlan(plan=tea)))
    gone = replace(delivery(), existing=True)
    answer = await store.commit(act(FirePlan(plan=tea, then=None, delivery=gone)))
    assert isinstance(answer, Committed) and answer.runs == ()
    assert await store.thread("thr_home") is None
    assert list(await store.records.list(Plan, ADA)) == []
    await committed(store, act(Deliver(delivery=delivery())))
    await committed(store, act(Deliver(delivery=replace(delivery(), existing=True))))
    assert len(await store.unread("thr_home")) == 2
