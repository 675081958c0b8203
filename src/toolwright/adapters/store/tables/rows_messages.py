"""Rows of messages."""

from collections.abc import Sequence
from typing import Any, cast

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, micros, read, read_instant
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.results.content import AttachmentRef
from toolwright.core.threads.message import Message, MessageCall


def message_params(message: Message, thread_id: str, seq: int) -> Params:
    return {
        "thread_id": thread_id,
        "seq": seq,
        "id": message.id,
        "run_id": message.run_id,
        "step": message.step,
        "role": message.role,
        "kept": message.kept,
        "body": dumps_unescaped(_message_body(message)),
        "created_at": micros(message.created_at),
        "within": message.within,
    }


def _message_body(message: Message) -> JSONObject:
    body: JSONObject = {"content": message.content}
    if message.calls:
        body["calls"] = [[c.id, c.name, c.arguments, c.model_call_id] for c in message.calls]
    answered: list[JSON] = [message.call_id, message.model_call_id, message.tool_name, message.status]
    if any(part is not None for part in answered):
        body["call"] = answered
    if message.side is not None:
        body["side"] = message.side
    if message.by is not None:
        body["by"] = message.by
    if message.stack is not None:
        body["stack"] = message.stack
    if message.attachments:
        body["attachments"] = [_attachment_body(ref) for ref in message.attachments]
    if message.native is not None:
        body["native"] = message.native
    return body


def _attachment_body(ref: AttachmentRef) -> JSON:
    described: list[JSON] = [ref.width, ref.height, ref.description, ref.digest]
    return [ref.id, ref.path, ref.name, ref.mime_type, ref.size, *described]


def _attachment(body: Sequence[Any]) -> AttachmentRef:  # as written by _attachment_body
    return AttachmentRef(
        id=body[0],
        path=body[1],
        name=body[2],
        mime_type=body[3],
        size=body[4],
        width=body[5],
        height=body[6],
        description=body[7],
        digest=body[8],
    )


def message(row: Row) -> Message:
    def made(body: dict[str, Any]) -> Message:  # as written by _message_body
        return _message(row, body)

    return read(row, 7, made)


def _message(row: Row, body: dict[str, Any]) -> Message:  # as above
    call_id, model_call_id, tool_name, status = body.get("call") or (None, None, None, None)
    return Message(
        id=row[2],
        role=row[5],
        content=a_text(body["content"]),
        seq=row[1],
        run_id=row[3],
        step=row[4],
        calls=tuple(
            MessageCall(id=c[0], name=c[1], arguments=c[2], model_call_id=c[3]) for c in body.get("calls", ())
        ),
        side=body.get("side"),
        by=body.get("by"),
        within=row[9],
        call_id=call_id,
        model_call_id=model_call_id,
        tool_name=tool_name,
        status=status,
        stack=body.get("stack"),
        attachments=tuple(_attachment(ref) for ref in body.get("attachments", ())),
        native=cast("JSON", body.get("native")),
        kept=bool(row[6]),
        created_at=read_instant(row, 8),
    )
