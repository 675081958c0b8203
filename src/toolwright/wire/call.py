"""Tool calls as JSON on the wire (API §3)."""

from datetime import datetime

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.call import Call
from toolwright.wire.call_shown import arguments_json
from toolwright.wire.result import result_from_json, s3_result


def agent_entity_id(call: Call) -> str | None:
    """The entity of the agent that made the call."""
    return None if call.agent is None else entity_id_of(call.agent)


def has_result_to_show(call: Call) -> bool:
    """Whether the call's recorded result, if there is one, can be read."""
    if call.result is not None:
        try:
            s3_result(result_from_json(call.result))
        except (InvalidJSON, AttributeError, TypeError):
            return False
    return True


def call_json(call: Call) -> JSONObject:
    """A call as those see it who may answer it; `result` and `resolvedAt` once there is one."""
    shown: JSONObject = {
        "callId": call.id,
        "toolName": call.name,
        "args": arguments_json(call.arguments),
        "status": call.status,
        "visible": call.visible,
        "spaceId": call.space_id,
        "threadId": call.thread_id,
        "runId": call.run_id,
        "parentCallId": call.parent_id,
        "agentEntityId": agent_entity_id(call),
        "createdAt": call.created_at.isoformat(),
        "expiresAt": _instant(call.expires_at),
        "deadline": _instant(call.deadline),
    }
    if call.result is not None:
        shown["result"] = s3_result(result_from_json(call.result))
        shown["resolvedAt"] = _instant(call.completed_at)
    return shown


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
