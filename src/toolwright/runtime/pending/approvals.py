"""Answers to calls that wait for an approval, as units: approved, perhaps with other arguments, or refused."""

import json
from datetime import datetime

from toolwright.core.arguments.faults import ArgumentFault
from toolwright.core.arguments.judge import Judge
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.redact import Redactor
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.approvals import Approve
from toolwright.core.json_value import JSONObject, dumps_unescaped
from toolwright.core.text import sentence
from toolwright.core.threads.approval import ApprovalAnswer, Terms
from toolwright.core.threads.call import Call
from toolwright.runtime.env.redaction import clean_arguments
from toolwright.runtime.pending.settlement import dropped_timers
from toolwright.wire.event import MAX_PAYLOAD, tool_event


async def edited_arguments(
    call: Call, terms: Terms, answer: ApprovalAnswer, redactor: Redactor
) -> str | None:
    """The arguments, without secrets, that the answer brings instead of the call's own; None if it brings no others.

    Raises `InvalidRequest` if the tool does not take them.
    """
    arguments = answer.arguments
    if arguments is None:
        return None
    return await in_thread_if_large(
        [arguments, call.arguments], _judged, call, terms.schema, arguments, redactor
    )


def _judged(call: Call, schema: JSONObject | None, arguments: JSONObject, redactor: Redactor) -> str | None:
    if schema is not None:
        try:
            Judge(schema, call.name).read(arguments)
        except ArgumentFault as fault:
            raise InvalidRequest(
                sentence(f"The tool does not take these arguments: {fault}"),
                [{"path": "result.args", "message": str(fault)}],
            ) from fault
    written = clean_arguments(dumps_unescaped(arguments), redactor)
    return None if json.loads(written) == json.loads(call.arguments or "{}") else written


def approval(
    call: Call, answer: ApprovalAnswer, arguments: str | None, redactor: Redactor, token: str, at: datetime
) -> Approve:
    """The unit by which the call is approved, with these arguments if they are not its own."""
    told: JSONObject = {}
    if arguments is not None and len(arguments) <= MAX_PAYLOAD:  # a longer one is read with the call
        told["args"] = json.loads(arguments)
    if answer.reason is not None:
        told["reason"] = redactor.text(answer.reason)
    return Approve(
        token=token,
        at=at,
        thread_id=call.thread_id,
        call_id=call.id,
        arguments=arguments,
        event=tool_event("tool.approved", call.id, call.name, told),
        effects=dropped_timers(call),
    )
