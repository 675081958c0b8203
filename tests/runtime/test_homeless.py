"""Agents whose tools need tenvs that a home thread cannot have: no run of them starts there (D4)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.databases import sqlite_journal
from toolwright.adapters.motor.manual import ManualClock, ManualMotor
from toolwright.core.agents.catalog import Catalog
from toolwright.core.errors import NotFound, TenvsRequired
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus, ScriptedModel
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio


class Shop(BaseModel):
    """Values that `buy` requires."""

    store_id: str
    currency: str


@tw.tool(description="Buy.", tenvs=Shop)
async def buy() -> str:
    return "bought"


TENVS = {"store_id": "vs-1", "currency": "EUR"}
SAYS: dict[str, object] = {"text": "Done."}


@asynccontextmanager
async def at_work(
    path: Path, clock: ManualClock, *, needs: bool, turns: list[dict[str, object]] | None = None
) -> AsyncGenerator[tuple[Runtime, ManualMotor]]:
    """Run a shopper over that journal, whose tool needs tenvs or not yet."""
    model = ScriptedModel(turns or [SAYS])
    prompt = tw.Prompt("shopper", "Shop.", model=model, tools=[buy] if needs else [])
    agent = tw.Agent("shopper", prompt, toolkits=["spaces", "mind"])
    bus = MemoryBus()
    store = await sqlite_journal(path / "journal.db", bus.publish)
    motor = ManualMotor(store, clock)
    rt = Runtime(
        Catalog(agents=[agent]), DefaultParts(store=store, motor=motor, bus=bus, clock=clock), Settings(), 0.0
    )
    await rt.start()
    try:
        yield rt, motor
    finally:
        await rt.stop(0.0)


async def nobody_is_home(rt: Runtime) -> None:
    with pytest.raises(NotFound):
        await rt.threads.get((await rt.agents.get("shopper")).home_thread_id)
    assert await rt.inboxes.list("shopper") == []


async def test_a_trigger_is_refused_with_all_that_is_missing(tmp_path: Path) -> None:
    async with at_work(tmp_path, ManualClock(), needs=True) as (rt, motor):
        with pytest.raises(TenvsRequired, match="'shopper' cannot have a home thread") as refused:
            await rt.inboxes.trigger("shopper", "billing")
        assert refused.value.missing == ["store_id", "currency"]
        assert await motor.run_until_idle() == 0
        await nobody_is_home(rt)


async def test_a_member_that_needs_more_by_now_is_not_woken(tmp_path: Path) -> None:
    clock = ManualClock()
    async with at_work(tmp_path, clock, needs=False) as (rt, _):
        ann = await rt.entities.create(external_id="ann")
        await rt.spaces.create(id="tea", members=["shopper", ann.id])
    async with at_work(tmp_path, clock, needs=True) as (rt, motor):
        posted = await rt.spaces.say("tea", ann.id, "Hello")
        assert posted.runs == {}
        assert await motor.run_until_idle() == 0
        await nobody_is_home(rt)
    async with at_work(tmp_path, clock, needs=False) as (rt, motor):
        [run_id] = (await rt.spaces.say("tea", ann.id, "Hello again")).runs.values()
        await motor.run_until_idle()
        assert (await rt.runs.get(run_id)).status == "completed"


async def test_an_agent_in_a_thread_of_a_callers_neither_plans_nor_joins_a_space(tmp_path: Path) -> None:
    plan = {"name": "buy", "instruction": "Buy.", "runAfter": 1000}
    turns: list[dict[str, object]] = [
        {
            "calls": [
                {"name": "set_plans", "args": {"plans": [plan]}},
                {"name": "enter_space", "args": {"spaceId": "tea"}},
                {"name": "send_message", "args": {"text": "Hello"}},
            ]
        },
        SAYS,
    ]
    async with at_work(tmp_path, ManualClock(), needs=True, turns=turns) as (rt, motor):
        await rt.spaces.create(id="tea", kind="public")
        thread = await rt.threads.create("shopper", tenvs=TENVS)
        await rt.threads.send(thread.id, "Go")
        await motor.run_until_idle()
        await motor.run_timers()
        planned, _, spoken = [m.content for m in await rt.threads.messages(thread.id) if m.role == "tool"]
        assert "home thread, which cannot be" in planned
        assert "missing: store_id, currency" in planned
        assert "cannot be in a space" in spoken
        assert await rt.spaces.members("tea") == []
        assert await rt.minds.plans("shopper") == []
        await nobody_is_home(rt)


async def test_the_time_of_an_older_plan_goes_by(tmp_path: Path) -> None:
    clock = ManualClock()
    plans = [
        {"id": "once", "name": "once", "instruction": "Buy.", "runAfter": 60_000},
        {"id": "often", "name": "often", "instruction": "Buy.", "cron": "0 * * * *"},
    ]
    turns: list[dict[str, object]] = [{"calls": [{"name": "set_plans", "args": {"plans": plans}}]}, SAYS]
    async with at_work(tmp_path, clock, needs=False, turns=turns) as (rt, motor):
        thread = await rt.threads.create("shopper")
        await rt.threads.send(thread.id, "Plan")
        await motor.run_until_idle()
        assert len(await rt.minds.plans("shopper")) == 2
    async with at_work(tmp_path, clock, needs=True) as (rt, motor):
        clock.advance(7_300.0)
        await motor.run_until_idle()
        [left] = await rt.minds.plans("shopper")
        assert left.id == "often"
        assert left.next_run_at > clock.now()
        await nobody_is_home(rt)
