"""Interference before or after the n-th unit of a run, placed by barriers and not by timing."""

import asyncio

from tests.runtime.rig import Hook, Rig, nothing
from toolwright.adapters.store.store import shielded
from toolwright.core.errors import RunOver
from toolwright.core.journal.units import Advance, Unit


def at(n: int, when: str, act: Hook) -> tuple[Hook, Hook, asyncio.Event]:
    """Return hooks that act once, before or after the n-th unit of a drain, and an event that is set afterwards."""
    seen = 0
    acted = False
    done = asyncio.Event()

    async def hook(index: int, unit: Unit) -> None:
        nonlocal seen, acted
        if not isinstance(unit, Advance) or acted:
            return
        seen += 1
        if seen == n:
            acted = True
            await shielded(asyncio.ensure_future(_acted(act, index, unit, done)))

    return (hook, nothing, done) if when == "before" else (nothing, hook, done)


async def _acted(act: Hook, index: int, unit: Unit, done: asyncio.Event) -> None:
    """Act to the end, shielded like a commit: the action can cancel the handler whose unit it is."""
    await act(index, unit)
    done.set()


async def cancelled_at(rig: Rig, n: int, when: str) -> tuple[str, bool]:
    """Cancel a new run at that unit. Return its thread, and whether the cancellation was rejected as too late."""
    thread = await rig.rt.threads.create("tester")
    refused = False

    async def cancel(_: int, unit: Unit) -> None:
        nonlocal refused
        assert isinstance(unit, Advance)
        try:
            await rig.rt.runs.cancel(unit.run.id)
        except RunOver:
            refused = True

    rig.store.before, rig.store.after, acted = at(n, when, cancel)
    run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
    await acted.wait()
    assert run.status == ("completed" if refused else "cancelled")
    return thread.id, refused
