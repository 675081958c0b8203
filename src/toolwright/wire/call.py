"""Tool calls and requests for variables on the wire: shapes and JSON (API §3), and messages that show calls."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import JsonValue

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.spaces import CallShown, SpaceMessage
from toolwright.core.threads.approval import terms_from_json, terms_to_json
from toolwright.core.threads.call import Call as CallRow
from toolwright.core.threads.call import CallStatus
from toolwright.wire.decision import Decision, decisions_fields
from toolwright.wire.message import Reference
from toolwright.wire.rendering import ABSENT, COMPUTED, GIVEN, Absent, From, WrittenBy
from toolwright.wire.result import attachment_to_json, is_cut, result_from_json, s3_result
from toolwright.wire.shape import Json, JsonObject, Shape, documented_as, wire_name


def call_message_id(call_id: str) -> str:
    """Return the id of the message that shows a call. It is derived from the call's id, so that it is posted once."""
    return f"msg_{call_id.removeprefix('call_')}"


def shown_call_id(message_id: str) -> str:
    """Return the id of the call that a message shows: the inverse of `call_message_id`."""
    return f"call_{message_id.removeprefix('msg_')}"


def visible_call_message(
    call: CallRow,
    space_id: str,
    status: CallShown,
    result: ToolResult | None = None,
    *,
    timed_out: bool = False,
    asks: bool = False,
) -> SpaceMessage:
    """Return the message that shows a call in a space. It has no content, only metadata.

    `metadata` is `{type: "tool_call", toolCallId, toolName, args, result, resultTruncated?, status, timedOut?,
    approval?, runId}`. `approval` is true while the call waits for an approval, `resultTruncated` if `result` was cut
    for the model.
    """
    metadata: JSONObject = {
        "type": "tool_call",
        "toolCallId": call.id,
        "toolName": call.name,
        "args": arguments_json(call.arguments),
        "result": None if result is None else s3_result(result),
        "status": status,
        "runId": call.run_id,
    }
    if result is not None and is_cut(result):
        metadata["resultTruncated"] = True
    if timed_out:
        metadata["timedOut"] = True
    if asks:
        metadata["approval"] = True
    return SpaceMessage(
        id=call_message_id(call.id),
        space_id=space_id,
        entity_id=entity_id_of(call.agent or ""),
        role="assistant",
        content="",
        metadata=metadata,
        created_at=call.created_at,
    )


def arguments_json(text: str) -> JSON:
    """Return the arguments as JSON, or as the model's text if they are not JSON."""
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):  # arguments of a model are recorded even if they are not JSON
        return text


def agent_entity_id(call: CallRow) -> str | None:
    """Return the entity of the agent that made the call."""
    return None if call.agent is None else entity_id_of(call.agent)


def has_result_to_show(call: CallRow) -> bool:
    """Return whether the call's recorded result, if there is one, can be read."""
    if call.result is not None:
        try:
            s3_result(result_from_json(call.result))
        except (InvalidJSON, AttributeError, TypeError):
            return False
    return True


_agent_entity_id = agent_entity_id  # the class has a field of that name


class Call(Shape, title="CallShape"):
    """A tool call.

    While it waits for an approval, `approval` is true, and `approval_terms {by, notBy?, edit, reason, why?}` specify
    who may answer and what the answer may contain; `notBy` are ids, `why` is the reason of a hook that asks. `result`,
    its status, its `attachments` and `resolved_at` are present after the call has been resolved. If `result_truncated`
    is true, `result` is the beginning of a result that was cut for the model; the last attachment has the whole,
    unless that was larger than a file can be. `parent_id` is the call that made this one, through a prompt tool or a
    handler. `decision` is who has approved, answered or cancelled it; `decisions` are all of them if there are
    several, oldest first.
    """

    id: Annotated[str, wire_name("callId")]
    name: Annotated[str, wire_name("toolName")]
    args: Annotated[Json, From("arguments"), WrittenBy(arguments_json)]
    status: CallStatus
    visible: bool
    space_id: str | None = None
    thread_id: Annotated[str | None, documented_as(str)] = None
    run_id: str
    parent_id: Annotated[Absent[str], COMPUTED, wire_name("parentCallId")] = None
    agent_entity_id: Annotated[str | None, From(_agent_entity_id)] = None
    created_at: datetime
    expires_at: datetime | None = None
    deadline: datetime | None = None
    approval: Annotated[Absent[bool], COMPUTED] = None
    approval_terms: Annotated[Absent[JsonObject], COMPUTED] = None
    result: Annotated[Json, ABSENT, COMPUTED] = None
    result_status: Annotated[Absent[Literal["success", "error"]], COMPUTED, wire_name("toolStatus")] = None
    result_truncated: Annotated[Absent[bool], COMPUTED] = None
    attachments: Annotated[
        tuple[Reference, ...], ABSENT, COMPUTED, documented_as(list[dict[str, JsonValue]] | None)
    ] = ()
    resolved_at: Annotated[Absent[datetime], COMPUTED] = None
    decision: Annotated[Absent[Decision], COMPUTED] = None
    decisions: Annotated[tuple[Decision, ...], ABSENT, COMPUTED] = ()

    @classmethod
    def of(cls, row: CallRow, **given: Any) -> JSONObject:
        """Render a call. The result and its fields are present after it has been resolved."""
        fields = super().of(row, **given)
        fields["parentCallId"] = row.parent_id
        if row.awaits_approval:
            terms = terms_to_json(terms_from_json(row.terms))
            fields["approval"] = True
            told = ("by", "notBy", "edit", "reason", "why")
            fields["approvalTerms"] = {name: terms[name] for name in told if name in terms}
        if row.result is not None:
            result = result_from_json(row.result)
            fields["result"], fields["toolStatus"] = s3_result(result), result.status
            if is_cut(result):
                fields["resultTruncated"] = True
            if result.attachments:
                fields["attachments"] = [attachment_to_json(each) for each in result.attachments]
            fields["resolvedAt"] = None if row.completed_at is None else row.completed_at.isoformat()
        if row.decisions:
            fields |= decisions_fields(row.decisions, fields["args"])
        return fields


class Offer(Shape):
    """A call that a worker may claim, with its arguments `args` and the W3C trace context `traceparent`."""

    call_id: Annotated[str, wire_name("toolCallId")]
    name: Annotated[str, wire_name("toolName")]
    args: Json
    run_id: str
    agent_entity_id: str | None = None
    traceparent: Absent[str] = None


class RequiredVariable(Shape, title="VariableShape"):
    """A variable that a request asks for."""

    name: str
    type: Literal["text", "secret"]
    description: str = ""


class VariablesRequest(Shape, title="VariablesWanted"):
    """An open request for variables: the requested ones, and the names of those without a value."""

    request_id: str
    agent_name: str
    required: tuple[RequiredVariable, ...]
    missing: tuple[str, ...]


class VariablesAnswered(Shape):
    """A fulfilled request for variables. `child_thread_id` is the child that it starts, if it was for a child."""

    request_id: str
    status: Annotated[Literal["success"], GIVEN] = "success"
    child_thread_id: Absent[str] = None
