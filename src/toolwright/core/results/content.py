"""Text, images and files that a tool returns (S2 §5 and §6), and their validation."""

import binascii
import mimetypes
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest
from toolwright.core.plain import unwritable
from toolwright.core.value import changed, value


@value
class TextContent:
    """Plain text (S2 §6.1)."""

    text: str
    type: Literal["text"] = "text"


@value
class ImageContent:
    """An inline image: base64 text and its MIME type, such as `image/png` (S2 §6.2)."""

    data: str
    mime_type: str
    type: Literal["image"] = "image"


ToolContent: TypeAlias = TextContent | ImageContent


@value
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


@value
class AttachmentRef:
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
P = TypeVar("P", bound=Part)

LARGE = 1024 * 1024
"""Maximum number of base64 characters that are decoded within two milliseconds."""

_SIZES = frozenset({"width", "height", "size"})
_OPTIONAL = frozenset({"width", "height", "description", "digest"})
_PROSE = frozenset({"text", "description"})  # can be any text, including an empty one
_LARGEST = 2**53  # the largest integer that every JSON parser reads exactly


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
    for field in fields(part):
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
    if type(value) is float and name in _SIZES and value.is_integer() and 0 <= value < _LARGEST:
        return int(value)
    return value


def _encoded(data: bytes | bytearray | memoryview) -> Any:  # or any other value that a caller has passed
    return b64encode(data).decode() if isinstance(data, bytes | bytearray | memoryview) else data  # pyright: ignore[reportUnnecessaryIsInstance]  # user input


def _fault(name: str, value: object) -> str | None:
    """Return the error of an invalid field, or None."""
    if value is None and name in _OPTIONAL:
        return None
    if name in _SIZES:
        fits = type(value) is int and 0 <= value < _LARGEST
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
