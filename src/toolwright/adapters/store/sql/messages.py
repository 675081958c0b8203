"""Tables of messages and their earlier versions."""

from collections.abc import Mapping as Names
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
    text,
)

from toolwright.adapters.store.engine.codecs import a_text
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.results.content import AttachmentRef
from toolwright.core.threads.message import Message, MessageCall, MessageVersion, Role, Sent

_NESTED = text("within IS NOT NULL")
_PINNED = text("pinned = 1"), text("pinned")
"""The condition on SQLite, in the form in which it compares booleans, and on Postgres."""


def _body_text(message: Message) -> str:
    """Return JSON of a message without its position, run and time. Missing fields are left out."""
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
    if message.sent is not None:
        body["sent"] = _sent_body(message.sent)
    return dumps_unescaped(body)


def _sent_body(sent: Sent) -> JSON:
    counted: list[JSON] = [sent.compaction, sent.version, sent.tokens, sent.counted, sent.budget]
    return [sent.hash, sent.system, sent.changing, sent.tools, *counted]


def _sent(body: Sequence[Any]) -> Sent:  # as written by _sent_body
    return Sent(
        hash=body[0],
        system=body[1],
        changing=body[2],
        tools=body[3],
        compaction=body[4],
        version=body[5],
        tokens=body[6],
        counted=body[7],
        budget=body[8],
    )


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


def _body(parsed: dict[str, Any]) -> Names[str, Any]:  # as written by _body_text
    """Return the fields of a message by their names."""
    call_id, model_call_id, tool_name, status = parsed.get("call") or (None, None, None, None)
    return {
        "content": a_text(parsed["content"]),
        "calls": tuple(
            [
                MessageCall(id=c[0], name=c[1], arguments=c[2], model_call_id=c[3])
                for c in parsed.get("calls", ())
            ]
        ),
        "side": parsed.get("side"),
        "by": parsed.get("by"),
        "call_id": call_id,
        "model_call_id": model_call_id,
        "tool_name": tool_name,
        "status": status,
        "stack": parsed.get("stack"),
        "attachments": tuple([_attachment(ref) for ref in parsed.get("attachments", ())]),
        "native": parsed.get("native"),
        "sent": None if "sent" not in parsed else _sent(parsed["sent"]),
    }


def _version_text(version: MessageVersion) -> str:
    return dumps_unescaped({"content": version.content, "native": version.native})


def _version(parsed: dict[str, Any]) -> Names[str, Any]:  # as written by _body_text
    return {"content": a_text(parsed["content"]), "native": parsed.get("native")}


messages = Table(
    "messages",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("id", Text, nullable=False),
    Column("run_id", Text),
    Column("step", Integer, nullable=False),
    Column("role", Text, nullable=False, info=one_of(Role)),
    Column("kept", Boolean, nullable=False),
    Column("body", Json(_body, _body_text), nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("within", Text),
    Column("pinned", Boolean, nullable=False, server_default=false()),
    PrimaryKeyConstraint("thread_id", "seq"),
    Index("messages_within", "within", sqlite_where=_NESTED, postgresql_where=_NESTED),
    Index("messages_by_run", "run_id", "seq"),
    Index("messages_pinned", "thread_id", sqlite_where=_PINNED[0], postgresql_where=_PINNED[1]),
)

message_versions = Table(
    "message_versions",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("body", Json(_version, _version_text), nullable=False),
    PrimaryKeyConstraint("thread_id", "seq", "until"),
)

MESSAGES = Mapping(messages, Message, rest_field="body")
MESSAGE_VERSIONS = Mapping(message_versions, MessageVersion, "seq", rest_field="body")
