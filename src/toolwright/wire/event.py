"""Events as they are recorded, and as a follower reads them (API §4)."""

from datetime import datetime

from toolwright.core.event import Event, EventDraft
from toolwright.core.json_value import JSONObject, dumps
from toolwright.core.message import Message
from toolwright.core.run import Run, Usage
from toolwright.wire.message import message_json
from toolwright.wire.run import usage_json

MAX_PAYLOAD = 8 * 1024  # bytes; a larger payload is left out, and its ids say where the whole is

SURELY_SMALL = 1_000  # characters of text that stay below it however they are escaped


def message_event(message: Message) -> EventDraft:
    """`message {message}`; of a large one only its id, role and place."""
    shown = message_json(message)
    text = len(message.content) + sum([len(call.name) + len(call.arguments) for call in message.calls])
    if (text > SURELY_SMALL or message.attachments or message.stack) and _large(shown):
        ids: JSONObject = {name: shown[name] for name in ("id", "seq", "role", "toolCallId") if name in shown}
        return EventDraft(type="message", payload={"message": ids, "truncated": True})
    return EventDraft(type="message", payload={"message": shown})


def run_event(run: Run) -> EventDraft:
    """`run.queued`, `run.started` and so on, by the run's status."""
    status = "started" if run.status == "running" else run.status
    payload: JSONObject = {"runId": run.id, "status": run.status}
    optional: JSONObject = {"stopReason": run.stop_reason, "error": run.error, "waiting": run.waiting}
    payload.update({name: value for name, value in optional.items() if value is not None})
    return EventDraft(type=f"run.{status}", payload=payload)


def step_event(type_: str, number: int, usage: Usage | None = None) -> EventDraft:
    """`step.started` and `step.done {stepNumber, usage?}`."""
    payload: JSONObject = {"stepNumber": number}
    if usage is not None:
        payload["usage"] = usage_json(usage)
    return EventDraft(type=type_, payload=payload)


def tool_event(type_: str, call_id: str, name: str, said: JSONObject | None = None) -> EventDraft:
    """`tool.started`, `tool.done {result}`, `tool.error {error}` of one call."""
    ids: JSONObject = {"streamId": call_id, "toolCallId": call_id, "toolName": name}
    payload = ids | (said or {})
    if said is not None and not _short(said) and _large(payload):
        return EventDraft(type=type_, payload=ids | {"truncated": True})
    return EventDraft(type=type_, payload=payload)


def event_json(event: Event, agent_entity_id: str | None = None) -> JSONObject:
    """`{id?, type, ts, threadId, runId?, agentEntityId?, data}`; live events have no id."""
    shown: JSONObject = {"type": event.type, "ts": event.at.isoformat(), "threadId": event.thread_id}
    if event.n is not None:
        shown["id"] = str(event.n)
        shown["seq"] = event.n
    if event.run_id is not None:
        shown["runId"] = event.run_id
    if agent_entity_id is not None:
        shown["agentEntityId"] = agent_entity_id
    shown["data"] = event.payload
    return shown


def notice_json(type_: str, at: datetime, ids: JSONObject) -> JSONObject:
    """A stream's word about itself, `connected` or `reset`: an event without an id that nothing records."""
    return {"type": type_, "ts": at.isoformat(), **ids, "data": {}}


def frame(shown: JSONObject) -> bytes:
    """One server-sent event, to be written at once: `id:` only for what is recorded, ASCII only, LF only."""
    identity = f"id: {shown['id']}\n" if "id" in shown else ""
    return f"{identity}data: {dumps(shown)}\n\n".encode("ascii")


def _large(payload: JSONObject) -> bool:
    return len(dumps(payload)) > MAX_PAYLOAD


def _short(said: JSONObject) -> bool:
    """Whether it is plainly small: most results are a short text, and need not be written to be measured."""
    return all(
        isinstance(value, int | float | None) or (isinstance(value, str) and len(value) < 500)
        for value in said.values()
    )
