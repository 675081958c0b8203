"""A tool whose calls need an approval, and helpers for a run that waits for one."""

import asyncio
from typing import Any

import toolwright as tw
from tests.runtime.rig import Rig
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import Run
from toolwright.core.tools.approval import Requirement
from toolwright.testing import ScriptedModel


class Ledger:
    """Records actual payments; `tool` pays."""

    def __init__(self, requirement: Requirement = True, **options: Any) -> None:  # options of `tool`
        self.paid: list[tuple[str, int]] = []

        @tw.tool(requires_approval=requirement, **options)
        async def pay(to: str, amount: int) -> str:
            """Pay somebody."""
            self.paid.append((to, amount))
            return f"Paid {amount} to {to}"

        self.tool = pay


def paying(to: str = "Ann", amount: object = 5) -> dict[str, Any]:
    return {"name": "pay", "args": {"to": to, "amount": amount}}


def script(*calls: dict[str, Any]) -> ScriptedModel:
    """Return a model that makes these calls in one answer, then says `Done.`"""
    return ScriptedModel([{"calls": list(calls) or [paying()]}, {"text": "Done."}])


async def begun(rig: Rig) -> Run:
    """Start a run of the agent `tester`."""
    thread = await rig.rt.threads.create("tester")
    return await rig.rt.threads.send(thread.id, "Go")


async def asked(rig: Rig, run_id: str, *, parked: bool = True) -> Call:
    """Return the call that waits for its approval, once the run is suspended."""
    while True:
        for call in await rig.rt.calls.list(run_id=run_id):
            if call.awaits_approval and (not parked or (await rig.rt.runs.get(run_id)).status == "waiting"):
                return call
        await asyncio.sleep(0)


async def results(rig: Rig, run_id: str) -> list[tuple[str, str]]:
    """Return the texts of the results that the model has read, each with its status, after the run has finished."""
    run = await rig.rt.runs.wait(run_id, 30)
    messages = await rig.transcript(run.thread_id)
    return [(str(each.status), each.content) for each in messages if each.role == "tool"]
