"""A process that sets a plan and fires it, and kills itself: `python -m tests.crash.plan_child URL before SetPlan`."""

import asyncio
import sys

from tests.crash.child import die
from tests.databases import opened
from tests.runtime.mind_rig import thinking
from toolwright.adapters.motor.manual import START
from toolwright.core.units import Unit
from toolwright.testing import MemoryBus


async def main(url: str, when: str, effect: str) -> None:
    async def kill(unit: Unit) -> None:
        if effect in [type(each).__name__ for each in getattr(unit, "effects", ())]:
            die()

    async with thinking(await opened(url, MemoryBus())) as mind:
        setattr(mind.store, when, kill)
        plan = {"name": "Tea", "instruction": "Make tea.", "runAfter": "1 hour"}
        await mind.call("set_plans", plans=[plan])
        await mind.turn_to(START.replace(hour=2))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
