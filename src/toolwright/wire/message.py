"""Messages and files as JSON on the wire (API §3), as services and as people are shown them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from toolwright.core.files.file import File
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.event import Event
from toolwright.core.threads.message import Message
from toolwright.wire.result import attachment_to_json


def message_json(message: Message) -> JSONObject:
    """`{id, seq, role, content, toolCalls?, toolCallId?, toolStatus?, attachments?, stack?, createdAt}`."""
    shown: JSONObject = {"id": message.id, "role": message.role, "content": message.content}
    if message.seq is not None:
        shown["seq"] = message.seq
    if message.run_id is not None:
        shown["runId"] = message.run_id
    if message.calls:
        calls: list[JSON] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.calls]
        shown["toolCalls"] = calls
    if message.call_id is not None:
        shown["toolCallId"] = message.call_id
        shown["toolName"] = message.tool_name
        shown["toolStatus"] = message.status
    if message.attachments:
        shown["attachments"] = [attachment_to_json(ref) for ref in message.attachments]
    if message.stack is not None:
        shown["stack"] = message.stack
    shown["createdAt"] = message.created_at.isoformat()
    return shown


def file_json(file: File) -> JSONObject:
    """`{path, name, mimeType, size, id, width?, height?, description?, createdAt}`."""
    shown = attachment_to_json(file.ref)
    del shown["type"]
    return {**shown, "createdAt": file.created_at.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """How those of one kind are shown things.

    `event` gives the same object where an event holds nothing that they do not see.
    """

    message: Callable[[Message], JSONObject]
    event: Callable[[Event], Event]


def _whole(event: Event) -> Event:
    return event


def _message_without_stack(message: Message) -> JSONObject:
    shown = message_json(message)
    shown.pop("stack", None)
    return shown


def _event_without_stack(event: Event) -> Event:
    message = event.payload.get("message")
    if not isinstance(message, dict) or "stack" not in message:
        return event
    bare: JSONObject = {name: value for name, value in message.items() if name != "stack"}
    return replace(event, payload={**event.payload, "message": bare})


FOR_SERVICES = Presentation(message=message_json, event=_whole)
"""Services see all."""

FOR_PEOPLE = Presentation(message=_message_without_stack, event=_event_without_stack)
"""People see no stacks: where the server's code lies is for services alone."""
