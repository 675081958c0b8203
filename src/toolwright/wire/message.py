"""Messages and files on the wire: shapes and JSON (API §3), as presented to services and to people."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypeVar

from pydantic import JsonValue, PlainValidator

from toolwright.core.json_value import JSONObject
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.event import Event
from toolwright.core.threads.message import Message as MessageRow
from toolwright.core.threads.message import Role
from toolwright.core.value import changed
from toolwright.wire.rendering import ABSENT, Absent, WrittenBy
from toolwright.wire.result import attachment_to_json, reference_from_json
from toolwright.wire.shape import Shape, documented_as, wire_name

T = TypeVar("T")

Reference = Annotated[
    AttachmentRef,
    PlainValidator(reference_from_json),
    documented_as(dict[str, JsonValue]),
    WrittenBy(attachment_to_json),
]
"""A reference to a file of a thread, in messages and results."""


class MessageCall(Shape, title="MessageCallShape"):
    """A tool call of an assistant's message; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class Message(Shape, title="MessageShape"):
    """A message of a thread. `seq` is its position, absent until a run has read it.

    `within` is the id of the call of a prompt tool in which the message was written. A `pinned` message is never
    omitted from a request to the model; one with `hidden_by` is in none. `reasoning` is what the provider has shown of
    the model's reasoning, for the readers that the agent allows; it is `reasoningShared` if these include people. An
    `imported` message was given when the thread was created; `sourceId` is the id that it had before.
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
    reasoning: Absent[str] = None
    reasoning_shared: Annotated[bool, ABSENT] = False
    imported: Annotated[bool, ABSENT] = False
    source_id: Absent[str] = None
    created_at: datetime


class Sent(Shape, title="MessageSent"):
    """An accepted message, and the run that reads it."""

    message: Message
    run_id: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """Messages and events as shown to one kind of readers, services or people.

    `event` returns the same object if there is nothing to hide, so that its encoding can be shared. Events that are
    `hidden` are not shown at all.
    """

    message: Callable[[MessageRow], MessageRow]
    event: Callable[[Event], Event]
    hidden: Callable[[Event], bool]


def _whole(row: T) -> T:
    return row


def _message_for_people(message: MessageRow) -> MessageRow:
    hidden = message.reasoning is not None and not message.reasoning_shared
    if message.stack is None and not hidden:
        return message
    return changed(message, stack=None, reasoning=None if hidden else message.reasoning)


def _is_hidden(event: Event) -> bool:
    return event.type == "message.reasoning" and not event.payload.get("reasoningShared")


def _event_for_people(event: Event) -> Event:
    message = event.payload.get("message")
    if not isinstance(message, dict):
        return event
    secret = {"stack"} if message.get("reasoningShared") else {"stack", "reasoning"}
    if message.keys().isdisjoint(secret):
        return event
    without: JSONObject = {name: value for name, value in message.items() if name not in secret}
    return changed(event, payload={**event.payload, "message": without})


FOR_SERVICES = Presentation(message=_whole, event=_whole, hidden=lambda _: False)
"""Services see everything."""

FOR_PEOPLE = Presentation(message=_message_for_people, event=_event_for_people, hidden=_is_hidden)
"""People see no stack traces, which reveal the server's code, and reasoning only if the agent shares it."""
