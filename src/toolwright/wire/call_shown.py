"""A visible call as the message that shows it in a space (S3 "Visible Tool Results in Spaces", D10)."""

import json

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.result import ToolResult
from toolwright.core.spaces.space import CallShown, SpaceMessage
from toolwright.core.threads.call import Call
from toolwright.wire.result import s3_result


def message_id_of(call_id: str) -> str:
    """The id of the message that shows a call: made of the call's, so that it is posted once."""
    return f"msg_{call_id.removeprefix('call_')}"


def call_shown_by(message_id: str) -> str:
    """The id of the call that a message shows, if it shows one: `message_id_of` read backwards."""
    return f"call_{message_id.removeprefix('msg_')}"


def shown_call(
    call: Call,
    space_id: str,
    status: CallShown,
    result: ToolResult | None = None,
    *,
    timed_out: bool = False,
) -> SpaceMessage:
    """`metadata {type: "tool_call", toolCallId, toolName, args, result, status, timedOut?, runId}`, no content."""
    metadata: JSONObject = {
        "type": "tool_call",
        "toolCallId": call.id,
        "toolName": call.name,
        "args": arguments_json(call.arguments),
        "result": None if result is None else s3_result(result),
        "status": status,
        "runId": call.run_id,
    }
    if timed_out:
        metadata["timedOut"] = True
    return SpaceMessage(
        id=message_id_of(call.id),
        space_id=space_id,
        entity_id=entity_id_of(call.agent or ""),
        role="assistant",
        content="",
        metadata=metadata,
        created_at=call.created_at,
    )


def arguments_json(text: str) -> JSON:
    """The arguments as JSON; as the model wrote them where that is none."""
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text
