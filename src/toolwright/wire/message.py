"""Messages and files as JSON on the wire (API §3)."""

from toolwright.core.files.file import File
from toolwright.core.json_value import JSON, JSONObject
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
