"""Processes in which an agent writes its memory or sets a plan that fires, and that die at a unit with one effect."""

import toolwright as tw
from tests.crash.dying import die
from tests.crash.forks import Order
from tests.databases import opened
from tests.runtime.mind_rig import thinking
from toolwright.adapters.motor.manual import START
from toolwright.core.journal.units import Unit
from toolwright.testing import MemoryBus

AGENT = tw.Agent("thinker", "p", toolkits=["memory"])
PLAN = {"name": "Tea", "instruction": "Make tea.", "runAfter": "1 hour"}


async def run(order: Order) -> None:
    url, when, effect = f"sqlite:///{order['folder']}/journal.db", order["when"], order["effect"]

    async def kill(unit: Unit) -> None:
        if effect in [type(each).__name__ for each in getattr(unit, "effects", ())]:
            die()

    async with thinking(await opened(url, MemoryBus()), agents=[AGENT]) as mind:
        setattr(mind.store, when, kill)
        await mind.call("update_memory", label="mood", content="glad")
        await mind.call("store_memory", content="Tea is green.")
        await mind.call("set_plans", plans=[PLAN])
        await mind.turn_to(START.replace(hour=2))
