"""Renderers of tool results for each consumer (D2): models, frameworks, HTTP and MCP. All functions are pure."""

import re
from typing import cast

from toolwright.core.errors import InvalidJSON
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.limits import MAX_RESULT_VALUES
from toolwright.core.results import Attachment, AttachmentRef, ToolResult, unchecked
from toolwright.core.text import clean_text, quantity
from toolwright.core.value import changed
from toolwright.wire.text import NO_NUL, clean_json, readable_result

WHOLE = "whole"
"""Prefix of the ids of files that have the whole of a cut result. A tool can write the note of a cut, but not an id."""
_MAX_NOTICE = 2_000  # bytes


def result_to_json(result: ToolResult) -> JSONObject:
    """Serialize a result for the journal without loss; `result_from_json` parses it. Attachments as in S2 §5."""
    written: JSONObject = {"status": result.status}
    if result.result is not None or result.status == "success":
        written["result"] = result.result
    for key, value in (
        ("error", result.error),
        ("stack", result.stack),
        ("error_code", result.error_code),
        ("error_data", result.error_data),
    ):
        if value is not None:
            written[key] = value
    if result.attachments:
        written["attachments"] = [attachment_to_json(each) for each in result.attachments]
    return written


def result_from_json(written: JSONObject) -> ToolResult:
    """Parse a result of `result_to_json`. Raises `InvalidJSON` for anything else."""
    try:
        attachments = cast("list[JSONObject]", written.get("attachments", []))
        if written["status"] not in ("success", "error"):
            raise InvalidJSON("This is not a recorded tool result.")
        return ToolResult(
            status=written["status"],
            result=written.get("result"),
            error=cast("str | None", written.get("error")),
            stack=cast("str | None", written.get("stack")),
            attachments=tuple(attachment_from_json(each) for each in attachments),
            error_code=cast("str | None", written.get("error_code")),
            error_data=cast("JSONObject | None", written.get("error_data")),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidJSON("This is not a recorded tool result.") from error


def attachment_to_json(attachment: Attachment | AttachmentRef) -> JSONObject:
    """Render an attachment as in S2 §5; a reference has the type `file`."""
    written: JSONObject = {"name": attachment.name, "mimeType": attachment.mime_type}
    if isinstance(attachment, AttachmentRef):
        written |= {"id": attachment.id, "type": "file", "path": attachment.path, "size": attachment.size}
        if attachment.description is not None:
            written["description"] = attachment.description
    else:
        written["data"] = attachment.data
    if attachment.width is not None:
        written["width"] = attachment.width
    if attachment.height is not None:
        written["height"] = attachment.height
    return written


def attachment_from_json(written: JSONObject) -> Attachment | AttachmentRef:
    """Parse an attachment of `attachment_to_json`."""
    name, mime_type = cast("str", written["name"]), cast("str", written["mimeType"])
    width, height = cast("int | None", written.get("width")), cast("int | None", written.get("height"))
    if written.get("type") != "file":
        data = cast("str", written["data"])
        return unchecked(name=name, mime_type=mime_type, data=data, width=width, height=height)
    return AttachmentRef(
        id=cast("str", written["id"]),
        path=cast("str", written["path"]),
        name=name,
        mime_type=mime_type,
        size=cast("int", written["size"]),
        width=width,
        height=height,
        description=cast("str | None", written.get("description")),
    )


def reference_from_json(written: JSONObject) -> AttachmentRef:
    """Return a reference, where only references are allowed. Raises `ValueError` for anything else."""
    try:
        read = attachment_from_json(written)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            "this is not a reference to a file: path, name, mimeType, size and id are required"
        ) from error
    if not isinstance(read, AttachmentRef):
        raise ValueError("this is a file with its data, not a reference to a file")
    return read


def model_text(result: ToolResult) -> str:
    """Return the text for the model: a success as its text, or as JSON; an error as `{"error", "error_code"?, …}`.

    Control and tag characters are removed; a note says that NUL characters were. The stack is never included.
    """
    if result.status == "error":
        return readable_result(error_object(result))
    if isinstance(result.result, str):
        text = clean_text(result.result)
        return f"{text}\n{NO_NUL}" if "\x00" in result.result else text
    return readable_result(result.result)


def error_object(result: ToolResult) -> JSONObject:
    """Render an error as an object, with its `error_data` next to the message."""
    written: JSONObject = {"error": result.error or "The tool failed."}
    if result.error_code is not None:
        written["error_code"] = result.error_code
    return {
        **written,
        **{key: value for key, value in (result.error_data or {}).items() if key not in written},
    }


_NOTICE = re.compile(
    r"\n\[The result has (\d+) bytes?, of which the first \d+ are shown\."
    r"(?: The whole is in the file ([^\n]+)\.|[^\n]*)\]\Z"
)


def text_of(result: ToolResult) -> str:
    """Return the text of a result, before it is cut for a model."""
    if result.status == "error":
        return dumps_unescaped(error_object(result)) if result.error_data else result.error or ""
    return result.result if isinstance(result.result, str) else dumps_unescaped(result.result)


def shortened(result: ToolResult, content: bytes, most: int, more: str) -> ToolResult:
    """Return the result cut to `most` bytes of its text, with a note of its size and `more` (D20)."""
    notice = f"[The result has {quantity(len(content), 'byte')}, of which the first {most} are shown.{more}]"
    text = f"{content[:most].decode('utf-8', 'ignore')}\n{notice}"
    if result.status == "error":
        return changed(result, error=text, error_data=None)
    return changed(result, result=text)


def in_file(path: str) -> str:
    """Return the part of a cut result's note that names the file with the whole result."""
    return f" The whole is in the file {path}."


def longer(text: str, size: int, most: int) -> bool:
    """Return whether a text of `size` bytes is longer than `most`. A cut text with its note is not."""
    return size > most and (size > most + _MAX_NOTICE or _NOTICE.search(text[-_MAX_NOTICE:]) is None)


def is_cut(result: ToolResult) -> bool:
    """Return whether the result was cut for a model."""
    return _notice_of(result) is not None


def whole_file(result: ToolResult) -> AttachmentRef | None:
    """Return the file with the whole of a cut result. None if it was not cut, or its rest was not stored."""
    notice = _notice_of(result)
    if notice is None:
        return None
    size, path = notice.groups()
    files = (each for each in result.attachments if isinstance(each, AttachmentRef))
    ours = (each for each in files if each.id.startswith(f"{WHOLE}_"))
    return next((each for each in ours if each.path == path and str(each.size) == size), None)


def whole_result(cut: ToolResult, mime_type: str, content: bytes) -> ToolResult:
    """Return a cut result with the content of its file. Raises `NotJson` for invalid JSON and for too many values."""
    if cut.status == "success":
        is_text = mime_type != "application/json"
        whole = content.decode("utf-8", "replace") if is_text else _parsed(content)
        return changed(cut, result=whole)
    error = _read_error(content)
    if error is None:
        return changed(cut, error=content.decode("utf-8", "replace"))
    more = {name: each for name, each in error.items() if name not in ("error", "error_code")}
    return changed(cut, error=error["error"], error_data=more or None)


def _notice_of(result: ToolResult) -> re.Match[str] | None:
    text = result.error if result.status == "error" else result.result
    if not isinstance(text, str) or not text.endswith("]"):
        return None
    return _NOTICE.search(text[-_MAX_NOTICE:])


def _parsed(content: bytes) -> JSON:
    return parse_json(
        content, values=MAX_RESULT_VALUES
    )  # the parser holds up the event loop, also from a thread


def _read_error(content: bytes) -> JSONObject | None:
    """Return the object of an error that was stored with its data, or None if only its message was stored."""
    if not content.startswith(b'{"error":'):
        return None
    try:
        read = _parsed(content)
    except NotJson:  # a message that begins like an object
        return None
    return read if isinstance(read, dict) and isinstance(read.get("error"), str) else None


def openai_message(call_id: str, result: ToolResult) -> JSONObject:
    """Return the message of OpenAI's chat completions that answers the call."""
    return {"role": "tool", "tool_call_id": call_id, "content": model_text(result)}


def anthropic_block(call_id: str, result: ToolResult) -> JSONObject:
    """Return the content block of Anthropic's messages that answers the call."""
    failed = result.status == "error"
    return {"type": "tool_result", "tool_use_id": call_id, "content": model_text(result), "is_error": failed}


def mcp_result(result: ToolResult) -> JSONObject:
    """Render MCP's `CallToolResult`. `structuredContent` is only present if the result is an object."""
    content: list[JSON] = [{"type": "text", "text": model_text(result)}]
    content += [_mcp_image(each) for each in result.attachments if _is_new_image(each)]
    written: JSONObject = {"content": content, "isError": result.status == "error"}
    if result.status == "success" and isinstance(result.result, dict):
        written["structuredContent"] = clean_json(result.result)
    return written


def s3_result(result: ToolResult) -> JSON:
    """Render S3's form: the result itself, such as `{success, args}` for an internal tool, or `{"error": text}`."""
    return clean_json(error_object(result) if result.status == "error" else result.result)


def s3_pending(call_id: str) -> JSONObject:
    """Render S3's answer to a call whose result is submitted later."""
    return {"status": "pending", "pendingToolCallId": call_id}


def s4_result(result: ToolResult) -> JSONObject:
    """Render S4's form: one text, and `is_error` for an error."""
    written: JSONObject = {"content": [{"type": "text", "text": model_text(result)}]}
    if result.status == "error":
        written["is_error"] = True
    return written


def _is_new_image(attachment: Attachment | AttachmentRef) -> bool:
    return isinstance(attachment, Attachment) and attachment.mime_type.startswith("image/")


def _mcp_image(attachment: Attachment | AttachmentRef) -> JSONObject:
    data = attachment.data if isinstance(attachment, Attachment) else ""
    return {"type": "image", "data": data, "mimeType": attachment.mime_type}


def text_with_files(result: ToolResult) -> str:
    """Return the text of a result for a model, with the names of its files other than images."""
    pictures = images(result)
    names = [each.name for each in result.attachments if each not in pictures]
    text = model_text(result)
    return f"{text}\n\nFiles: {', '.join(names)}" if names else text


def images(result: ToolResult) -> list[Attachment]:
    """Return the images of a result whose bytes are included."""
    return [
        each
        for each in result.attachments
        if isinstance(each, Attachment) and each.mime_type.startswith("image/")
    ]
