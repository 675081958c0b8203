"""Visible calls: shown in a space as one message that goes through their statuses (D10)."""

from collections.abc import Sequence

from toolwright.core.call import Call
from toolwright.core.effects import Edit, Effect, Post, Source
from toolwright.core.entity import Entity
from toolwright.core.event import EventDraft
from toolwright.core.result import ToolResult
from toolwright.core.space import CallShown
from toolwright.core.tool import Tool
from toolwright.runtime.hold import Hold
from toolwright.runtime.source import source_of
from toolwright.wire.call_shown import shown_call
from toolwright.wire.event import outcome_event, tool_event
from toolwright.wire.space import edited_event, said_event


def outside_any_space(tool: Tool) -> ToolResult:
    """The answer to a visible call of an agent that has not entered a space (S3 "Visible Tool Without a Space")."""
    return ToolResult.fail(
        f'Tool "{tool.name}" is visible but you are not in a space. Call enter_space first.'
    )


def posted(hold: Hold, call: Call, space_id: str, status: CallShown) -> Post:
    """The message of a call that begins."""
    message = shown_call(call, space_id, status)
    told: list[EventDraft] = []
    if call.id not in hold.streamed:
        told.append(tool_event("tool.started", call.id, call.name))
    return Post(
        space_id=space_id,
        source=source_of(hold),
        message=message,
        events=(*told, said_event(message, hold.author, call.id)),
    )


def finished(call: Call, result: ToolResult, author: Entity | None, source: Source) -> Sequence[Effect]:
    """The message of a call that has its result; nothing for one that is not shown."""
    if call.space_id is None:
        return ()
    status: CallShown = "complete" if result.status == "success" else "error"
    message = shown_call(call, call.space_id, status, result)
    told = (outcome_event(call.id, call.name, result), edited_event(message, author, ()))
    return (Edit(space_id=call.space_id, source=source, message=message, events=told),)


def timed_out(hold: Hold, call: Call, error: ToolResult) -> Sequence[Effect]:
    """The message of a call whose wait is over: it may still be answered."""
    if call.space_id is None:
        return ()
    message = shown_call(call, call.space_id, "requires_action", error, timed_out=True)
    told = (edited_event(message, hold.author, ()),)
    return (Edit(space_id=call.space_id, source=source_of(hold), message=message, events=told),)
