"""JSON as a type, and its one way in and out of text."""

import json
from collections.abc import Callable
from typing import TypeAlias

from toolwright.core.errors import InvalidJSON
from toolwright.core.text import sentence

JSON: TypeAlias = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None
JSONObject: TypeAlias = dict[str, JSON]

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode
_encode_unescaped = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def dumps(value: JSON) -> str:
    """Compact ASCII JSON. What JSON cannot carry (NaN, bytes, sets, cycles) raises `InvalidJSON`."""
    return _written(value, _encode)


def dumps_unescaped(value: JSON) -> str:
    """The same with letters as they are, a third of the length or more; ASCII where a lone surrogate is, for UTF-8.

    Raises `InvalidJSON` like `dumps`.
    """
    text = _written(value, _encode_unescaped)
    return dumps(value) if has_half_characters(text) else text


def has_half_characters(text: str) -> bool:
    """Whether the text holds a lone surrogate, half a character, which UTF-8 cannot carry."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _written(value: JSON, encode: Callable[[JSON], str]) -> str:
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJSON(sentence(f"This value cannot be written as JSON: {error}")) from error
