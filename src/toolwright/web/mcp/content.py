"""Results of calls as MCP content: text, objects, images, sounds, files."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from toolwright.core.errors import NotFound, StoreError
from toolwright.core.mcp.offered import ERROR, FILE_NAME
from toolwright.core.results.content import Attachment, AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.text import brief, clean_text, quantity
from toolwright.core.tools.tool import Tool
from toolwright.runtime.files.files import ThreadFiles
from toolwright.web.mcp.resources import MOST_BYTES, contents, uri_of
from toolwright.web.mcp.tools import output_of
from toolwright.wire.result import error_object, model_text
from toolwright.wire.text import clean_json

_MOST_FAULT = 1_000  # characters
ALONG = 256 * 1024
"""Bytes of files that one result carries along: hosts take messages of 1 MiB, with the text twice, and base64."""


async def call_result(
    files: ThreadFiles, thread_id: str, result: ToolResult, tool: Tool | None
) -> CallToolResult:
    """The result of a call of that tool in that thread, with its files; None for a tool that is there no more.

    One that was cut is an error if the tool promises an object: it is not what its schema says.
    """
    blocks: list[ContentBlock] = []
    succeeded = result.status == "success"
    if not succeeded:
        blocks.append(TextContent(text=clean_text(result.error or "The tool failed.")))
    elif not _is_nothing(result):
        blocks.append(TextContent(text=model_text(result)))
    blocks += await _files(files, thread_id, result.attachments)
    output = None if tool is None else output_of(tool)
    structured = clean_json(result.result) if succeeded else None
    fault = None
    if succeeded and output is not None:
        structured = output.structured(structured)
        fault = await output.fault(structured)
    if fault is not None:
        why = f"The tool has run. Its result is not what the tool's outputSchema promises: {brief(fault, _MOST_FAULT)}"
        blocks.append(TextContent(text=why))
    return CallToolResult(
        content=blocks or [TextContent(text="")],
        structured_content=structured if fault is None and isinstance(structured, dict) else None,
        is_error=not succeeded or fault is not None,
        _meta=None if succeeded else _error_meta(result),
    )


def _error_meta(result: ToolResult) -> dict[str, Any] | None:
    """The code and the data of an error, for hosts that want more than its text."""
    told = {key: each for key, each in error_object(result).items() if key != "error"}
    return {ERROR: clean_json(told)} if told else None


def error_result(text: str) -> CallToolResult:
    """An error of a call that has no result of its own."""
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _is_nothing(result: ToolResult) -> bool:
    """Whether the files are all that was handed over: an image alone leaves no text."""
    return result.status == "success" and bool(result.attachments) and result.result in (None, "", [])


async def _files(
    files: ThreadFiles, thread_id: str, attachments: Sequence[Attachment | AttachmentRef]
) -> list[ContentBlock]:
    blocks: list[ContentBlock] = []
    left = ALONG
    for each in attachments:
        if not isinstance(each, AttachmentRef):
            continue  # what is recorded has references only
        if each.size > left:
            blocks.append(_linked(thread_id, each))
            continue
        left -= each.size
        try:
            content = await files.read(thread_id, each.path)
        except (NotFound, StoreError):
            blocks.append(TextContent(text=_named(each, "cannot be read")))
            continue
        blocks.append(await asyncio.to_thread(_block, thread_id, each, content))
    return blocks


def _block(thread_id: str, ref: AttachmentRef, content: bytes) -> ContentBlock:
    """A file as the content that its type has."""
    kind = ref.mime_type.partition(";")[0].strip().lower()
    named = {FILE_NAME: ref.name}
    if kind.startswith("image/"):
        return ImageContent(data=b64encode(content).decode(), mime_type=ref.mime_type, _meta=named)
    if kind.startswith("audio/"):
        return AudioContent(data=b64encode(content).decode(), mime_type=ref.mime_type, _meta=named)
    return EmbeddedResource(resource=contents(uri_of(thread_id, ref.path), ref.mime_type, content))


def _linked(thread_id: str, ref: AttachmentRef) -> ContentBlock:
    """A file that is not sent along: it can be read by itself, unless it is too large even so."""
    if ref.size > MOST_BYTES:
        return TextContent(text=_named(ref, "is too large to be sent along"))
    return ResourceLink(
        name=ref.name, uri=uri_of(thread_id, ref.path), mime_type=ref.mime_type, size=ref.size
    )


def _named(ref: AttachmentRef, why: str) -> str:
    return f"The file {ref.path} ({ref.mime_type}, {quantity(ref.size, 'byte')}) {why}; it is kept in the thread."
