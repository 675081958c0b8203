"""Processes whose run waits for a value that they set, and which kill themselves before or after a unit."""

from typing import Any

import toolwright as tw
from tests.crash.dying import die
from tests.crash.forks import Order
from tests.databases import OpenStore, opened
from tests.kit import calls
from tests.runtime.rig import Rig, running
from tests.runtime.test_variables import parked
from toolwright.core.journal.units import Unit
from toolwright.testing import ScriptedModel

UNITS = 8  # create, send, claim, park, the answer, claim, the model's answer, the result


def journal(folder: str) -> OpenStore:
    return lambda bus: opened(f"sqlite:///{folder}/journal.db", bus)


def regional() -> tw.Tool:
    @tw.tool(description="Search.", variables=[tw.Variable("REGION")], read_only=True)
    async def search(state: tw.ThreadState) -> str:
        return f"In {await state.env('REGION')}"

    return search


def script() -> ScriptedModel:
    return ScriptedModel([calls("search"), {"text": "Done."}])


async def whole(rig: Rig) -> str:
    """Execute everything from the thread to the end of the run. Return the run's id."""
    run = await rig.send()
    request_id = await parked(rig, run.id)
    await rig.rt.requests.answer(run.thread_id, request_id, {"REGION": "eu"})
    await rig.rt.runs.wait(run.id, 10)
    return run.id


async def run(order: Order) -> None:
    seen = 0

    async def kill(_: int, unit: Unit) -> Any:  # the result of the unit; unused
        nonlocal seen
        if type(unit).__name__ != "Leave":  # the number of these units depends on timing
            seen += 1
            if seen == order["unit"]:
                die()

    async with running(script(), [regional()], store=journal(order["folder"])) as rig:
        setattr(rig.store, order["when"], kill)
        await whole(rig)
