"""Processes that set a plan and fire it, and kill themselves before or after a unit with that effect."""

from tests.crash.dying import die
from tests.crash.forks import Order
from tests.databases import opened
from tests.runtime.mind_rig import thinking
from toolwright.adapters.motor.manual import START
from toolwright.core.journal.units import Unit
from toolwright.testing import MemoryBus


async def run(order: Order) -> None:
    url, when, effect = f"sqlite:///{order['folder']}/journal.db", order["when"], order["effect"]

    async def kill(unit: Unit) -> None:
        if effect in [type(each).__name__ for each in getattr(unit, "effects", ())]:
            die()

    async with thinking(await opened(url, MemoryBus())) as mind:
        setattr(mind.store, when, kill)
        plan = {"name": "Tea", "instruction": "Make tea.", "runAfter": "1 hour"}
        await mind.call("set_plans", plans=[plan])
        await mind.turn_to(START.replace(hour=2))
