"""Messages and files on the wire: shapes and JSON (API §3), as presented to services and to people."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import JsonValue, PlainValidator

from toolwright.core.files import File as FileRow
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.event import Event
from toolwright.core.threads.message import Message as MessageRow
from toolwright.core.threads.message import Role
from toolwright.core.value import changed
from toolwright.wire.result import attachment_to_json, reference_from_json
from toolwright.wire.shape import ABSENT, Absent, Shape, documented_as, wire_name

Reference = Annotated[AttachmentRef, PlainValidator(reference_from_json), documented_as(dict[str, JsonValue])]
"""A reference to a file of a thread, in messages and results."""


class MessageCall(Shape, title="MessageCallShape"):
    """A tool call of an assistant's message; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class Message(Shape, title="MessageShape"):
    """A message of a thread. `seq` is its position, absent until a run has read it.

    `within` is the id of the call of a prompt tool in which the message was written. A `pinned` message is never
    omitted from a request to the model; one with `hidden_by` is in none.
    """

    id: str
    role: Role
    content: str
    seq: Absent[int] = None
    run_id: Absent[str] = None
    within: Annotated[Absent[str], wire_name("parentCallId")] = None
    calls: Annotated[
        tuple[MessageCall, ...], ABSENT, documented_as(list[MessageCall] | None), wire_name("toolCalls")
    ] = ()
    call_id: Annotated[Absent[str], wire_name("toolCallId")] = None
    tool_name: Absent[str] = None
    status: Annotated[Absent[Literal["success", "error"]], wire_name("toolStatus")] = None
    attachments: Annotated[
        tuple[Reference, ...], ABSENT, documented_as(list[dict[str, JsonValue]] | None)
    ] = ()
    pinned: Annotated[bool, ABSENT] = False
    hidden_by: Absent[str] = None
    stack: Absent[str] = None
    created_at: datetime


class Sent(Shape, title="MessageSent"):
    """An accepted message, and the run that reads it."""

    message: Message
    run_id: str


def message_json(message: MessageRow) -> JSONObject:
    """Render a message, with its calls, the status of its call, its attachments and its stack if it has them."""
    fields: JSONObject = {"id": message.id, "role": message.role, "content": message.content}
    if message.seq is not None:
        fields["seq"] = message.seq
    if message.run_id is not None:
        fields["runId"] = message.run_id
    if message.within is not None:
        fields["parentCallId"] = message.within
    if message.calls:
        calls: list[JSON] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.calls]
        fields["toolCalls"] = calls
    if message.call_id is not None:
        fields["toolCallId"] = message.call_id
        fields["toolName"] = message.tool_name
        fields["toolStatus"] = message.status
    if message.attachments:
        fields["attachments"] = [attachment_to_json(ref) for ref in message.attachments]
    if message.pinned:
        fields["pinned"] = True
    if message.hidden_by is not None:
        fields["hiddenBy"] = message.hidden_by
    if message.stack is not None:
        fields["stack"] = message.stack
    fields["createdAt"] = message.created_at.isoformat()
    return fields


class File(Shape, title="FileShape"):
    """A file of a thread; `size` is in bytes, `width` and `height` are pixels."""

    path: str
    name: str
    mime_type: str
    size: int
    id: str
    width: Absent[int] = None
    height: Absent[int] = None
    description: Absent[str] = None
    created_at: datetime


def file_json(file: FileRow) -> JSONObject:
    """Render `{path, name, mimeType, size, id, width?, height?, description?, createdAt}`."""
    fields = attachment_to_json(file.ref)
    del fields["type"]
    return {**fields, "createdAt": file.created_at.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """Presentation of messages and events to one kind of readers, services or people.

    `event` returns the same object if there is nothing to hide, so that its encoding can be shared.
    """

    message: Callable[[MessageRow], JSONObject]
    event: Callable[[Event], Event]


def _full_event(event: Event) -> Event:
    return event


def _message_without_stack(message: MessageRow) -> JSONObject:
    fields = message_json(message)
    fields.pop("stack", None)
    return fields


def _event_without_stack(event: Event) -> Event:
    message = event.payload.get("message")
    if not isinstance(message, dict) or "stack" not in message:
        return event
    without_stack: JSONObject = {name: value for name, value in message.items() if name != "stack"}
    return changed(event, payload={**event.payload, "message": without_stack})


FOR_SERVICES = Presentation(message=message_json, event=_full_event)
"""Services see everything."""

FOR_PEOPLE = Presentation(message=_message_without_stack, event=_event_without_stack)
"""People see no stack traces, which reveal the server's code."""
