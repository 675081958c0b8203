"""Calls whose results come from elsewhere: a moment in memory, then the run is parked."""

import asyncio
import math
from dataclasses import replace
from datetime import timedelta

from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Leaving, Park, Result
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call
from toolwright.runtime.calls.calls import Calls
from toolwright.runtime.hold.hold import Hold
from toolwright.runtime.hold.move import Move
from toolwright.wire.event import run_event

INLINE_WAIT = 1.0  # seconds that a run waits in memory before it is parked
LOST = "This child is lost: its thread does not know of the call any more."


class Waiting:
    """Waits for calls."""

    def __init__(self, store: Store, calls: Calls, inline_wait: float = INLINE_WAIT) -> None:
        self._store = store
        self._calls = calls
        self._inline_wait = inline_wait

    async def wait(self, hold: Hold, call: Call) -> Move | None:
        """Wait a moment in memory, else park; the call's end comes from elsewhere, or with its deadline.

        The move that answers a call whose time is over, or that nobody will ever end.
        """
        hold.nudged.clear()
        call = await hold.reload_call(call.id)
        if call.status != "waiting":
            return None
        if call.kind == "agent":
            return await self._wait_for_child(hold, call)
        left = self._calls.left(call, hold.clock)
        if left <= 0:
            move = Move()
            self._calls.time_out(hold, move, call)
            return move
        in_memory = self._in_memory(hold, call)
        if in_memory <= 0:
            await self._park(hold, call, left)
        else:
            await _nudged(hold, min(left, in_memory))
        return None

    def _in_memory(self, hold: Hold, call: Call) -> float:
        """How many seconds to wait in memory yet: a handler that waits for the call cannot be parked."""
        if hold.holder is not None:
            return math.inf
        began = hold.waits.setdefault(call.id, hold.clock.monotonic())
        return self._inline_wait - (hold.clock.monotonic() - began)

    async def nested(self, hold: Hold, call: Call) -> ToolResult:
        """Wait in memory for a call that a handler has made: its result, or word that its time is over."""
        while True:
            hold.nudged.clear()
            call = await hold.reload_call(call.id)
            if call.status != "waiting":
                return self._calls.result_of(call)
            if hold.abort.aborted:
                return ToolResult.fail("The run was cancelled.", error_code="cancelled")
            move = Move()
            over = await self._overdue(hold, move, call)
            if over is None:
                await _nudged(hold, self._calls.left(call, hold.clock))
            elif await hold.commit(Result, move, hold.run) == "done":
                return over

    async def _overdue(self, hold: Hold, move: Move, call: Call) -> ToolResult | None:
        """What ends the wait for a call, put into the move; None while it is to be waited for."""
        if call.kind != "agent":
            return None if self._calls.left(call, hold.clock) > 0 else self._calls.time_out(hold, move, call)
        if await self._awaited(hold, call):
            return None
        lost = ToolResult.fail(LOST, error_code="lost")
        self._calls.settle_lost(hold, move, call, lost)
        return lost

    async def _awaited(self, hold: Hold, call: Call) -> bool:
        """Whether there is a child whose end is the end of the call."""
        return await hold.insist(lambda: self._store.children.awaited(hold.thread.id, call.id))

    async def _wait_for_child(self, hold: Hold, call: Call) -> Move | None:
        """A child takes its time: the run is parked at once. One that is gone is never waited for."""
        if await self._awaited(hold, call):
            if hold.holder is None:
                await self._park(hold, call, math.inf)
            else:
                await _nudged(hold, math.inf)
            return None
        call = await hold.reload_call(call.id)
        if call.status != "waiting":
            return None
        move = Move()
        self._calls.settle_lost(hold, move, call, ToolResult.fail(LOST, error_code="lost"))
        return move

    async def _park(self, hold: Hold, call: Call, left: float) -> None:
        reason = "child" if call.kind == "agent" else "calls"
        run = replace(hold.run, status="waiting", waiting={"reason": reason, "callIds": [call.id]})
        due = None if math.isinf(left) else hold.clock.now() + timedelta(seconds=left)
        move = Move(events=[run_event(run)], leaving=Leaving(gen=hold.gen, due=due))
        await hold.commit(Park, move, run)


async def _nudged(hold: Hold, seconds: float) -> None:
    """Return when the thread is woken, its run is cancelled, or the time is over."""
    scope = asyncio.timeout(None if math.isinf(seconds) else seconds)
    try:
        async with scope:
            hold.abort.within(scope)
            await hold.nudged.wait()
    except TimeoutError:
        return
    finally:
        hold.abort.left(scope)
