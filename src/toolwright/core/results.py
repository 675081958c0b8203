"""Results of tools (S2 §5 and §6): text, images and files; and conversion of a handler's return value (D2)."""

import binascii
import logging
import mimetypes
import traceback
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard, TypeVar, cast

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidJSON, InvalidRequest
from toolwright.core.forms import exception_text
from toolwright.core.json_value import JSON, JSONObject, plain, unwritable
from toolwright.core.text import error_message
from toolwright.core.value import Value, changed

_log = logging.getLogger("toolwright.results")  # return values of handlers are not logged
_EXTENSIONS = {"jpeg": "jpg", "svg+xml": "svg", "x-icon": "ico", "vnd.microsoft.icon": "ico"}
P = TypeVar("P", bound="Part")
LARGE = 1024 * 1024
"""Maximum number of base64 characters that are decoded within two milliseconds."""
_MAX_INTEGER = 2**53  # the largest integer that every JSON parser reads exactly


class TextContent(Value):
    """Plain text (S2 §6.1)."""

    text: str
    type: Literal["text"] = "text"


class ImageContent(Value):
    """An inline image: base64 text and its MIME type, such as `image/png` (S2 §6.2)."""

    data: str
    mime_type: str
    type: Literal["image"] = "image"


ToolContent: TypeAlias = TextContent | ImageContent


@dataclass(frozen=True, slots=True, init=False)
class Attachment:
    """A new file: `data` is base64 text or bytes, stored as base64; `width` and `height` are pixels (S2 §5.1).

    Raises `InvalidRequest` for an invalid field. Base64 text of more than 1 MiB is validated when the file is used.
    """

    name: str
    mime_type: str
    data: str
    width: int | None = None
    height: int | None = None

    def __init__(
        self,
        *,
        name: str,
        mime_type: str,
        data: str | bytes | bytearray | memoryview,
        width: int | None = None,
        height: int | None = None,
    ) -> None:
        text = data if isinstance(data, str) else _encoded(data)
        fields = {"name": name, "mime_type": mime_type, "data": text, "width": width, "height": height}
        for field, raw in fields.items():
            number = _integer(field, raw)
            error = _fault(field, number)
            if error is None and field == "data" and len(text) <= LARGE and not _is_base64(text):
                error = f"base64 text, not {brief_value(text)}."
            if error is not None:
                raise InvalidRequest(f"Attachment {brief_value(name)}: {field} must be {error}")
            object.__setattr__(self, field, number)

    @classmethod
    def from_path(
        cls, path: str | PathLike[str], *, name: str | None = None, mime_type: str | None = None
    ) -> "Attachment":
        """Read a local file. Its name and MIME type are those of the path unless given.

        Raises `OSError` if the file cannot be read.
        """
        source = Path(path)
        guessed = mimetypes.guess_type(source.name)[0] or "application/octet-stream"
        return cls(name=name or source.name, mime_type=mime_type or guessed, data=source.read_bytes())

    def read(self) -> bytes:
        """Return the bytes. Raises `ValueError` if `data` is not base64 text."""
        return decoded(self.data)


def unchecked(
    *, name: str, mime_type: str, data: str, width: int | None = None, height: int | None = None
) -> Attachment:
    """Return an attachment without validation.

    It is validated where it is used, so that the error can name its position.
    """
    attachment: Attachment = object.__new__(Attachment)
    fields = {"name": name, "mime_type": mime_type, "data": data, "width": width, "height": height}
    for field, raw in fields.items():
        object.__setattr__(attachment, field, raw)
    return attachment


class AttachmentRef(Value):
    """A file of the thread, identified by `path`; `size` is in bytes (S2 §5.3).

    `digest` is the key of the bytes in the file store; handlers need not set it.
    """

    id: str
    path: str
    name: str
    mime_type: str
    size: int
    type: Literal["file"] = "file"
    width: int | None = None
    height: int | None = None
    description: str | None = None
    digest: str | None = None


Part: TypeAlias = Attachment | AttachmentRef | ImageContent | TextContent


_SIZES = frozenset({"width", "height", "size"})
_OPTIONAL = frozenset({"width", "height", "description", "digest"})
_PROSE = frozenset({"text", "description"})  # can be any text, including an empty one


class InvalidField(Exception):
    """A field is invalid. `place` is the index of the part, from 0, and the field."""

    def __init__(self, message: str, place: tuple[int, str] | None = None) -> None:
        super().__init__(message)
        self.place = place


def has_large_file(value: object) -> bool:
    """Return whether a handler's return value has files that take milliseconds to validate."""
    attachments = getattr(value, "attachments", None)
    parts = cast("Sequence[object]", attachments if isinstance(attachments, list | tuple) else (value,))
    if isinstance(value, list):
        parts = cast("list[object]", value)  # isinstance does not check the items
    return any(
        isinstance(part, Attachment | ImageContent) and isinstance(part.data, str) and len(part.data) > LARGE  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        for part in parts
    )


def checked_parts(parts: Sequence[P], what: str) -> list[P]:
    """Return the parts, with a size such as `800.0` as an integer.

    Raises `InvalidField` for the first invalid field.
    """
    checked = checked_fields(parts, what)
    for number, part in enumerate(checked, 1):
        if isinstance(part, Attachment | ImageContent) and not _is_base64(part.data):
            raise InvalidField(
                f"{what} {number}: data must be base64 text, not {brief_value(part.data)}.",
                (number - 1, "data"),
            )
    return checked


def checked_fields(parts: Sequence[P], what: str) -> list[P]:
    """Validate all fields except the content of `data`, for callers that decode it next."""
    return [_checked(part, what, number) for number, part in enumerate(parts)]


def _checked(part: P, what: str, number: int) -> P:
    for field in fields(part):  # type: ignore[arg-type]  # values have the fields of dataclasses
        raw = getattr(part, field.name)
        value = _integer(field.name, raw)
        if value is not raw:
            part = changed(part, **{field.name: value})
        why = _fault(field.name, value)
        if why is not None:
            raise InvalidField(f"{what} {number + 1}: {field.name} must be {why}", (number, field.name))
    return part


def _integer(name: str, value: object) -> object:
    """Return the value, with a size such as `800.0` as an integer."""
    if type(value) is float and name in _SIZES and value.is_integer() and 0 <= value < _MAX_INTEGER:
        return int(value)
    return value


def _encoded(data: bytes | bytearray | memoryview) -> Any:  # or any other value that a caller has passed
    return b64encode(data).decode() if isinstance(data, bytes | bytearray | memoryview) else data  # pyright: ignore[reportUnnecessaryIsInstance]  # user input


def _fault(name: str, value: object) -> str | None:
    """Return the error of an invalid field, or None."""
    if value is None and name in _OPTIONAL:
        return None
    if name in _SIZES:
        fits = type(value) is int and 0 <= value < _MAX_INTEGER
        return None if fits else f"a whole number, not {brief_value(value)}."
    if not isinstance(value, str):
        return f"{'base64 text' if name == 'data' else 'text'}, not {brief_value(value)}."
    if name in _PROSE or name == "data" or (value and not unwritable(value)):
        return None
    return f"text that is not empty and holds neither NUL nor a lone surrogate, not {brief_value(value)}."


def decoded(data: str) -> bytes:
    """Return the decoded base64 text. Decodes in pieces so that other threads can run. Raises `ValueError`."""
    *pieces, last = [data[first : first + LARGE] for first in range(0, len(data), LARGE)] or [""]
    if any(piece.endswith("=") for piece in pieces):
        raise ValueError("padding within base64 text")
    return b"".join([binascii.a2b_base64(piece, strict_mode=True) for piece in (*pieces, last)])


def _is_base64(value: str) -> bool:
    try:
        decoded(value)
    except ValueError:
        return False
    return True


class ToolResult(Value):
    """The outcome of one tool call (S2 §4). A tool's failure is data, never an exception.

    `result` is text or a JSON value. `stack` is recorded and never sent to a model. `error_code` and `error_data`
    describe an error in machine-readable form.
    """

    status: Literal["success", "error"]
    result: JSON = None
    error: str | None = None
    stack: str | None = None
    attachments: tuple[Attachment | AttachmentRef, ...] = ()
    error_code: str | None = None
    error_data: JSONObject | None = None

    @classmethod
    def ok(
        cls, result: JSON = None, attachments: tuple[Attachment | AttachmentRef, ...] = ()
    ) -> "ToolResult":
        """Return a success."""
        return cls(status="success", result=result, attachments=attachments)

    @classmethod
    def fail(
        cls,
        error: str,
        *,
        stack: str | None = None,
        error_code: str | None = None,
        error_data: JSONObject | None = None,
    ) -> "ToolResult":
        """Return a failure, with a message that the model can act on."""
        return cls(status="error", error=error, stack=stack, error_code=error_code, error_data=error_data)


class RemoteTask(Value):
    """A task that an MCP server executes, by its id at the server. It is polled after `poll` seconds.

    The server keeps it for `kept` seconds. `output` is the schema of its structured result, `place` the digest of the
    server's location, `session` the id of the HTTP session in which it was created.
    """

    id: str
    server: str
    output: JSONObject | None = None
    place: str | None = None
    session: str | None = None
    poll: float | None = None
    kept: float | None = None


class Pending(Value):
    """A result that is submitted later, under the call's id.

    `wait` is how many seconds the run waits for it inline. None answers the model immediately with `{"status":
    "pending"}`, and the result arrives in the inbox (S3 `isAsync`). `expires_in` is the number of seconds in which a
    submission is accepted. `task` is the MCP server's task for the call, from which the result is fetched.
    """

    wait: float | None = None
    expires_in: float | None = None
    task: RemoteTask | None = None


Outcome: TypeAlias = ToolResult | Pending

CALL_CANCELLED = ToolResult.fail("Tool call cancelled")
"""Result of an open call that was cancelled, or whose result has no reader."""


def as_result(value: object) -> ToolResult:
    """Convert a handler's return value to a result.

    A `ToolResult`, a text or image content, or a list of these is a result; any other value is data. Data that is not
    JSON gives an error result that names the position.
    """
    if type(value) is str or value is None:
        return ToolResult(status="success", result=value)
    kind = type(value)
    try:
        if kind is not dict:
            if isinstance(value, ToolResult):
                return _all_checked(value)
            if isinstance(value, TextContent | ImageContent):
                return _of_content([value])
            if _is_content(value):
                return _of_content(value)
        elif "error" in value and value.get("status") == "error" and value.keys() <= _RESULT_KEYS:  # type: ignore[attr-defined,operator]  # a dict
            _warn_once()
        return ToolResult(status="success", result=plain(value))
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


def _all_checked(result: ToolResult) -> ToolResult:
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
                f"An attachment must be an Attachment or an AttachmentRef, not {brief_value(each)}."
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
