"""Messages of MCP servers: tasks, and results of tools as values, attachments and errors."""

import asyncio
from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal, cast
from urllib.parse import unquote, urlsplit

import mcp_types as types
from pydantic import ConfigDict, TypeAdapter, ValidationError

from toolwright.core.arguments.errors import join_errors
from toolwright.core.arguments.schema import InvalidSchema, compile_promise
from toolwright.core.arguments.validator import validation_errors
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_text import parse_json
from toolwright.core.json_value import JSON, JSONObject, is_large, one_line, plain, unwritable
from toolwright.core.limits import MAX_NAME
from toolwright.core.mcp.offered import ERROR, FILE_NAME
from toolwright.core.results import (
    LARGE,
    Attachment,
    ToolResult,
    as_result,
    attached_text,
    media_name,
    unchecked,
)
from toolwright.core.text import brief, clean_text, sentence
from toolwright.core.value import changed

FAILED = "mcp_tool_failed"
STRUCTURED = "toolwright/structured"
"""The metadata key of structured content that the SDK would reject."""
MANY_PARTS = 100
"""Content blocks that can be processed within a millisecond."""
_NO_MATCH = "The result does not match the outputSchema of the tool"
_MAX_ERROR = 1_000  # characters
_ANY_KIND = "application/octet-stream"
_FILE_KEYS = ("data", "blob")
TASKS = "io.modelcontextprotocol/tasks"
CREATED = "toolwright/task"
"""Metadata key, in a result, of the task that was created instead of the result (2025-11-25)."""


async def validated_result(answer: types.CallToolResult, output: JSONObject | None) -> ToolResult:
    """Return the same as `result_of`. Runs in a thread if it takes more than a millisecond."""
    if takes_long(answer):
        return await asyncio.to_thread(result_of, answer, output)
    return result_of(answer, output)


def result_of(answer: types.CallToolResult, output: JSONObject | None) -> ToolResult:
    """Return the result of a call; `output` is the schema that describes its structured content.

    The call has already had its effect: each unreadable part of the result is replaced with one line of text.
    """
    texts, files = content_of(answer.content)
    structured, notes = _structured(answer)
    if answer.is_error:
        return _error(answer, [*texts, *notes], files, structured)
    if output is not None and not notes:
        has_structured = "structured_content" in answer.model_fields_set or STRUCTURED in (answer.meta or {})
        notes = _mismatch(structured, output, has_structured)
    if structured is None or _is_text(structured, texts) or _repeats_content(structured, texts, files):
        value: JSON = "\n".join([*texts, *notes]) or (attached_text(files) if files else "")
    else:
        text = "\n".join(texts)
        parts = [text] if text.strip() and not _says_the_same(text, structured) else []
        value = _with_text(_with_file_names(structured, files), "\n".join([*parts, *notes]))
    return as_result(ToolResult.ok(value, tuple(files)))


def _structured(answer: types.CallToolResult) -> tuple[JSON, list[str]]:
    """Return the structured content, or None and a line with the reason."""
    try:
        return plain(_structured_content(answer)), []
    except InvalidJSON as error:
        return None, [f"[The structured content is left out: {error.message}]"]


def _structured_content(answer: types.CallToolResult) -> Any:  # whatever the server sent
    return (answer.meta or {}).get(STRUCTURED, answer.structured_content)


def _error(
    answer: types.CallToolResult, texts: list[str], files: list[Attachment], structured: JSON
) -> ToolResult:
    """Return the error of a tool, with its files and any structured content that the text does not contain."""
    error_meta = (answer.meta or {}).get(ERROR)
    text = "\n".join(texts)
    error = text.strip() or "The tool failed."
    more = structured is not None and not _repeats_content(structured, texts, files)
    data: JSONObject = {}
    code: object = FAILED
    if isinstance(error_meta, dict):
        code, data = _toolwright_error(cast("dict[str, Any]", error_meta))
    if more and not _says_the_same(text, structured):
        data["structuredContent"] = _with_file_names(structured, files)
    failed = ToolResult.fail(error, error_code=str(code), error_data=data or None)
    return as_result(changed(failed, attachments=tuple(files)))


def _toolwright_error(error_meta: Mapping[str, Any]) -> tuple[str, JSONObject]:
    """Return the code and the data of an error from a Toolwright server."""
    code = error_meta.get("error_code")
    try:
        data = plain({key: each for key, each in error_meta.items() if key != "error_code"})
    except InvalidJSON:
        data = None
    is_code = isinstance(code, str) and 0 < len(code) <= MAX_NAME and one_line(code)
    return str(code) if is_code else FAILED, data if isinstance(data, dict) else {}


def _mismatch(structured: JSON, output: JSONObject, has_structured: bool) -> list[str]:
    """Return a line of text if the result does not match the schema. Empty if it does or the schema is unreadable."""
    if not has_structured:
        return [f"{_NO_MATCH}: there is no structured content."]
    try:
        validator = compile_promise(output)
    except InvalidSchema:
        return []
    errors = validation_errors(validator, structured)
    return [sentence(f"{_NO_MATCH}: {brief(join_errors(errors), _MAX_ERROR)}")] if errors else []


_BLOCK_KEYS = frozenset(
    {
        "type",
        "text",
        "data",
        "blob",
        "resource",
        "uri",
        "mimeType",
        "mime_type",
        "annotations",
        "_meta",
        "meta",
    }
)
"""Fields of content blocks, in the spelling of the protocol and of Python."""


def _is_text(structured: JSON, texts: Sequence[str]) -> bool:
    """Return whether the structured content is the text itself, which a model would read with its quotes escaped."""
    match structured:
        case {"result": str(text)} if len(structured) == 1:
            return text == "\n".join(texts)
        case _:
            return isinstance(structured, str) and structured == "\n".join(texts)


def _repeats_content(structured: JSON, texts: Sequence[str], files: Sequence[Attachment]) -> bool:
    """Return whether the structured content repeats the content blocks, as servers do for images."""
    if not files:
        return False
    whole = (
        structured["result"]
        if isinstance(structured, dict) and structured.keys() == {"result"}
        else structured
    )
    encoded = {each.data for each in files}
    parts = whole if isinstance(whole, list) else [whole]
    return bool(parts) and all(_repeats_block(part, texts, encoded) for part in parts)


def _repeats_block(part: JSON, texts: Sequence[str], encoded: Set[str]) -> bool:
    if isinstance(part, str):
        return part in texts or _standard(part) in encoded
    if not isinstance(part, dict) or not part.keys() <= _BLOCK_KEYS:
        return False
    resource = part.get("resource")
    if isinstance(resource, dict):
        return _repeats_block(resource, texts, encoded)
    held = next((part[key] for key in _FILE_KEYS if isinstance(part.get(key), str)), None)
    return part.get("text") in texts if held is None else _standard(str(held)) in encoded


def _standard(base64: str) -> str:
    """Convert base64 text to the standard alphabet without line breaks. Pydantic writes the URL-safe alphabet."""
    return "".join(base64.split()).replace("-", "+").replace("_", "/")


def _with_file_names(structured: JSON, files: Sequence[Attachment]) -> JSON:
    """Replace base64 text that is also a file of the result with the name of that file."""
    names = {each.data: f"[file {each.name}]" for each in files if each.data}
    if not names:
        return structured

    def replaced(part: JSON) -> JSON:
        if isinstance(part, str):
            return names.get(_standard(part), part)
        if isinstance(part, list):
            return [replaced(each) for each in part]
        return {key: replaced(each) for key, each in part.items()} if isinstance(part, dict) else part

    return replaced(structured)


def _with_text(value: JSON, text: str) -> JSON:
    """Add text that differs from the structured content, as `text`."""
    if not text:
        return value
    if isinstance(value, dict) and "text" not in value:
        return {**value, "text": text}
    return {"result": value, "text": text}


def _says_the_same(text: str, structured: JSON) -> bool:
    """Return whether the text repeats the structured content or one of its values, as JSON or as plain text."""
    values = [structured, *(structured.values() if isinstance(structured, dict) else ())]
    if text in values:
        return True
    try:
        return parse_json(text) in values
    except ValueError:
        return False


def takes_long(answer: types.CallToolResult) -> bool:
    """Return whether reading the result takes more than a millisecond: many parts, a large file or a large object."""
    return (
        len(answer.content) > MANY_PARTS
        or is_large(_structured_content(answer))
        or any(len(_longest(block)) > LARGE for block in answer.content)
    )


def _longest(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(data=data) | types.AudioContent(data=data):
            return data
        case types.EmbeddedResource(resource=types.BlobResourceContents(blob=blob)):
            return blob
        case _:
            return ""


def parsed_answer(answer: Mapping[str, Any]) -> types.CallToolResult:
    """Parse an answer that the SDK did not parse. Raises `ValueError` for an invalid result."""
    return types.CallToolResult.model_validate(readable_answer(answer), by_name=False)


def readable_answer(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the answer to a call in a form that the SDK can read in either revision.

    An unknown block becomes one line of text. Structured content that is not an object is moved to the metadata, and
    can occur without content.
    """
    structured, content = answer.get("structuredContent"), answer.get("content")
    if structured is not None and not isinstance(structured, dict):
        meta = answer.get("_meta")
        fields = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
        answer = {key: each for key, each in answer.items() if key != "structuredContent"}
        answer["_meta"] = {**fields, STRUCTURED: structured}
    if content is None and structured is not None:
        return {**answer, "content": []}
    if not isinstance(content, list):
        return answer
    blocks = cast("list[Any]", content)
    if all(map(_is_block, blocks)):
        return answer
    return {**answer, "content": [each if _is_block(each) else _omission(each) for each in blocks]}


_BLOCK: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


def _is_block(block: Any) -> bool:  # whatever the server sent
    """Return whether the SDK can read the block. Plain texts and images are accepted without parsing."""
    match block:
        case {"type": "text", "text": str()} if len(block) == 2:
            return True
        case {"type": "image", "data": str(), "mimeType": str()} if len(block) == 3:
            return True
        case {"type": str()}:
            try:
                _BLOCK.validate_python(block, by_name=False)
            except ValidationError:
                return False
            return True
        case _:
            return False


def _omission(block: Any) -> dict[str, Any]:  # whatever the server sent
    """Return a line in place of an unreadable block."""
    kind = cast("dict[str, Any]", block).get("type") if isinstance(block, dict) else None
    kind_name = f"the kind {brief(kind, 60)!r}" if isinstance(kind, str) else "an unknown kind"
    return {"type": "text", "text": f"[Content of {kind_name} is left out: it cannot be read.]"}


def content_of(blocks: Sequence[types.ContentBlock]) -> tuple[list[str], list[Attachment]]:
    """Return the texts and files of these blocks. A file that is not base64 becomes a line of text."""
    texts: list[str] = []
    files: list[Attachment] = []
    for block in blocks:
        _add(block, texts, files)
    return texts, files


def _add(block: types.ContentBlock, texts: list[str], files: list[Attachment]) -> None:
    match block:
        case types.TextContent(text=text):
            texts.append(text)
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            number = 1 + sum(each.mime_type == kind for each in files)
            name = _sent_name(block.meta) or media_name(kind, number, block.type)
            _add_file(name, kind, data, texts, files)
        case types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text=text)):
            texts.append(f"{uri}:\n{text}" if uri else text)
        case types.EmbeddedResource(resource=types.BlobResourceContents(blob=blob, mime_type=kind) as held):
            name = _sent_name(held.meta) or _file_name(held.uri)
            _add_file(name, kind or "", blob, texts, files)
        case types.ResourceLink(uri=uri, name=name):
            texts.append(f"{name}: {uri}")
        case _:
            pass


def _add_file(name: str, kind: str, data: str, texts: list[str], files: list[Attachment]) -> None:
    kind = _ANY_KIND if not kind or unwritable(kind) else kind
    file = unchecked(name=name, mime_type=kind, data=_standard(data))
    if not _is_base64(file):
        bare = file.data.rstrip("=")
        file = changed(file, data=f"{bare}{'=' * (-len(bare) % 4)}")
        if not bare or not _is_base64(file):
            texts.append(f"[The file {brief(name, MAX_NAME)} is left out: it is not base64.]")
            return
    files.append(file)


def _is_base64(file: Attachment) -> bool:
    try:
        file.read()
    except ValueError:
        return False
    return True


def _sent_name(meta: Mapping[str, Any] | None) -> str | None:
    """Return the file name from a Toolwright server, if it is valid."""
    name = (meta or {}).get(FILE_NAME)
    fits = isinstance(name, str) and name.strip() and one_line(name) and len(name) <= MAX_NAME
    return str(name) if fits and not unwritable(str(name)) else None


def _file_name(uri: str) -> str:
    """Return the last part of a URI as a file name."""
    try:
        path = urlsplit(uri).path
    except ValueError:
        path = ""
    name = clean_text(unquote(path.rstrip("/").rpartition("/")[2])).strip()
    return name or "file"


class CreatedTask(types.Result):
    """The answer to a call that continues as a task (2026-07-28)."""

    model_config = ConfigDict(extra="ignore")

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: float | None = None
    ttl_ms: float | None = None


class TaskParams(types.RequestParams):
    """Parameters that identify a task."""

    task_id: str


class AnswerParams(TaskParams):
    """Parameters with the answers to a task's questions."""

    input_responses: dict[str, Any]


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    """Request for the status of a task."""

    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class TaskResult(types.Request[TaskParams, Literal["tasks/result"]]):
    """Request for the result of a finished task (2025-11-25)."""

    method: Literal["tasks/result"] = "tasks/result"
    params: TaskParams
    name_param = "taskId"


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    """Request to cancel a task."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


class UpdateTask(types.Request[AnswerParams, Literal["tasks/update"]]):
    """Request with the answers to a task's questions (2026-07-28)."""

    method: Literal["tasks/update"] = "tasks/update"
    params: AnswerParams
    name_param = "taskId"


class RawResult(types.Result):
    """An answer as the server sent it."""

    model_config = ConfigDict(extra="allow")

    @property
    def fields(self) -> dict[str, Any]:
        """All fields, with the metadata, if any, as `_meta`."""
        fields = dict(self.model_extra or {})
        return {**fields, "_meta": self.meta} if self.meta else fields
