"""Conversations in our own form: the messages of a thread, as `GET /api/threads/:id/messages` and `rt` return them."""

from collections.abc import Iterable, Iterator
from typing import Literal

from toolwright.core.imports.message import (
    SYSTEM,
    Content,
    ImportedCall,
    ImportedMessage,
    ImportedPart,
    first_of,
    numbered,
    refuse,
    within_limit,
)
from toolwright.core.json_value import JSON

MARKS = frozenset({"toolCalls", "toolCallId", "toolStatus", "model_call_id"})
"""Fields that only messages in our own form have, on the wire and in Python."""


def from_own(messages: Iterable[JSON]) -> Iterator[ImportedMessage]:
    """Yield the messages. Those that were hidden from models, and those of prompt tools, are left out."""
    for place, message in numbered(messages):
        role = message.text("role")
        if role in SYSTEM or message.has("hiddenBy", "hidden_by", "parentCallId", "within"):
            continue
        if message.value.get("kept") is False:
            continue
        match role:
            case "user" | "assistant" | "tool":
                yield _message(place, message, role)
            case _:
                refuse(f"{message.path}.role", f"is {role!r}, which cannot be imported")


def _message(
    place: int, message: ImportedPart, role: Literal["user", "assistant", "tool"]
) -> ImportedMessage:
    value, content = message.value, Content()
    content.say(within_limit(message.text("content"), f"{message.path}.content"))
    for file in message.parts("attachments"):
        mime_type = file.text(first_of(file.value, "mimeType", "mime_type"))
        if file.has("data"):
            content.attach("file", mime_type, file.text("data"), file.text("name"))
        else:  # a reference to a file of the thread where the message was
            content.mention("file", file.text("name"))
    status = message.optional(first_of(value, "toolStatus", "status")) if role == "tool" else None
    if status not in (None, "success", "error"):
        refuse(f"{message.path}.toolStatus", f"must be 'success' or 'error', not {status!r}")
    call_id = None
    if role == "tool":
        call_id = message.id(first_of(value, "toolCallId", "call_id"))
    return ImportedMessage(
        place=place,
        role=role,
        content=content.text,
        files=tuple(content.files),
        calls=tuple([_call(each) for each in message.parts(first_of(value, "toolCalls", "calls"))]),
        call_id=call_id,
        status="error" if status == "error" else "success",
        reasoning=message.optional("reasoning"),
        id=message.own_id(),
        created_at=message.time(first_of(value, "createdAt", "created_at")),
    )


def _call(call: ImportedPart) -> ImportedCall:
    return ImportedCall(id=call.id("id"), name=call.name("name"), arguments=call.arguments("arguments"))
