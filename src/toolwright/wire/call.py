"""Tool calls as JSON on the wire (API §3)."""

import json
from datetime import datetime

from toolwright.core.call import Call
from toolwright.core.json_value import JSON, JSONObject
from toolwright.wire.result import result_from_json, s3_result


def call_json(call: Call, *, visible: bool, agent_entity_id: str | None) -> JSONObject:
    """A call as those see it who may answer it; `result` and `resolvedAt` once there is one."""
    shown: JSONObject = {
        "callId": call.id,
        "toolName": call.name,
        "args": arguments_json(call.arguments),
        "status": call.status,
        "visible": visible,
        "spaceId": None,
        "threadId": call.thread_id,
        "runId": call.run_id,
        "agentEntityId": agent_entity_id,
        "createdAt": call.created_at.isoformat(),
        "expiresAt": _instant(call.expires_at),
        "deadline": _instant(call.deadline),
    }
    if call.result is not None:
        shown["result"] = s3_result(result_from_json(call.result))
        shown["resolvedAt"] = _instant(call.completed_at)
    return shown


def arguments_json(text: str) -> JSON:
    """The arguments as JSON; as the model wrote them where that is none."""
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
