"""Plans that fire: once for each time, over restarts, changes and crashes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.test_spaces import act
from tests.databases import database, opened, stores
from tests.play import committed
from tests.runtime.mind_rig import AGENT, HOME, Died, Mind, thinking
from tests.runtime.rig import running
from toolwright.core.agents.mind import Plan
from toolwright.core.journal.effects import DropPlan, FirePlan, SetPlan
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Unit
from toolwright.core.threads.event import Topic
from toolwright.runtime.toolkits.mind import MindToolkit
from toolwright.testing import ManualClock, MemoryBus, MemoryStore, ScriptedModel

pytestmark = pytest.mark.anyio

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def plan(plan_id: str = "p", **fields: Any) -> Plan:  # Plan's own
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
    """An agent at work that has that plan."""
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
    """A run that had read it, and renames it, commits after it has fired."""
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
        thread = await rig.rt.threads.create("tester")
        await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        home = (await rig.rt.agents.get("tester")).home_thread_id
        async with asyncio.timeout(10):
            async for event in rig.rt.events.follow(Topic(kind="thread", id=home), after=0):
                if event.type == "run.completed":
                    break
        assert [message.content for message in await rig.transcript(home)][1:] == ["Tea is made."]
