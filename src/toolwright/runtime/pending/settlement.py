"""End of an open call from outside its run, as a unit: submitted, expired or cancelled (D9)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from toolwright.core.arguments.errors import InvalidArguments, details_of, join_errors, within
from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.redact import Redactor
from toolwright.core.errors import InvalidRequest
from toolwright.core.files import FileChange
from toolwright.core.journal.approvals import Approve
from toolwright.core.journal.effects import DropTimer, Effect
from toolwright.core.journal.units import Settle
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.results import ToolResult
from toolwright.core.text import sentence
from toolwright.core.threads.approval import ApprovalAnswer, Terms
from toolwright.core.threads.call import Call, timer_of
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.tools.tool import Tool
from toolwright.runtime.env.redaction import clean_arguments
from toolwright.wire.event import MAX_PAYLOAD, outcome_event, tool_event
from toolwright.wire.result import error_object, result_to_json

S = TypeVar("S", bound=Settle)

EXPIRED = ToolResult.fail("Tool call expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """The facts of a settling unit in addition to the call.

    `depth` is that of the call's run in a chain of agents, `shown` the effects on its message in a space.
    """

    token: str
    at: datetime
    depth: int = 0
    shown: Sequence[Effect] = ()


def settlement(
    kind: type[S], call: Call, outcome: ToolResult, settling: Settling, files: Sequence[FileChange] = ()
) -> S:
    """Return the unit that ends the call. It includes the event for the agent's inbox, in case the call is pending."""
    return kind(
        token=settling.token,
        at=settling.at,
        thread_id=call.thread_id,
        call_id=call.id,
        result=result_to_json(outcome),
        event=outcome_event(call.id, call.name, outcome),
        notice=late_result(call, outcome, settling.depth, settling.at),
        files=tuple(files),
        effects=(*settling.shown, *dropped_timers(call)),
    )


def late_result(call: Call, outcome: ToolResult, depth: int, at: datetime) -> InboxEvent:
    """Return the inbox event for the result of a call whose run has continued."""
    content: JSON = error_object(outcome) if outcome.status == "error" else outcome.result
    return InboxEvent(
        thread_id=call.thread_id,
        event_id=f"tr:{call.id}",
        type="tool_result",
        content={
            "toolCallId": call.id,
            "toolName": call.name,
            "originRunId": call.run_id,
            "result": content,
        },
        depth=depth,
        created_at=at,
    )


def dropped_timers(call: Call) -> tuple[Effect, ...]:
    """Return the effect that drops the timer of a call with an expiry, if it has one."""
    return () if call.expires_at is None else (DropTimer(name=timer_of(call.id)),)


async def edited_arguments(
    call: Call, terms: Terms, answer: ApprovalAnswer, redactor: Redactor, tool: Tool | None
) -> str | None:
    """Return the approver's edited arguments, redacted, or None if they were not edited.

    Raises `InvalidRequest` if the call's schema rejects them, or the types of the `tool`, if this process knows it.
    """
    arguments = answer.arguments
    if arguments is None:
        return None
    return await in_thread_if_large(
        [arguments, call.arguments], _validated, call, terms.schema, arguments, redactor, tool
    )


def _validated(
    call: Call, schema: JSONObject | None, arguments: JSONObject, redactor: Redactor, tool: Tool | None
) -> str | None:
    if schema is not None:
        try:
            validated = ArgumentValidator(schema, call.name).read(arguments)
            if tool is not None and tool.signature is not None:
                tool.signature.binding.bind(validated)
        except InvalidArguments as error:
            listed = join_errors(error.faults)
            raise InvalidRequest(
                sentence(f"The tool does not take these arguments: {listed}"),
                details_of(within(error.faults, "result", "args")),
            ) from error
    written = clean_arguments(dumps_unescaped(arguments), redactor)
    return None if json.loads(written) == json.loads(call.arguments or "{}") else written


def approval(
    call: Call, answer: ApprovalAnswer, arguments: str | None, redactor: Redactor, token: str, at: datetime
) -> Approve:
    """Return the unit that approves the call, with the edited arguments if there are any."""
    details: JSONObject = {}
    if arguments is not None and len(arguments) <= MAX_PAYLOAD:  # longer arguments are read with the call
        details["args"] = json.loads(arguments)
    if answer.reason is not None:
        details["reason"] = redactor.text(answer.reason)
    return Approve(
        token=token,
        at=at,
        thread_id=call.thread_id,
        call_id=call.id,
        arguments=arguments,
        event=tool_event("tool.approved", call.id, call.name, details),
        effects=dropped_timers(call),
    )
