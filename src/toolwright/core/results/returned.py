"""Conversion of a handler's return value or exception to a `ToolResult` (D2)."""

import logging
import traceback
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from typing import TypeGuard, cast

from toolwright.core.errors import InvalidJSON
from toolwright.core.forms import exception_text
from toolwright.core.plain import plain
from toolwright.core.results.content import (
    Attachment,
    AttachmentRef,
    ImageContent,
    InvalidField,
    TextContent,
    ToolContent,
    checked_parts,
    unchecked,
)
from toolwright.core.results.result import ToolResult
from toolwright.core.text import error_message
from toolwright.core.value import maker

_log = logging.getLogger("toolwright.results")  # return values of handlers are not logged
_success = maker(
    ToolResult,
    "result",
    status="success",
    error=None,
    stack=None,
    attachments=(),
    error_code=None,
    error_data=None,
)
_EXTENSIONS = {"jpeg": "jpg", "svg+xml": "svg", "x-icon": "ico", "vnd.microsoft.icon": "ico"}


def as_result(value: object) -> ToolResult:
    """Convert a handler's return value to a result.

    A `ToolResult`, a text or image content, or a list of these is a result; any other value is data. Data that is not
    JSON gives an error result that names the position.
    """
    if type(value) is str or value is None:
        return _success(value)
    kind = type(value)
    try:
        if kind is not dict:
            if isinstance(value, ToolResult):
                return _checked(value)
            if isinstance(value, TextContent | ImageContent):
                return _of_content([value])
            if _is_content(value):
                return _of_content(value)
        elif "error" in value and value.get("status") == "error" and value.keys() <= _RESULT_KEYS:  # type: ignore[attr-defined,operator]  # a dict
            _warn_once()
        return _success(plain(value))
    except InvalidField as fault:
        return ToolResult.fail(f"The tool returned invalid content. {fault}")
    except InvalidJSON as error:
        return ToolResult.fail(f"The tool returned a value that is not JSON: {error.message}")


_RESULT_KEYS = frozenset({"status", "result", "error", "stack", "attachments", "error_code", "error_data"})


@cache
def _warn_once() -> None:
    _log.warning(
        "A tool returned a dict with `status` and `error`: that is data, and its call succeeded. "
        "Return `tw.ToolResult.fail(...)` for an error result."
    )


def as_failure(error: BaseException) -> ToolResult:
    """Return an error result for a handler's exception: its message, or the name of its type."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # Python wraps a `StopIteration` raised in a coroutine
    return ToolResult.fail(_message(error), stack=_stack(error))


def _checked(result: ToolResult) -> ToolResult:
    """Return a handler's own result with its parts validated and normalized."""
    if result.status not in ("success", "error"):
        return ToolResult.fail(f"The tool returned a result with the status {result.status!r}.")
    try:
        attachments = _attachments(result.attachments)
        value = result.result if type(result.result) is str else plain(result.result)
        more = plain(result.error_data)
    except InvalidField as fault:
        return ToolResult.fail(f"The tool returned an invalid result. {fault}")
    except InvalidJSON as error:
        return ToolResult.fail(f"The tool returned a result that is not JSON: {error.message}")
    failed = result.status == "error"
    return ToolResult(
        status=result.status,
        result=value,
        error=(_text(result.error) or "The tool failed.") if failed else None,
        stack=_text(result.stack),
        attachments=attachments,
        error_code=_text(result.error_code),
        error_data=more if isinstance(more, dict) else None,
    )


def _attachments(value: object) -> tuple[Attachment | AttachmentRef, ...]:
    if not isinstance(value, Iterable):
        raise InvalidField("attachments must be a list.")
    attachments = tuple(cast("Iterable[object]", value))  # isinstance does not check the items
    for each in attachments:
        if not isinstance(each, Attachment | AttachmentRef):
            raise InvalidField(
                f"An attachment must be an Attachment or an AttachmentRef, not a {type(each).__name__}."
            )
    checked = cast("tuple[Attachment | AttachmentRef, ...]", attachments)  # validated above
    return tuple(checked_parts(checked, "Attachment"))


def _text(value: object) -> str | None:
    """Convert a value to text: an enum's value, or `str` of any other value."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or type(value) is str:
        return value
    try:
        return str(value)
    except (Exception, SystemExit):  # noqa: BLE001 - a user's value may not even have a text
        return type(value).__name__


def _is_content(value: object) -> TypeGuard[Sequence[ToolContent]]:
    if not isinstance(value, list) or not value:
        return False
    parts = cast("list[object]", value)  # isinstance does not check the items
    return all(isinstance(part, TextContent | ImageContent) for part in parts)


def _of_content(parts: Sequence[ToolContent]) -> ToolResult:
    """Return texts joined by line breaks; images as attachments `image.png`, `image-2.png`, …"""
    parts = checked_parts(parts, "Content")
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    images = [part for part in parts if isinstance(part, ImageContent)]
    attachments = tuple(
        unchecked(name=media_name(image.mime_type, number), mime_type=image.mime_type, data=image.data)
        for number, image in enumerate(images, 1)
    )
    text = "\n".join(texts) if texts else attached_text(attachments)
    return ToolResult.ok(text, attachments)


def attached_text(attachments: Sequence[Attachment | AttachmentRef]) -> str:
    """Return the text of a result that consists of images only."""
    return f"Attached: {', '.join(each.name for each in attachments)}"


def media_name(mime_type: str, number: int = 1, kind: str = "image") -> str:
    """Return the file name of content without one: `image.png`, `image-2.png`, …"""
    subtype = mime_type.partition(";")[0].rpartition("/")[2].strip().lower()
    extension = _EXTENSIONS.get(subtype, subtype)
    if not extension.isalnum():
        extension = "bin"
    return f"{kind}.{extension}" if number == 1 else f"{kind}-{number}.{extension}"


def _message(error: BaseException) -> str:
    try:
        return error_message(error, exception_text(error).strip(), exception_text)
    except (Exception, SystemExit):  # noqa: BLE001 - a user's exception may not even have a text
        return type(error).__name__


def _stack(error: BaseException) -> str | None:
    try:
        return "".join(traceback.format_exception(error))
    except (Exception, SystemExit):  # noqa: BLE001 - the same
        return None
