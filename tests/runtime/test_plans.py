"""Plans that fire: once for each due time, across restarts, changes and crashes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import toolwright as tw
from tests.conformance.test_spaces import act
from tests.databases import database, opened, stores
from tests.play import committed
from tests.runtime.mind_rig import AGENT, HOME, Died, Mind, thinking
from tests.runtime.rig import running
from toolwright import testing
from toolwright.core.agents.mind import Plan, PlanChange
from toolwright.core.journal.agent_effects import DropPlan, FirePlan, SetPlan
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Unit
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.toolkits.mind import MindToolkit
from toolwright.testing import FunctionModel, ManualClock, ManualMotor, MemoryBus, MemoryStore, ScriptedModel

pytestmark = pytest.mark.anyio

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def plan(plan_id: str = "p", **fields: Any) -> Plan:  # fields of Plan
    given: dict[str, Any] = {
        "name": "Tea",
        "instruction": "Make tea.",
        "next_run_at": NOON,
        "created_at": NOON,
    }
    return Plan(agent_id=AGENT.id, id=plan_id, **{**given, **fields})


def fires(unit: Unit) -> bool:
    return isinstance(unit, Apply) and any(isinstance(effect, FirePlan) for effect in unit.effects)


@asynccontextmanager
async def planning(store: Store | None = None, **fields: Any) -> AsyncGenerator[Mind]:
    """Run an agent that has that plan."""
    async with thinking(store) as mind:
        await committed(mind.store.inner, act(SetPlan(plan=plan(**fields))))
        yield mind


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_plans_reach_the_inbox_of_the_agents_home_thread(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as open_store:
        store = await open_store(MemoryBus())
        async with thinking(store) as mind:
            given: list[dict[str, Any]] = [
                {"id": "soon", "name": "Tea", "instruction": "Make tea.", "runAfter": "90 minutes"},
                {
                    "id": "date",
                    "name": "Call",
                    "instruction": "Call.",
                    "scheduledAt": "2030-01-01T03:00:00+01:00",
                },
                {
                    "id": "cron",
                    "name": "News",
                    "instruction": "Read.",
                    "cron": "10 9 * * *",
                    "timezone": "Asia/Tokyo",
                },
            ]
            await mind.call("set_plans", plans=given)
            await mind.turn_to(datetime(2030, 1, 1, 1, 29, 59, tzinfo=UTC))
            assert [event.content["planId"] for event in await mind.fired()] == ["cron"]
            await mind.turn_to(datetime(2030, 1, 1, 1, 30, tzinfo=UTC))
            await mind.turn_to(datetime(2030, 1, 1, 2, 0, 1, tzinfo=UTC))
            cron, soon, date = await mind.fired()
            assert cron.content["scheduledAt"] == "2030-01-01T00:10:00+00:00"
            assert (
                soon.event_id
                == f"plan:soon:{int(datetime(2030, 1, 1, 1, 30, tzinfo=UTC).timestamp()) * 10**6}"
            )
            assert soon.content == {
                "planId": "soon",
                "name": "Tea",
                "instruction": "Make tea.",
                "scheduledAt": "2030-01-01T01:30:00+00:00",
            }
            assert (date.content["planId"], date.status) == ("date", "processed")
            [left] = await mind.rt.minds.plans("thinker")
            assert (left.id, left.next_run_at) == ("cron", datetime(2030, 1, 2, 0, 10, tzinfo=UTC))
            said = [message.content for message in await mind.rt.threads.messages(HOME)]
            assert said[2:4] == [
                'INBOX: [Plan: Tea] (planId: soon) "Make tea."',
                'I have read: INBOX: [Plan: Tea] (planId: soon) "Make tea."',
            ]
            runs = await mind.rt.runs.list(thread_id=HOME)
            assert {(run.status, run.chain_depth, run.agent) for run in runs} == {("completed", 0, AGENT.id)}
            assert len(runs) == 3
        await store.close()


async def test_a_cron_goes_on_and_what_was_missed_while_down_fires_once() -> None:
    store = MemoryStore(lambda _: None)
    async with planning(store, cron="0 12 * * *") as mind:
        for day in (1, 2):
            await mind.turn_to(NOON + timedelta(days=day - 1))
            assert len(await mind.fired()) == day
    down_for = ManualClock(NOON + timedelta(days=9, hours=1))
    async with thinking(store, down_for) as mind:
        await mind.motor.run_until_idle()
        assert len(await mind.fired()) == 3
        assert (await mind.fired())[2].content["scheduledAt"] == (NOON + timedelta(days=2)).isoformat()
        [left] = await mind.rt.minds.plans("thinker")
        assert left.next_run_at == NOON + timedelta(days=10)
        await mind.motor.run_timers()
        assert len(await mind.fired()) == 4


async def test_a_cron_keeps_its_hour_when_the_clocks_change() -> None:
    async with thinking(clock=ManualClock(datetime(2031, 3, 28, 20, tzinfo=UTC))) as mind:
        given = {"name": "News", "instruction": "Read.", "cron": "0 9 * * *", "timezone": "Europe/Vienna"}
        await mind.call("set_plans", plans=[given])
        for _ in range(3):
            await mind.motor.run_timers()
        due = [event.content["scheduledAt"] for event in await mind.fired()]
        assert due == [f"2031-03-{day}T0{hour}:00:00+00:00" for day, hour in ((29, 8), (30, 7), (31, 7))]


DAILY = PlanChange(name="Daily", instruction="Report.", cron="0 9 * * *")


async def test_an_app_that_sets_its_plans_at_each_start_has_each_of_them_once() -> None:
    async with thinking(clock=ManualClock(NOON)) as mind:
        [first] = await mind.rt.minds.set_plans("thinker", [DAILY])
        mind.clock.set_by(2 * 86_400)  # it is missed while the app does not run
        [second] = await mind.rt.minds.set_plans("thinker", [DAILY])
        assert second == first
        [third] = await mind.rt.minds.set_plans("thinker", [replace(DAILY, instruction="Say it.")])
        assert third == replace(first, instruction="Say it.")
        [fourth] = await mind.rt.minds.set_plans("thinker", [replace(DAILY, cron="0 10 * * *")])
        assert (fourth.id, fourth.next_run_at) == (first.id, datetime(2030, 1, 4, 10, tzinfo=UTC))
        await mind.call("set_plans", plans=[{"name": "Daily", "instruction": "Sing."}])
        [fifth] = await mind.rt.minds.plans("thinker")
        assert fifth == replace(fourth, instruction="Sing.")


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_processes_that_set_one_plan_at_the_same_time_have_it_once(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as open_store, thinking(await open_store(MemoryBus())) as mind:
        sets = [mind.rt.minds.set_plans("thinker", [DAILY]) for _ in range(5)]
        answers = await asyncio.gather(*sets)
        [one] = await mind.rt.minds.plans("thinker")
        assert all([*answer] == [one] for answer in answers)


async def test_a_plan_that_was_renamed_leaves_its_name_free() -> None:
    async with thinking(clock=ManualClock(NOON)) as mind:
        [old] = await mind.rt.minds.set_plans("thinker", [DAILY])
        await mind.rt.minds.set_plans("thinker", [PlanChange(id=old.id, name="Old")])
        plans = await mind.rt.minds.set_plans("thinker", [DAILY])
        assert sorted(each.name for each in plans) == ["Daily", "Old"]


async def test_a_change_without_a_name_is_not_the_plan_called_none() -> None:
    async with thinking(clock=ManualClock(NOON)) as mind:
        with pytest.raises(tw.errors.InvalidRequest, match=r"plans\.1\.name is needed"):
            await mind.rt.minds.set_plans("thinker", [replace(DAILY, name="None"), replace(DAILY, name=None)])
        for wrong in (5, ["Daily"]):
            with pytest.raises(tw.errors.InvalidRequest, match=r"plans\.0\.name must be text"):
                await mind.rt.minds.set_plans("thinker", [replace(DAILY, name=wrong)])  # type: ignore[arg-type]  # misuse


async def test_one_name_twice_in_a_request_is_refused() -> None:
    async with thinking(clock=ManualClock(NOON)) as mind:
        with pytest.raises(tw.errors.InvalidRequest, match="The plan 'Daily' is given twice") as error:
            await mind.rt.minds.set_plans("thinker", [DAILY, DAILY])
        assert error.value.details == [{"path": "plans.1.name", "message": "is given twice"}]
        assert await mind.rt.minds.plans("thinker") == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_plan_outlives_its_process(kind: str, tmp_path: Path) -> None:
    async with database(kind, tmp_path) as url:
        store = await opened(url, MemoryBus())
        async with thinking(store) as mind:
            await mind.call("set_plans", plans=[{"name": "a", "instruction": "b", "runAfter": 60_000}])
        await store.close()
        store = await opened(url, MemoryBus())
        async with thinking(store, ManualClock(NOON)) as mind:
            await mind.motor.run_until_idle()
            assert [event.status for event in await mind.fired()] == ["processed"]
            assert await mind.rt.minds.plans("thinker") == []
        await store.close()


@pytest.mark.parametrize(
    ("change", "fired", "left"),
    [
        (SetPlan(plan=plan(next_run_at=NOON + timedelta(hours=1))), 0, 1),
        (DropPlan(agent_id=AGENT.id, id="p"), 0, 0),
        (SetPlan(plan=plan(next_run_at=NOON - timedelta(hours=1), instruction="Now.")), 1, 0),
    ],
)
async def test_a_plan_that_changes_while_it_fires_is_looked_at_again(
    change: SetPlan | DropPlan, fired: int, left: int
) -> None:
    async with planning() as mind:
        changes = [act(change)]

        async def meanwhile(unit: Unit) -> None:
            if fires(unit) and changes:
                await committed(mind.store.inner, changes.pop())

        mind.store.before = meanwhile
        await mind.turn_to(NOON)
        assert not changes
        assert [event.content["instruction"] for event in await mind.fired()] == ["Now."] * fired
        assert len(await mind.rt.minds.plans("thinker")) == left


class SettingBack:
    """A journal during whose reading of a plan the clock is set back, once."""

    def __init__(self, clock: ManualClock) -> None:
        self.inner, self.clock, self.done = MemoryStore(lambda _: None), clock, False

    @property
    def records(self) -> "SettingBack":
        return self

    async def one(self, kind: type[Plan], *key: str) -> Plan | None:
        if not self.done:
            self.done = True
            self.clock.set_by(-3_600)
        return await self.inner.records.one(kind, *key)

    def __getattr__(self, name: str) -> Any:  # everything else passes through
        return getattr(self.inner if hasattr(self.inner, name) else self.inner.records, name)


async def test_a_timer_that_fires_while_the_clock_is_set_back_is_not_lost() -> None:
    clock = ManualClock()
    store = SettingBack(clock)
    async with thinking(cast("Store", store), clock) as mind:
        await committed(store.inner, act(SetPlan(plan=plan())))
        await mind.turn_to(NOON)
        assert (store.done, await mind.fired()) == (True, [])
        await mind.turn_to(NOON)
        assert len(await mind.fired()) == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("cron", [None, "0 12 * * *"])
async def test_a_process_that_dies_while_it_fires_a_plan_fires_it_once(when: str, cron: str | None) -> None:
    async def die(unit: Unit) -> None:
        if fires(unit):
            raise Died

    store = MemoryStore(lambda _: None)
    async with planning(store, cron=cron) as mind:
        setattr(mind.store, when, die)
        with pytest.raises(Died):
            await mind.turn_to(NOON)
    async with thinking(store, ManualClock(NOON + timedelta(seconds=5))) as mind:
        await mind.motor.run_until_idle()
        assert [event.status for event in await mind.fired()] == ["processed"]
        assert len(await mind.rt.minds.plans("thinker")) == (cron is not None)


@pytest.mark.parametrize("cron", [None, "0 12 * * *"])
async def test_a_plan_that_is_written_as_it_was_before_it_fired_does_not_fire_again(cron: str | None) -> None:
    """A run that has read the plan, and renames it, commits after it has fired."""
    async with planning(cron=cron) as mind:
        await mind.turn_to(NOON)
        await committed(mind.store.inner, act(SetPlan(plan=plan(cron=cron, name="Green tea"))))
        await mind.motor.run_until_idle()
        assert len(await mind.fired()) == 1
        names = [(one.name, one.next_run_at) for one in await mind.rt.minds.plans("thinker")]
        assert names == ([] if cron is None else [("Green tea", NOON + timedelta(days=1))])


async def test_a_plan_whose_time_zone_is_gone_fires_a_last_time() -> None:
    async with planning(cron="0 12 * * *", timezone="Mars/Base") as mind:
        await mind.turn_to(NOON)
        assert len(await mind.fired()) == 1
        assert await mind.rt.minds.plans("thinker") == []


async def test_many_plans_of_one_moment_all_fire() -> None:
    async with planning() as mind:
        more = [SetPlan(plan=replace(plan(), id=f"p{n}")) for n in range(20)]
        await committed(mind.store.inner, act(*more))
        await mind.turn_to(NOON)
        assert len(await mind.fired()) == 21
        assert await mind.store.due(NOON + timedelta(days=1), 1) == []


async def test_a_plan_fires_by_the_motor_of_a_served_app() -> None:
    buses: list[MemoryBus] = []
    store = MemoryStore(lambda events: buses[0].publish(events))
    toolkit = MindToolkit(store)

    async def shared(bus: MemoryBus) -> Store:
        buses.append(bus)
        return store

    asked = {"name": "Tea", "instruction": "Make tea.", "runAfter": "20 ms"}
    turns = [
        {"when": "[Plan: Tea]", "text": "Tea is made."},
        {"calls": [{"name": "set_plans", "args": {"plans": [asked]}}]},
        {"text": "Planned."},
    ]
    async with running(ScriptedModel(turns), toolkit.tools, store=shared) as rig:
        await rig.run()
        home = (await rig.rt.agents.get("tester")).home_thread_id
        async with asyncio.timeout(10):
            async for event in rig.rt.events.follow(Topic(kind="thread", id=home), after=0):
                if event.type == "run.completed":
                    break
        assert [message.content for message in await rig.transcript(home)][1:] == ["Tea is made."]


# ── plans of people ─────────────────────────────────────────────────────────────────────────────────────────

PLANS = [{"name": "Tea", "instruction": "Make tea.", "cron": "0 16 * * *"}]


def plans_tea(messages: tuple[Message, ...]) -> Any:  # a turn
    """Plan what a message requests, and only read the results."""
    asked = messages[-1].role == "user" and "Plan my tea" in messages[-1].content
    calls = [{"name": "set_plans", "args": {"plans": PLANS}}]
    return {"calls": calls} if asked else {"text": "Well."}


def planner(**options: Any) -> tw.Agent:  # fields of an agent
    prompt = tw.Prompt("planner", model=FunctionModel(plans_tea))
    return tw.Agent("planner", prompt, toolkits=["mind"], **options)


async def planned(rt: Runtime, motor: ManualMotor, agent: str = "planner") -> tuple[str, str]:
    """Create a person, and a thread of theirs in which the agent has made a plan."""
    ada = await rt.entities.create(external_id="ada")
    thread = await rt.threads.create(agent, ada.id)
    await rt.threads.send(thread.id, "Plan my tea")
    await motor.run_until_idle()
    return ada.id, thread.id


async def test_a_persons_plan_wakes_the_thread_in_which_it_was_made_and_no_other() -> None:
    async with testing.by_hand(tw.App(agents=[planner()])) as (rt, motor):
        user_id, thread_id = await planned(rt, motor)
        other = await rt.threads.create("planner", user_id)
        assert list(await rt.minds.plans("planner")) == []
        [kept] = await rt.minds.plans("planner", user_id=user_id)
        assert (kept.name, kept.thread_id) == ("Tea", thread_id)
        before = len(await rt.threads.messages(thread_id))
        await motor.run_timers()
        [told] = [one for one in (await rt.threads.messages(thread_id))[before:] if one.role == "user"]
        assert "Make tea." in told.content
        assert await rt.threads.messages(other.id) == []
        assert [run.thread_id for run in await rt.runs.list()] == [thread_id] * 2
        assert list(await rt.inboxes.list("planner")) == []


async def test_a_persons_plan_ends_with_the_thread_that_it_wakes() -> None:
    async with testing.by_hand(tw.App(agents=[planner()])) as (rt, motor):
        user_id, thread_id = await planned(rt, motor)
        await rt.threads.delete(thread_id)
        await motor.run_timers()
        assert list(await rt.minds.plans("planner", user_id=user_id)) == []
        assert [run.thread_id for run in await rt.runs.list()] == []


async def test_in_a_child_of_a_persons_thread_no_plans_are_made() -> None:
    calls_child = [{"calls": [{"name": "planner", "args": {"message": "Plan my tea"}}]}, {"text": "Done."}]
    child = planner(expose_as_tool=True, tool_description="It plans.")
    config = tw.SubagentToolConfig(name="planner", init_user_message_property="message")
    front = tw.Agent("front", tw.Prompt("front", model=ScriptedModel(calls_child), tools=[config]))
    async with testing.by_hand(tw.App(agents=[front, child])) as (rt, motor):
        user_id, thread_id = await planned(rt, motor, "front")
        [below] = await rt.threads.children(thread_id)
        [result] = [one for one in await rt.threads.messages(below.id) if one.role == "tool"]
        assert "it is a child of a person's thread" in result.content
        for user in (None, user_id):
            assert list(await rt.minds.plans("planner", user_id=user)) == []


@pytest.mark.parametrize("gone", ["person", "agent"])
async def test_who_is_deleted_leaves_nothing_that_was_kept_for_a_person(gone: str) -> None:
    async with testing.by_hand(tw.App(), model=FunctionModel(plans_tea)) as (rt, motor):
        for name in ("planner", "planner2"):
            await rt.agents.save(name, {"model": "test"})
        ada, bob = [await rt.entities.create(external_id=name) for name in ("ada", "bob")]
        threads = {
            (agent, person.id): (await rt.threads.create(agent, person.id)).id
            for agent in ("planner", "planner2")
            for person in (ada, bob)
        }
        for thread_id in threads.values():
            await rt.threads.send(thread_id, "Plan my tea")
        await motor.run_until_idle()
        if gone == "person":
            await rt.entities.delete(ada.id)
        else:
            await rt.agents.delete("planner")
        left = [key for key in threads if (key[1] != ada.id if gone == "person" else key[0] != "planner")]
        assert len(left) == 2
        await motor.run_timers()
        for (agent, person), thread_id in threads.items():
            kept = (agent, person) in left
            assert len(await rt.runs.list(thread_id=thread_id)) == (2 if kept else 1)
            if gone == "person" or agent != "planner":
                assert len(await rt.minds.plans(agent, user_id=person)) == int(kept)
