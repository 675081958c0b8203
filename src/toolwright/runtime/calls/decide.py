"""Decisions about a call before it starts: missing variables, and the approval of a person."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.journal.agent_effects import SetTimer
from toolwright.core.state.state import ELICIT_TIMEOUT
from toolwright.core.threads.approval import Terms
from toolwright.core.threads.call import Call, timer_of
from toolwright.core.tools.approval import is_needed
from toolwright.core.tools.pipeline import PreparedCall, missing_variables_error, prepare
from toolwright.core.tools.tool import Tool
from toolwright.runtime.calls.request_state import resolver
from toolwright.runtime.calls.variables import missing_for
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.wire.event import tool_event


async def decide(context: RunContext, call: Call) -> None:
    """Refuse a call whose variables are still missing, or evaluate its tool's approval predicate, if it has one."""
    tools = context.frame.tools or context.active.by_name
    tool = tools.get(call.name)
    if tool is None:
        return
    missing = missing_for(context, tool)
    if missing:
        context.decided[call.id] = missing_variables_error(call.name, [each.name for each in missing])
        return
    if (
        tool.approval is None
        or tool.approval.when is None
        or call.approval is not None
        or call.id in context.decided
    ):
        return
    resolve = resolver(context, Changes(), call)
    prepared = await in_thread_if_large(
        call.arguments, prepare, tools, call.name, call.arguments, call.id, resolve
    )
    if not isinstance(prepared, PreparedCall):  # invalid arguments need no approval
        return
    context.decided[call.id] = "ask"  # also if the run is cancelled before the predicate returns
    scope = asyncio.timeout(None)
    with suppress(TimeoutError):
        async with scope:
            context.abort.within(scope)
            if not await is_needed(tool.approval, call.name, prepared.arguments):
                context.decided[call.id] = "start"
    context.abort.left(scope)


def approval_terms(context: RunContext, changes: Changes, call: Call, tool: Tool) -> Terms:
    """Return the terms of the call's approval. Adds its timer and its event to the changes.

    A call that is waited for in memory expires after at most an hour.
    """
    approval, validator = tool.approval, tool.validator
    assert approval is not None and validator is not None, "the call needs an approval"
    seconds = approval.expires_in
    if context.holder is not None:
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
        schema=validator.schema
        if approval.edit and tool.meta is None
        else None,  # references are replaced first
    )
