"""Waits for results from elsewhere: briefly in memory, then the run is suspended."""

import asyncio
import math
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta

from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Leaving, Park
from toolwright.core.json_value import JSON
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.value import changed
from toolwright.runtime.calls.settle import CallSettler
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.wire.event import run_event

INLINE_WAIT = 1.0  # seconds that a run waits in memory before it is suspended
LOST = "The child is lost: its thread no longer knows this call."


class CallWaiter:
    """Waits for calls."""

    def __init__(self, store: Store, settler: CallSettler, inline_wait: float = INLINE_WAIT) -> None:
        self._store = store
        self._settler = settler
        self._inline_wait = inline_wait

    async def wait(self, context: RunContext, calls: Sequence[Call]) -> Changes | None:
        """Wait for one of the calls, first in memory, then by suspending the run.

        Return the changes that settle a call that has timed out or whose result can no longer arrive, or None.
        """
        context.nudged.clear()
        calls = [await context.reload_call(each.id) for each in calls]
        if any(each.status != "waiting" for each in calls):
            return None
        call = min(calls, key=lambda each: self._settler.seconds_left(each, context.clock))
        if call.has_child and not await self._is_awaited(context, call):
            return await self._lost_child(context, call)
        seconds = self._settler.seconds_left(call, context.clock)
        if seconds <= 0:
            changes = Changes()
            self._settler.time_out(context, changes, call)
            return changes
        if context.holder is not None:  # a run with a waiting handler cannot be suspended
            with context.abort.clocks_paused() if call.awaits_approval else nullcontext():
                await _nudged(context, seconds)
            return None
        waited = context.clock.monotonic() - context.waits_since(call.id)
        if call.has_child or call.awaits_approval or waited >= self._inline_wait:
            await self._park(context, call, seconds)
        else:
            await _nudged(context, min(seconds, self._inline_wait - waited))
        return None

    async def _is_awaited(self, context: RunContext, call: Call) -> bool:
        """Return whether a child still ends the call when it ends."""
        return await context.retry_until_available(
            lambda: self._store.children.awaited(context.thread.id, call.id)
        )

    async def _lost_child(self, context: RunContext, call: Call) -> Changes | None:
        """Return the changes that cancel the call of a child that is gone, or None if the child has just ended."""
        call = await context.reload_call(call.id)
        if call.status != "waiting":
            return None
        changes = Changes()
        self._settler.cancel_waiting(context, changes, call, ToolResult.fail(LOST, error_code="lost"))
        return changes

    async def _park(self, context: RunContext, call: Call, seconds: float) -> None:
        reason = "approval" if call.awaits_approval else "child" if call.has_child else "calls"
        call_ids: list[JSON] = [each.id for each in context.frame.unanswered() if each.status == "waiting"]
        run = changed(context.run, status="waiting", waiting={"reason": reason, "callIds": call_ids})
        due = None if math.isinf(seconds) else context.clock.now() + timedelta(seconds=seconds)
        changes = Changes(events=[run_event(run)], leaving=Leaving(gen=context.gen, due=due))
        await context.write(Park, changes, run)


async def _nudged(context: RunContext, seconds: float) -> None:
    """Return when the thread is woken, its run is cancelled, or the seconds have passed."""
    scope = asyncio.timeout(None if math.isinf(seconds) else seconds)
    try:
        async with scope:
            context.abort.within(scope)
            await context.nudged.wait()
    except TimeoutError:
        return
    finally:
        context.abort.left(scope)
