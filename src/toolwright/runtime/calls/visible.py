"""Visible calls: shown in a space as one message that goes through their statuses (D10)."""

from collections.abc import Sequence

from toolwright.core.env.redact import Redactor
from toolwright.core.journal.effects import Edit, Post, Source
from toolwright.core.results.result import ToolResult
from toolwright.core.spaces.entity import Entity
from toolwright.core.spaces.space import CallShown
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventDraft
from toolwright.core.tools.tool import Tool
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.record import source_of
from toolwright.runtime.env.redaction import clean_call
from toolwright.runtime.spaces.showing import Showing
from toolwright.wire.call import shown_call
from toolwright.wire.event import outcome_event, tool_event
from toolwright.wire.space import edited_event, said_event


def outside_any_space(tool: Tool) -> ToolResult:
    """The answer to a visible call of an agent that has not entered a space (S3 "Visible Tool Without a Space")."""
    return ToolResult.fail(
        f'Tool "{tool.name}" is visible but you are not in a space. Call enter_space first.'
    )


def posted(context: RunContext, call: Call, space_id: str, status: CallShown) -> Showing:
    """The message of a call that begins."""
    started = () if context.is_streamed(call.id) else (tool_event("tool.started", call.id, call.name),)
    return shown(call, space_id, status, context.author, source_of(context), started)


def shown(
    call: Call,
    space_id: str,
    status: CallShown,
    author: Entity | None,
    source: Source,
    started: Sequence[EventDraft],
) -> Showing:
    """The same for a call that is made by nobody's run."""

    def make(redactor: Redactor) -> Post:
        message = shown_call(clean_call(call, redactor), space_id, status)
        events = (*started, said_event(message, author, call.id))
        return Post(space_id=space_id, source=source, message=message, events=events)

    return Showing(space_id, make)


def finished(call: Call, result: ToolResult, author: Entity | None, source: Source) -> Sequence[Showing]:
    """The message of a call that has its result; nothing for one that is not shown."""
    space_id = call.space_id
    if space_id is None:
        return ()
    status: CallShown = "complete" if result.status == "success" else "error"

    def make(redactor: Redactor) -> Edit:
        clean = redactor.result(result)
        message = shown_call(clean_call(call, redactor), space_id, status, clean)
        events = (outcome_event(call.id, call.name, clean), edited_event(message, author, ()))
        return Edit(space_id=space_id, source=source, message=message, events=events)

    return (Showing(space_id, make),)


def timed_out(context: RunContext, call: Call, error: ToolResult) -> Sequence[Showing]:
    """The message of a call whose wait is over: it may still be answered."""
    space_id = call.space_id
    if space_id is None:
        return ()
    author, source = context.author, source_of(context)

    def make(redactor: Redactor) -> Edit:
        redacted = clean_call(call, redactor)
        message = shown_call(redacted, space_id, "requires_action", error, timed_out=True)
        events = (edited_event(message, author, ()),)
        return Edit(space_id=space_id, source=source, message=message, events=events)

    return (Showing(space_id, make),)
