"""Results of MCP tools as ours: structured content or text, images and files as attachments, errors in words."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import mcp_types as types

from toolwright.core.arguments.faults import list_faults
from toolwright.core.arguments.judge import ResultJudge
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.plain import is_large
from toolwright.core.results.content import LARGE, Attachment
from toolwright.core.results.result import ToolResult
from toolwright.core.results.returned import as_result, attached_text, media_name
from toolwright.core.text import sentence

FAILED = "mcp_tool_failed"


async def judged(answer: types.CallToolResult, output: JSONObject | None) -> ToolResult:
    """The same as `result_of`, in a thread where it takes more than a millisecond."""
    if takes_long(answer):
        return await asyncio.to_thread(result_of, answer, output)
    return result_of(answer, output)


def result_of(answer: types.CallToolResult, output: JSONObject | None) -> ToolResult:
    """The result of a call; `output` is the schema that its structured content must fit."""
    texts: list[str] = []
    files: list[Attachment] = []
    for block in answer.content:
        _add(block, texts, files)
    text = "\n".join(texts)
    if answer.is_error:
        return ToolResult.fail(text.strip() or "The tool failed.", error_code=FAILED)
    structured = cast("JSON", answer.structured_content)
    if output is not None:
        fault = _output_fault(structured, output, "structured_content" in answer.model_fields_set)
        if fault is not None:
            return ToolResult.fail(
                sentence(f"The MCP server broke its own outputSchema: {fault}"), error_code="invalid_output"
            )
    value: JSON = text if structured is None else structured
    if structured is None and not texts:
        value = attached_text(files) if files else ""
    return as_result(ToolResult.ok(value, tuple(files)))


def takes_long(answer: types.CallToolResult) -> bool:
    """Whether it takes more than a millisecond to look at: many parts, a large file, a large object to be judged."""
    return (
        len(answer.content) > 100
        or is_large(answer.structured_content)
        or any(len(_base64(block)) > LARGE for block in answer.content)
    )


def _base64(block: types.ContentBlock) -> str:
    match block:
        case types.ImageContent(data=data) | types.AudioContent(data=data):
            return data
        case types.EmbeddedResource(resource=types.BlobResourceContents(blob=blob)):
            return blob
        case _:
            return ""


async def read_result(answer: Mapping[str, Any], output: JSONObject | None) -> ToolResult:
    """The same for an answer that was not read by the SDK. Raises `ValueError` for what is no result."""
    return await judged(types.CallToolResult.model_validate(answer, by_name=False), output)


def _output_fault(structured: JSON, output: JSONObject, given: bool) -> str | None:
    if not given:
        return "there is no structured content"
    try:
        faults = ResultJudge(output, "output").faults(structured)
    except DefinitionError as error:
        return error.message
    return list_faults(faults) if faults else None


def _add(block: types.ContentBlock, texts: list[str], files: list[Attachment]) -> None:
    match block:
        case types.TextContent(text=text):
            texts.append(text)
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            name = media_name(kind, 1 + sum(each.mime_type == kind for each in files), block.type)
            files.append(Attachment(name=name, mime_type=kind, data=data))
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            texts.append(text)
        case types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, blob=blob, mime_type=kind)):
            kind = kind or "application/octet-stream"
            files.append(Attachment(name=_file_name(str(uri)), mime_type=kind, data=blob))
        case types.ResourceLink(uri=uri, name=name):
            texts.append(f"{name}: {uri}")
        case _:
            pass


def _file_name(uri: str) -> str:
    """The last part of a URI, as the name of a file."""
    try:
        path = urlsplit(uri).path
    except ValueError:
        path = ""
    return unquote(path.rstrip("/").rpartition("/")[2]).strip() or "file"
