"""Text, images and files as a handler hands them over, checked field by field (S2 §5 and §6)."""

import binascii
from collections.abc import Sequence
from dataclasses import fields
from typing import TypeAlias

from toolwright.core.asked import shown
from toolwright.core.content import Attachment, AttachmentRef, ImageContent, TextContent
from toolwright.core.plain import unwritable

Part: TypeAlias = Attachment | AttachmentRef | ImageContent | TextContent

_SIZES = frozenset({"width", "height", "size"})
_OPTIONAL = frozenset({"width", "height", "description", "digest"})
_PROSE = frozenset({"text", "description"})  # any text will do, also none
_LARGEST = 2**53  # a number that every reader of JSON takes as it is


class Faulty(Exception):
    """A field is not what it must be; the message says which, `place` the part's number from 0, and the field."""

    def __init__(self, message: str, place: tuple[int, str] | None = None) -> None:
        super().__init__(message)
        self.place = place


def check_parts(parts: Sequence[Part], what: str) -> None:
    """Raise `Faulty` for the first field that is not what it must be."""
    for number, part in enumerate(parts, 1):
        for field in fields(part):
            why = _fault(field.name, getattr(part, field.name))
            if why is not None:
                raise Faulty(f"{what} {number}: {field.name} must be {why}", (number - 1, field.name))


def _fault(name: str, value: object) -> str | None:
    """What the field must be, and is not."""
    if value is None and name in _OPTIONAL:
        return None
    if name in _SIZES:
        whole = type(value) is int and 0 <= value < _LARGEST
        return None if whole else f"a whole number, not {shown(value)}."
    if name == "data":
        return None if _is_base64(value) else f"base64 text, not {shown(value)}."
    if not isinstance(value, str):
        return f"text, not {shown(value)}."
    if name in _PROSE or (value and not unwritable(value)):
        return None
    return f"text that is not empty and holds neither NUL nor a lone surrogate, not {shown(value)}."


def _is_base64(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return False
    return True
