"""Calls that need an approval: whether one does, and the move by which it waits for it."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.journal.effects import SetTimer
from toolwright.core.state.questions import ELICIT_TIMEOUT
from toolwright.core.threads.approval import Terms
from toolwright.core.threads.call import Call, timer_of
from toolwright.core.tools.approval import is_needed
from toolwright.core.tools.pipeline import PreparedCall, prepare
from toolwright.core.tools.tool import Tool
from toolwright.runtime.calls.request_state import resolver
from toolwright.runtime.context.changes import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.wire.event import tool_event


def needs_approval(context: RunContext, call: Call, tool: Tool) -> bool | None:
    """Return whether the call must wait for an approval, or None if its tool has not been asked yet."""
    if tool.approval is None or call.approval is not None:
        return False
    return True if tool.approval.when is None else context.decided.get(call.id)


async def decide(context: RunContext, call: Call, tools: Mapping[str, Tool]) -> None:
    """Ask the call's tool whether these arguments need an approval, where it says so by a function of them."""
    tool = tools.get(call.name)
    if tool is None or tool.approval is None or needs_approval(context, call, tool) is not None:
        return
    resolve = resolver(context, Changes(), call)
    prepared = await in_thread_if_large(
        call.arguments, prepare, tools, call.name, call.arguments, call.id, resolve
    )
    if not isinstance(prepared, PreparedCall):  # invalid arguments ask nobody
        return
    context.decided[call.id] = True  # also if the run is cancelled before its tool has answered
    scope = asyncio.timeout(None)
    with suppress(TimeoutError):
        async with scope:
            context.abort.within(scope)
            context.decided[call.id] = await is_needed(tool.approval, call.name, prepared.arguments)
    context.abort.left(scope)


def asked(context: RunContext, changes: Changes, call: Call, tool: Tool) -> Terms:
    """The terms on which the call waits for its approval; its timer and its event are put into the changes.

    A call that is waited for in memory is given an hour at most.
    """
    approval, judge = tool.approval, tool.judge
    assert approval is not None and judge is not None, "the call needs an approval"
    in_memory = context.holder is not None or call.id in context.nested
    seconds = approval.expires_in
    if in_memory:
        seconds = ELICIT_TIMEOUT if seconds is None else min(seconds, ELICIT_TIMEOUT)
    if seconds is not None:
        due = context.clock.now() + timedelta(seconds=seconds)
        changes.effects += (SetTimer(name=timer_of(call.id), due=due),)
    changes.events.append(tool_event("tool.waiting", call.id, call.name, {"reason": "approval"}))
    return Terms(
        by=approval.by if isinstance(approval.by, str) else tuple(approval.by),
        seconds=seconds,
        edit=approval.edit,
        reason=approval.reason,
        schema=judge.schema
        if approval.edit and tool.meta is None
        else None,  # else references are replaced first
    )
