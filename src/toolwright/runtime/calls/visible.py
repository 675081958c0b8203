"""Visible calls: shown in a space as one message that is updated with the status (D10)."""

from collections.abc import Mapping, Sequence

from toolwright.core.agents.agent import ENTER_SPACE, home_thread_id_of
from toolwright.core.journal.space_effects import Edit, Post, Source
from toolwright.core.results import ToolResult
from toolwright.core.spaces import CallShown, Entity
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import EventDraft
from toolwright.core.tools.tool import Kind, Tool
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.record import source_of
from toolwright.wire.call import visible_call_message
from toolwright.wire.event import outcome_event, tool_event
from toolwright.wire.space import edited_event, message_event


def outside_space(
    context: RunContext, tools: Mapping[str, Tool], changes: Changes, call: Call
) -> ToolResult | None:
    """Return the error of a visible call whose agent must enter a space first (S3 "Visible Tool Without a Space").

    Entering is required only in the home thread of an agent that can enter spaces. Elsewhere the call is shown in the
    space that the agent has entered or was addressed in, or without one in the thread's own stream only.
    """
    at_home = _is_at_home(context, tools)
    if (
        not at_home
        or call.space_id is not None
        or context.space.visible_space_after(changes, at_home) is not None
    ):
        return None
    return ToolResult.fail(
        f'Tool "{call.name}" is visible but you are not in a space. Call enter_space first.'
    )


WAITING: frozenset[Kind] = frozenset({"external", "space"})  # executed outside this process


def show(
    context: RunContext, tools: Mapping[str, Tool], changes: Changes, call: Call, tool: Tool, *, asks: bool
) -> None:
    """Add the message of a visible call to the changes, if it is shown in a space. An approved call already is."""
    status: CallShown = "requires_action" if asks or tool.carrier in WAITING else "running"
    if call.space_id is not None:
        changes.effects += (call_approved(context, call, call.space_id, status, asks=asks),)
        return
    space_id = context.space.visible_space_after(changes, _is_at_home(context, tools))
    if space_id is not None:
        changes.effects += (call_started(context, call, space_id, status, asks=asks),)
        changes.show(call.id, space_id)


def _is_at_home(context: RunContext, tools: Mapping[str, Tool]) -> bool:
    """Return whether the thread is the home thread of an agent that can enter spaces."""
    return ENTER_SPACE in tools and context.thread.id == home_thread_id_of(context.thread.agent)


def call_started(
    context: RunContext, call: Call, space_id: str, status: CallShown, *, asks: bool = False
) -> Post:
    """Return the message of a call that starts, or that `asks` for an approval before it starts."""
    silent = asks or context.is_streamed(call.id)
    started = () if silent else (tool_event("tool.started", call.id, call.name),)
    return call_message(call, space_id, status, context.author, source_of(context), started, asks=asks)


def call_approved(
    context: RunContext, call: Call, space_id: str, status: CallShown, *, asks: bool = False
) -> Edit:
    """Return the message of a call that starts after its approval, or `asks` again, with the approved arguments."""
    message = visible_call_message(call, space_id, status, asks=asks)
    started = () if asks else (tool_event("tool.started", call.id, call.name),)
    events = (*started, edited_event(message, context.author, ()))
    return Edit(space_id=space_id, source=source_of(context), message=message, events=events, if_there=True)


def call_message(
    call: Call,
    space_id: str,
    status: CallShown,
    author: Entity | None,
    source: Source,
    started: Sequence[EventDraft],
    *,
    asks: bool = False,
) -> Post:
    """Return the message of a call that no run makes."""
    message = visible_call_message(call, space_id, status, asks=asks)
    events = (*started, message_event(message, author, call.id))
    return Post(space_id=space_id, source=source, message=message, events=events)


def result_message(call: Call, result: ToolResult, author: Entity | None, source: Source) -> Sequence[Edit]:
    """Return the message of a finished call, or nothing if the call is not shown."""
    space_id = call.space_id
    if space_id is None:
        return ()
    status: CallShown = "complete" if result.status == "success" else "error"
    message = visible_call_message(call, space_id, status, result)
    events = (outcome_event(call.id, call.name, result), edited_event(message, author, ()))
    return (Edit(space_id=space_id, source=source, message=message, events=events, if_there=True),)


def timeout_message(context: RunContext, call: Call, error: ToolResult) -> Sequence[Edit]:
    """Return the message of a call that has timed out: a result can still arrive."""
    space_id = call.space_id
    if space_id is None:
        return ()
    message = visible_call_message(call, space_id, "requires_action", error, timed_out=True)
    source, events = source_of(context), (edited_event(message, context.author, ()),)
    return (Edit(space_id=space_id, source=source, message=message, events=events, if_there=True),)
