"""Events on the wire: shape, JSON and size limit of recorded events and of events sent to followers (API §4)."""

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Annotated, cast

from pydantic import Field

from toolwright.core.hooks import HookVerdict
from toolwright.core.json_value import JSON, JSONObject, dumps, surely_longer, utf8_size
from toolwright.core.results import ToolResult
from toolwright.core.threads.compaction import Compaction, Measure
from toolwright.core.threads.decision import Decider, decision
from toolwright.core.threads.event import Event as EventRow
from toolwright.core.threads.event import EventDraft, EventType
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import CutReason, Run, Usage
from toolwright.core.value import changed
from toolwright.wire.message import Message as MessageShape
from toolwright.wire.rendering import Absent
from toolwright.wire.result import attachment_to_json, error_object, is_cut
from toolwright.wire.run import Usage as UsageShape
from toolwright.wire.shape import JsonObject, Shape, wire_name

MAX_PAYLOAD = 8 * 1024  # bytes; of a larger payload only the ids are kept, with which it can be fetched

_KEPT_FIELDS = frozenset(
    {
        "id",
        "seq",
        "role",
        "entityId",
        "runId",
        "status",
        "stopReason",
        "stepNumber",
        "streamId",
        "toolCallId",
        "toolName",
        "parentCallId",
    }
)
SURELY_SMALL = 400  # characters of text: below the limit in any escaping, with the other fields of a payload
_MAX_FIELD = 50  # characters of a kept field: below the limit in any escaping, with all other kept fields
_MAX_NAMES = 20
_FEW = 50  # items: estimating the size of more items takes longer than serializing them
_MANY = 2**62  # bytes: the estimate for values that are not counted


def bounded(draft: EventDraft) -> EventDraft:
    """Return the draft, or only its ids and `truncated: true` if its payload is too large."""
    payload = _bounded(draft.payload)
    return draft if payload is draft.payload else EventDraft(draft.type, payload)


def _bounded(payload: JSONObject) -> JSONObject:
    if most_bytes(payload) <= MAX_PAYLOAD or not _is_longer(payload):
        return payload
    ids = _ids(payload)
    message = payload.get("message")
    if isinstance(message, dict):
        ids["message"] = _ids(message)
    return ids | {"truncated": True}


def message_event(message: Message) -> EventDraft:
    """Return the event `message {message}`; of a large message only its id, role and position."""
    return EventDraft.lazy("message", message_payload, message)


def message_payload(message: Message) -> JSONObject:
    """Render `{message}`: a large one without its reasoning, or only its id, role and position."""
    payload: JSONObject = {"message": MessageShape.of(message)}
    if _is_small(message):
        return payload
    bounded_payload = _bounded(payload)
    if bounded_payload is payload or message.reasoning is None:
        return bounded_payload
    shorter = message_payload(changed(message, reasoning=None, reasoning_shared=False))
    return {**shorter, "message": {**cast("JSONObject", shorter["message"]), "reasoningTruncated": True}}


def _is_small(message: Message) -> bool:
    """Return whether the message is short enough that its size need not be determined."""
    if message.stack is not None or message.attachments or len(message.calls) > 8:
        return False
    text = len(message.content) + len(message.reasoning or "")
    for call in message.calls:
        text += len(call.name) + len(call.arguments)
    return text < SURELY_SMALL


def run_event(run: Run) -> EventDraft:
    """Return the event of the run's status: `run.queued`, `run.started` and so on."""
    status = "started" if run.status == "running" else run.status
    return EventDraft.lazy(f"run.{status}", _run_payload, run)


def _run_payload(run: Run) -> JSONObject:
    payload: JSONObject = {"runId": run.id, "status": run.status}
    if run.stop_reason is not None:
        payload["stopReason"] = run.stop_reason
    if run.decisions and run.status in ("queued", "cancelled"):  # it was retried, or cancelled
        payload["decision"] = run.decisions[-1]
    waiting = None if run.status == "running" else run.waiting
    if run.error is None and waiting is None:
        return payload
    optional: JSONObject = {"error": run.error, "error_code": run.error_code, "waiting": waiting}
    payload.update({name: value for name, value in optional.items() if value is not None})
    return _bounded(payload)


def step_event(
    type_: EventType, number: int, usage: Usage | None = None, cut: CutReason | None = None
) -> EventDraft:
    """Return the event `step.started {stepNumber}` or `step.done {stepNumber, usage, stopReason?}`."""
    if usage is None:
        return EventDraft(type_, {"stepNumber": number})
    return EventDraft.lazy(type_, _step_payload, number, usage, cut)


def _step_payload(number: int, usage: Usage, cut: CutReason | None) -> JSONObject:
    payload: JSONObject = {"stepNumber": number, "usage": UsageShape.of(usage)}
    return payload if cut is None else {**payload, "stopReason": cut}


def compacted_event(row: Compaction, measure: Measure, before: int, after: int) -> EventDraft:
    """Return the event `context.compacted`, with the token counts before and after, and the call it occurred in."""
    payload: JSONObject = {
        "number": row.number,
        "cause": row.cause,
        "measure": measure,
        "summary": row.summary is not None,
        "cut": row.cut,
        "cleared": row.cleared,
        "bare": row.bare,
        "tokensBefore": before,
        "tokensAfter": after,
    }
    return EventDraft("context.compacted", payload | ({"parentCallId": row.within} if row.within else {}))


def subagent_event(
    type_: EventType, reference: str, name: str | None, agent_id: str, status: str
) -> EventDraft:
    """Return the event `subagent.created` or `subagent.finished {reference, name, agentId, status}`."""
    payload: JSONObject = {"reference": reference, "name": name, "agentId": agent_id, "status": status}
    return bounded(EventDraft(type_, payload))


def tool_event(type_: EventType, call_id: str, name: str, payload: JSONObject | None = None) -> EventDraft:
    """Return an event of a call, such as `tool.started` or `tool.waiting`, with its ids and the payload."""
    return EventDraft.lazy(type_, _tool_payload, call_id, name, payload)


def _tool_payload(call_id: str, name: str, more: JSONObject | None) -> JSONObject:
    ids: JSONObject = {"streamId": call_id, "toolCallId": call_id, "toolName": name}
    payload = ids if more is None else {**ids, **more, **ids}
    return payload if len(name) < 100 and _is_short(more) else _bounded(payload)


def approved_event(
    call_id: str, name: str, approval: JSONObject, reason: str | None, *, edited: bool
) -> EventDraft:
    """Return the event `tool.approved {args?, reason?, decision}`; `args` are edited arguments.

    If they are too large, the event has the decision without its arguments, and `truncated: true`.
    """
    more: JSONObject = {"decision": approval}
    if edited:
        more["args"] = approval.get("args")
    if reason is not None:
        more["reason"] = reason
    if most_bytes(more) > MAX_PAYLOAD - SURELY_SMALL and _is_longer(
        {**more, "toolName": name, "pad": "x" * 200}
    ):
        less = {part: each for part, each in approval.items() if part != "args"}
        more = {"decision": less, "truncated": True}
    return tool_event("tool.approved", call_id, name, more)


def variables_event(
    names: Iterable[str], by: Decider, at: datetime, request_id: str | None = None
) -> EventDraft:
    """Return the event `variables.set {requestId?, names, decision}`: who has set variables, at most 20 names."""
    listed: list[JSON] = [*islice(names, _MAX_NAMES)]
    payload: JSONObject = {"names": listed, "decision": decision("set", by, at)}
    return EventDraft(
        "variables.set", payload if request_id is None else {"requestId": request_id, **payload}
    )


def verdict_event(row: HookVerdict) -> EventDraft:
    """Return the event `hook.verdict {hook, point, verdict, stepNumber, reason?, toolCallId?}`."""
    payload: JSONObject = {
        "hook": row.hook,
        "point": row.point,
        "verdict": row.ruling,
        "stepNumber": row.step,
    }
    optional: JSONObject = {"toolCallId": row.call_id, "reason": row.reason}
    payload |= {name: each for name, each in optional.items() if each is not None}
    return EventDraft("hook.verdict", _bounded(payload))


def mcp_held_event(server: str, tool: str) -> EventDraft:
    """Return the event `tool.held`: a tool of an MCP server is held back because its definition has changed."""
    return EventDraft("tool.held", {"serverName": server, "toolName": tool})


def outcome_event(call_id: str, name: str, result: ToolResult) -> EventDraft:
    """Return the event that ends a call: `tool.done` with its result, or `tool.error` with its error.

    `resultTruncated` is true if either was cut for the model.
    """
    failed = result.status == "error"
    payload: JSONObject = error_object(result) if failed else {"result": result.result}
    if (failed or isinstance(result.result, str)) and is_cut(result):
        payload["resultTruncated"] = True
    if result.attachments and not failed:
        payload["attachments"] = [attachment_to_json(each) for each in result.attachments]
    return EventDraft.lazy("tool.error" if failed else "tool.done", _tool_payload, call_id, name, payload)


def live_event(
    type_: EventType, run: Run, payload: JSONObject, at: datetime, space_id: str | None = None
) -> EventRow:
    """Return an event of a run that is not recorded, for current subscribers only."""
    return EventRow(
        thread_id=run.thread_id,
        run_id=run.id,
        agent=run.agent,
        space_id=space_id,
        type=type_,
        payload=payload,
        at=at,
    )


class Event(Shape, title="EventShape"):
    """An event. Live events have no `id` and no `seq`.

    `n` is the number of a recorded event. A live event is a delta of an answer, or progress of a call.
    """

    id: Absent[str] = None
    n: Annotated[Absent[int], wire_name("seq", "id")] = None
    type: str
    at: Annotated[datetime, wire_name("ts")]
    thread_id: Absent[str] = None
    run_id: Absent[str] = None
    agent_entity_id: Absent[str] = None
    payload: Annotated[
        JsonObject, wire_name("data"), Field(description="The event's payload. Its form depends on the type.")
    ]

    @classmethod
    def of(cls, row: EventRow, **given: str | None) -> JSONObject:
        """Render an event, its type first. Events of a space have its id under both of its names."""
        fields: JSONObject = {"type": row.type, "ts": row.at.isoformat()}
        if row.n is not None:
            fields["id"] = str(row.n)
            fields["seq"] = row.n
        if row.space_id is not None:
            fields["spaceId"] = fields["smartSpaceId"] = row.space_id
        if row.thread_id is not None:
            fields["threadId"] = row.thread_id
        if row.run_id is not None:
            fields["runId"] = row.run_id
        if (agent_entity_id := given.get("agent_entity_id")) is not None:
            fields["agentEntityId"] = agent_entity_id
        fields["data"] = row.payload
        return fields


def notice_json(
    type_: EventType, at: datetime, ids: JSONObject, content: JSONObject | None = None
) -> JSONObject:
    """Render a status event of the stream, `connected {after}` or `reset`: without an id and not recorded."""
    return {"type": type_, "ts": at.isoformat(), **ids, "data": content or {}}


def frame(event: JSONObject) -> bytes:
    """Encode one server-sent event: `id:` only for recorded events, ASCII only, LF only."""
    identity = f"id: {event['id']}\n" if "id" in event else ""
    return f"{identity}data: {dumps(event)}\n\n".encode("ascii")


def _is_longer(payload: JSONObject) -> bool:
    return surely_longer(payload, MAX_PAYLOAD) or len(dumps(payload)) > MAX_PAYLOAD


def _ids(payload: JSONObject) -> JSONObject:
    return {
        name: value[:_MAX_FIELD] if isinstance(value, str) else value
        for name, value in payload.items()
        if name in _KEPT_FIELDS
        and (isinstance(value, str) or (isinstance(value, int) and abs(value) < 2**53))
    }


def _is_short(payload: JSONObject | None) -> bool:
    """Return whether the payload is None or one short value, as most results are. Saves the exact computation.

    A byte of UTF-8 takes at most three bytes of ASCII-escaped JSON.
    """
    if payload is None:
        return True
    if len(payload) != 1:
        return False
    [value] = payload.values()
    if isinstance(value, str):
        return len(value) < SURELY_SMALL
    return utf8_size(value) < MAX_PAYLOAD // 4


def most_bytes(value: JSON) -> int:
    """Return an upper bound of the value's size as JSON, without serializing it.

    An ASCII character is escaped to at most 6 bytes, any other to at most 12 (a pair of surrogates).
    """
    most, within = 0, [value]
    for part in within:  # the list grows during the iteration
        most += 3
        if isinstance(part, str):
            most += len(part) * (6 if part.isascii() else 12)
        elif isinstance(part, dict):
            if len(part) > _FEW:
                return _MANY
            most += len("".join(part)) * 12 + len(part) * 4
            within += part.values()
        elif isinstance(part, list):
            if len(part) > _FEW:
                return _MANY
            within += part
        else:  # a float has at most 25 characters, null and the booleans fewer
            most += part.bit_length() // 3 + 5 if isinstance(part, int) else 25
    return most
